"""Tasks added to a run one by one are, bit for bit, those of a run that planned them; of facts and classes alike."""

import random

import pytest

from factlearn.errors import DatasetError, LanguageError, RunError
from factlearn.facts import Fact
from factlearn.learning.additions import learn_data
from factlearn.learning.runs import Run
from factlearn.lifelong.registry import METHODS
from tests.learning.growing import LATER, write_manifest
from tests.learning.helpers import assert_same_run, same_bits, some_in_ci, tensors

MERGES = ("imm-mean", "imm-mode")
"""Methods that merge networks at the end of the sequence: if tasks are added, after the third and the fourth too."""


def methods(learn):
    return [name for name in METHODS if name != "joint" and learn in METHODS[name].problems]


@pytest.mark.parametrize("name", some_in_ci(methods("facts")))
def test_facts_added_one_by_one_end_with_the_weights_of_tasks_planned_ahead(facts, tmp_path, name):
    """Although every photo of the first three tasks was deleted, and two words were new."""
    planned, grown = facts.planned(tmp_path / "planned", name), facts.grown(tmp_path / "grown", name)
    assert grown.task_names() == planned.task_names()
    for stage in (4, 5) if name in MERGES else range(1, 6):
        merged = name in MERGES and stage == 4
        assert merged or same_bits(tensors(planned, stage, "model"), tensors(grown, stage, "model")), stage
    assert same_bits(tensors(planned, 5, "strategy"), tensors(grown, 5, "strategy"))
    for stage in range(1, 4):
        for task in planned.stage(stage)["tasks"]:
            expected = planned.result().evaluations[stage - 1].task(task, "exact")
            merged = name in MERGES and stage == 3
            assert merged or grown.result().evaluations[stage - 1].task(task, "exact") == expected
    last = [run.result().final.exact.tasks["task 5"] for run in (planned, grown)]
    assert last[0] == last[1]
    assert grown.result().final.exact.tasks["task 1"].map is None  # its photos are gone


@pytest.mark.parametrize("name", some_in_ci(methods("classes")))
def test_classes_added_one_by_one_end_with_the_weights_of_tasks_planned_ahead(classes, tmp_path, name):
    planned, grown = classes.planned(tmp_path / "planned", name), classes.grown(tmp_path / "grown", name)
    assert same_bits(tensors(planned, 5, "model"), tensors(grown, 5, "model"))
    assert same_bits(tensors(planned, 5, "strategy"), tensors(grown, 5, "strategy"))
    final = [run.result().final.accuracy for run in (planned, grown)]
    assert final[1]["task 5"] == final[0]["task 5"]
    assert "a" not in final[1]  # its photos are gone
    assert [len(grown.model(stage).suffix.heads) for stage in (1, 3, 4, 5)] == [3, 3, 4, 5]
    assert all(grown.model(stage).fingerprint() == grown.stage(stage)["model_fingerprint"] for stage in range(1, 6))


