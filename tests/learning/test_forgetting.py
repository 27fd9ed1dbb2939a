"""Forgetting on purpose leaves a run as if it had never seen the fact, class or photo."""

import json
import shutil

import pytest

from factlearn.errors import FactlearnError, RunError
from factlearn.learning.additions import learn_data
from factlearn.learning.forgetting import forget
from tests.conftest import FACTS
from tests.learning.closed_form import assert_same_knowledge, classes_run, facts_run
from tests.learning.growing import write_manifest
from tests.learning.helpers import learn, tensors


@pytest.mark.parametrize("readout", ["distance", "posterior"])
def test_a_forgotten_fact_was_never_seen(config, tmp_path, readout):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2, 3], [4]], readout=readout)
    never = facts_run(config, tmp_path, "never", [[0, 1], [3], [4]], readout=readout)
    left = forget(whole, [str(FACTS[2])], out=tmp_path / "left")
    assert_same_knowledge(left, never)
    kept = tmp_path / "left"
    assert FACTS[2] not in left.data.facts
    texts = [path.read_text() for path in kept.rglob("*.json*")] + [(kept / "config.yaml").read_text()]
    assert not any(str(FACTS[2]) in text for text in texts)
    guesses = left.predict(sorted((tmp_path / "whole-pictures").glob("2-*.png")), top=9)
    assert str(FACTS[2]) not in {guess.label for guess in guesses}
    assert whole.finished_stages() == 3


def test_a_task_whose_facts_are_all_forgotten_is_gone_and_the_run_learns_on(config, tmp_path):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2], [3]], stop_after=2)
    left = forget(whole, [str(FACTS[2])], out=tmp_path / "left")
    assert left.task_names() == ["whole 1", "whole 3"]
    learn_data(left, write_manifest(tmp_path / "new", "new.csv", [4]))
    never = facts_run(config, tmp_path, "never", [[0, 1], [3], [4]])
    assert_same_knowledge(left, never)


def test_a_forgotten_class_was_never_seen(shapes_config, tmp_path):
    three = ("red", "green", "blue")
    whole = classes_run(shapes_config, tmp_path, "whole", [("a", "round", three), ("bb", "square", three)])
    never = classes_run(shapes_config, tmp_path, "never", [("a", "round", three[:2]), ("bb", "square", three)])
    left = forget(whole, ["a/blue"], out=tmp_path / "left")
    assert_same_knowledge(left, never)
    with pytest.raises(RunError, match="one class"):
        forget(left, ["a/red"], out=tmp_path / "less")


def test_a_photo_is_taken_out_again(config, tmp_path):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2]], readout="distance")
    rows = (tmp_path / "whole-pictures" / "facts.csv").read_text().splitlines()
    (tmp_path / "whole-pictures" / "facts.csv").write_text(
        "\n".join(row for row in rows if "1-4.png" not in row) + "\n"
    )
    never = learn(json.loads(whole.config.model_dump_json(by_alias=True)), tmp_path / "never")
    left = forget(whole, photos=[tmp_path / "whole-pictures" / "1-4.png"], out=tmp_path / "left")
    assert_same_knowledge(left, never)


def test_in_place_the_run_itself_forgets_and_says_how_much_but_not_what(config, tmp_path):
    subsets = {"subsets": {"people": ["<person, *, *>"], "jumps": ["<*, jumping>"]}}
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2, 3]], evaluation=subsets)
    left = forget(whole, ["<person, *, *>"])
    assert left.folder == whole.folder
    assert left.description()["forgotten"]["labels"] == sum(
        fact.subject == "person" and fact.object != "" for fact in FACTS[:4]
    )
    assert "people" not in left.config.evaluation.subsets
    assert left.result(fresh=True).final.map_all > 0


def test_without_its_photos_a_fact_can_only_be_dropped(config, tmp_path):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2, 3]])
    before = tensors(whole, 2, "strategy")
    for photo in (tmp_path / "whole-pictures").glob("2-*.png"):
        photo.unlink()
    with pytest.raises(RunError, match=r"6 training photos .* gone"):
        forget(whole, [str(FACTS[2])], out=tmp_path / "left")
    assert not (tmp_path / "left").exists()
    left = forget(whole, [str(FACTS[2])], out=tmp_path / "left", drop=True)
    assert str(FACTS[2]) not in json.dumps(left.tasks_json())
    assert len(tensors(left, 1, "strategy")["sums.totals"]) == len(before["sums.totals"]) - 1
    assert left.result().final.map_all > 0


def test_what_cannot_be_forgotten_is_refused(config, tmp_path):
    whole = facts_run(config, tmp_path, "whole", [[0, 1], [2]])
    for names, photos, words in (
        (["<cat, eating, fish>"], (), "No fact"),
        (["<person, *, *>", str(FACTS[2])], (), "left with nothing"),
        ((), [tmp_path / "absent.png"], "has not seen"),
        ((), [tmp_path / "whole-pictures" / f"2-{n}.png" for n in range(9)], "without training photos"),
    ):
        with pytest.raises(FactlearnError, match=words):
            forget(whole, names, photos, out=tmp_path / "left")
    shutil.copytree(whole.folder, tmp_path / "left")
    with pytest.raises(RunError, match="exists already"):
        forget(whole, [str(FACTS[2])], out=tmp_path / "left")
    with pytest.raises(RunError, match="closed form"):
        forget(learn(config, tmp_path / "mas", training__epochs=1), [str(FACTS[2])], out=tmp_path / "other")