def interrupted(moment, *arguments, **options):
    """Call `learn_data` and kill it as it writes: at the `moment`-th file, folder or line of metrics."""
    from factlearn import files

    seen = []
    sync = files._sync

    def kill(path):
        seen.append(path)
        if len(seen) == moment:
            raise KeyboardInterrupt
        sync(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_sync", kill)
        try:
            learn_data(*arguments, **options)
        except KeyboardInterrupt:
            return True
    return False


def test_a_call_killed_anywhere_and_repeated_gives_the_bits_of_one_never_killed(life, tmp_path):
    """Each call is killed again and again, at places drawn anew, until one gets through."""
    whole = life.begun(tmp_path / "whole")
    life.begun(tmp_path / "cut")
    draw = random.Random(7)
    kills = 0
    for number, data in enumerate(life.later, 4):
        learn_data(whole, data, name=f"task {number}")
        moment = draw.randint(1, 8)
        while interrupted(moment, tmp_path / "cut", data, name=f"task {number}"):
            kills += 1
            moment = draw.randint(1, 60)
    assert kills >= 2
    assert_same_run(Run.open(tmp_path / "whole"), Run.open(tmp_path / "cut"))


@pytest.mark.parametrize("moment", range(1, 12, 3))
def test_a_task_is_recorded_whole_or_not_at_all(facts, tmp_path, moment):
    facts.begun(tmp_path / "run", training__epochs=1)
    before = Run.open(tmp_path / "run")
    assert interrupted(moment, tmp_path / "run", facts.later[0])
    run = Run.open(tmp_path / "run")
    recorded = run.task_names() == [*before.task_names(), "new"]
    assert recorded or run.task_names() == before.task_names()
    assert (LATER[0] in run.data.facts) == recorded
    assert run.result().to_json()["map_all"] == before.result().to_json()["map_all"]


def test_new_words_are_kept_with_the_run(facts, tmp_path):
    run = facts.begun(tmp_path / "run")
    assert "tree" not in run.language()._units
    learn_data(run, facts.later[1])
    assert "tree" in Run.open(run.folder).language()._units
    guesses = Run.open(run.folder).predict([facts.later[1].parent / "5-0.png"], top=9)
    assert "<tree>" in [guess.label for guess in guesses]


def test_a_word_without_a_vector_is_refused_and_nothing_is_added(facts, tmp_path):
    run = facts.begun(tmp_path / "run", training__epochs=1)
    text = facts.later[1].read_text().replace("tree", "zzyzx")
    facts.later[1].write_text(text)
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(LanguageError, match="zzyzx"):
        learn_data(run, facts.later[1])
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


def test_new_photos_of_a_known_fact_are_a_task_that_learns_from_them_alone(facts, tmp_path):
    run = facts.begun(tmp_path / "run", training__epochs=1)
    learned = learn_data(run, write_manifest(tmp_path / "more", "more.csv", [0, 4], range(20, 29)))
    assert learned.tasks().tasks[-1].facts == tuple(sorted([Fact("person", "riding", "bike"), Fact("red ball")]))
    assert len(learned.data) == 36 + 18
    assert learned.metrics()[-1]["stage"] == 4
    labels = [guess.label for guess in learned.predict([tmp_path / "more" / "0-20.png"], top=9)]
    assert len(labels) == len(set(labels)) == 6
    assert "none of these" in labels


def test_a_manifest_without_a_split_gets_one_that_later_rows_do_not_change(facts, tmp_path):
    run = facts.begun(tmp_path / "run", training__epochs=1)
    manifest = write_manifest(tmp_path / "more", "more.csv", [4, 5], range(10), split=False)
    first = learn_data(run, manifest).images.added["more"].samples
    for split in ("train", "test"):
        assert {sample.fact for sample in first if sample.split == split} == set(LATER)
    more = write_manifest(tmp_path / "more", "longer.csv", [4, 5], range(14), split=False).read_text().splitlines()
    rows = manifest.read_text().splitlines()
    longer = tmp_path / "more" / "longer.csv"
    longer.write_text("\n".join([*rows, *(row for row in more if row not in rows)]) + "\n")
    again = learn_data(run, longer, name="longer").images.added["longer"].samples
    assert len(again) == len(first) + 8
    assert {(sample.id, sample.split) for sample in first} <= {(sample.id, sample.split) for sample in again}


def test_epochs_are_those_of_the_call_also_when_it_is_resumed(facts, tmp_path):
    run = facts.begun(tmp_path / "run")
    interrupted(40, run, facts.later[0], epochs=5)
    with pytest.raises(RunError, match="with 5 epochs"):
        learn_data(run, facts.later[0], epochs=4)
    run = learn_data(run, facts.later[0])
    assert [line["epoch"] for line in run.metrics() if (line["stage"], line["event"]) == (4, "epoch")] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_the_same_data_twice_is_learned_once_and_other_data_gets_another_name(facts, tmp_path, capsys):
    run = facts.begun(tmp_path / "run", training__epochs=1)
    learn_data(run, facts.later[0])
    assert learn_data(run, facts.later[0]).finished_stages() == 4
    assert "Nothing to do" in capsys.readouterr().err
    learned = learn_data(run, facts.later[1])
    assert learned.task_names()[3:] == ["new", "new-2"]
    assert [each["name"] for each in learned.description()["added"]] == ["new", "new-2"]
    with pytest.raises(RunError, match="was added with other data"):
        learn_data(run, facts.later[1], name="new")
    with pytest.raises(RunError, match="is a task already"):
        learn_data(run, facts.later[1], name="task 1")
    with pytest.raises(RunError, match="cannot name a task"):
        learn_data(run, facts.later[1], name="../up")


def test_tasks_that_are_left_are_learned_first(life, tmp_path):
    run = life.begun(tmp_path / "run", stop_after=1)
    learned = learn_data(run, life.later[0], name="new")
    assert learned.stage(4)["tasks"] == [*run.task_names()[:3], "new"]


def test_every_task_added_can_be_evaluated_again(life, tmp_path):
    run = life.begun(tmp_path / "run")
    for data in life.later:
        run = learn_data(run, data)
    for stored, fresh in zip(run.result().evaluations, run.result(fresh=True).evaluations, strict=True):
        assert fresh.headline() == pytest.approx(stored.headline(), abs=1e-6)


def test_joint_has_nothing_to_add_to(life, tmp_path):
    run = life.begun(tmp_path / "run", "joint")
    with pytest.raises(RunError, match="nothing to add to"):
        learn_data(run, life.later[0])


def test_photos_cannot_be_added_to_rows_of_numbers(digits_config, classes, tmp_path):
    from tests.learning.helpers import learn

    run = learn(digits_config, tmp_path / "run", training__epochs=1, stop_after=1)
    with pytest.raises(RunError, match="rows of 64 numbers"):
        learn_data(run, classes.later[0])


def test_tasks_that_share_a_head_need_its_number_of_classes(classes, tmp_path):
    from tests.conftest import draw_shape

    classes.three["model"] = {**classes.three["model"], "heads": "shared"}
    run = classes.begun(tmp_path / "run", training__epochs=1)
    assert len(learn_data(run, classes.later[0]).model().suffix.heads) == 1
    for seed in range(3):
        for side in ("train", "test"):
            draw_shape(classes.later[1] / side / "red" / f"{seed}.png", "round", "red", seed)
    with pytest.raises(DatasetError, match="3 classes"):
        learn_data(run, classes.later[1])
