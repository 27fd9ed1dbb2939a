"""Commands that learn and look at what was learned, for facts and classes alike."""

import json

import pytest

from tests.cli.commands import factlearn, output_of, write


def read_json(*arguments, cwd):
    return json.loads(output_of(*arguments, "--json", cwd=cwd))


@pytest.mark.parametrize(
    ("kind", "headline", "tasks", "rules"),
    [
        ("place", "map_all", ["task 1", "task 2"], {"exact", "prefix"}),
        ("class_place", "average_accuracy", ["round", "square"], {"told", "free"}),
    ],
)
def test_evaluate_prints_json_with_the_headline_first(kind, headline, tasks, rules, request):
    place = request.getfixturevalue(kind)
    result = read_json("evaluate", "run", cwd=place)
    assert 0 <= result[headline] <= 1
    assert result["tasks"] == tasks
    assert set(result["matrix"]) == set(result["forgetting"]) == rules
    assert all(len(rows) == 2 for rows in result["matrix"].values())
    assert [stage["learned"] for stage in result["stages"]] == [tasks[:1], tasks]
    assert read_json("evaluate", "run", "--fresh", cwd=place) == result


def test_evaluate_prints_tables_for_people(place, class_place):
    shown = output_of("evaluate", "run", "--fresh", cwd=place)
    for words in ("MAP after each task", "all, prefix", "all, exact", "average forgetting", "accuracy@10", "MRR"):
        assert words in shown
    shown = output_of("evaluate", "run", cwd=class_place)
    for words in ("Accuracy in percent after each task", "average forgetting", "forward transfer", "network, MB"):
        assert words in shown


def test_train_prints_the_table_of_what_it_learned_and_can_stop_and_resume(class_place):
    shown = output_of("train", "config.yaml", "--out", "stopped", "--tasks", 1, cwd=class_place)
    assert "stopped (mas)" in shown
    assert "round" in shown
    assert read_json("evaluate", "stopped", cwd=class_place)["stages"][-1]["learned"] == ["round"]
    output_of("train", "config.yaml", "--out", "stopped", "--resume", cwd=class_place)
    whole, resumed = (read_json("evaluate", run, cwd=class_place) for run in ("run", "stopped"))
    assert whole["matrix"] == resumed["matrix"]


def test_train_writes_to_a_folder_named_after_the_config_by_default(class_place):
    output_of("train", "rows.yaml", "--tasks", 1, "--set", "training.epochs=1", cwd=class_place)
    assert (class_place / "runs" / "rows" / "config.yaml").is_file()


def test_predict_lists_the_facts_that_images_show(place, manifest):
    image = manifest.parent / "0-8.png"
    (guess,) = read_json("predict", "run", image, cwd=place)
    assert guess.keys() == {"image", "task", "label", "probability"}
    assert guess["label"].startswith("<") or guess["label"] == "none of these"
    told = read_json("predict", "run", image, "--task", "task 2", "--top", 2, cwd=place)
    assert [each["task"] for each in told] == ["task 2"] * 2
    early = read_json("predict", "run", manifest.parent, "--stage", 1, cwd=place)
    assert len(early) == 54
    assert {each["task"] for each in early} == {"task 1"}
    assert "fact" in output_of("predict", "run", image, cwd=place)


def test_predict_lists_the_classes_that_images_show(class_place, shapes):
    image = shapes / "round" / "test" / "red" / "5.png"
    (told,) = read_json("predict", "run", image, "--task", "square", cwd=class_place)
    assert told["task"] == "square"
    free = read_json("predict", "run", image.parent, "--top", 6, cwd=class_place)
    assert len(free) == 3 * 6
    assert free[0]["probability"] == max(guess["probability"] for guess in free[:6])
    assert "class" in output_of("predict", "run", image, cwd=class_place)


def test_a_run_of_facts_is_adapted_continues_and_shows_its_importance(place):
    output_of("train", "config.yaml", "--out", "first", "--tasks", 1, cwd=place)
    fact = json.loads((place / "first" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    write(place, "keep.txt", f"# what must stay\n{fact}\n")
    said = output_of("adapt", "first", "--facts", "keep.txt", "--out", "second", cwd=place)
    assert "factlearn learn second" in said
    assert "100% is kept" in said
    assert "WARNING" not in said
    learned = output_of("learn", "second", "--task", "task 2", cwd=place)
    assert "task 2" in learned
    told = read_json("evaluate", "second", cwd=place)["protection"]
    assert [each["group"] for each in told["fates"]] == ["protected", "rest", "learned since"]
    row = next(line for line in learned.splitlines() if "protected " in line)
    for before, now in zip(told["fates"][0]["before"], told["fates"][0]["now"], strict=True):
        assert f"{before:.3f} → {now:.3f}" in row
    assert row in output_of("evaluate", "second", cwd=place)
    assert read_json("evaluate", "first", cwd=place)["protection"] is None
    assert "shared.0.weight" in output_of("importance", "first", "--out", "omega.png", cwd=place)
    compared = output_of("importance", "first", "--compare", "second", "--stage", 1, "--out", "both.svg", cwd=place)
    assert "correlation" in compared
    assert (place / "both.svg").stat().st_size > 1000
    rows = read_json("memory", "first", "second", cwd=place)
    assert [row["stage"] for row in rows] == [1, 1, 2]
    assert len({row["stored_bytes"] for row in rows}) == 1
    assert "between tasks" in output_of("memory", "run", cwd=place)


def test_adapting_to_a_part_alone_warns_with_the_share_of_importance_that_is_lost(place):
    output_of("train", "config.yaml", "--out", "whole", "--tasks", 1, cwd=place)
    fact = json.loads((place / "whole" / "tasks.json").read_text())["tasks"][0]["facts"][0]
    write(place, "keep.txt", fact)
    adapt = ("adapt", "whole", "--facts", "keep.txt", "--only")
    said = output_of(*adapt, "--out", "only", cwd=place)
    outlook = read_json(*adapt, "--out", "same", cwd=place)["outlook"]
    assert outlook["kept"] < 0.9
    assert f"WARNING: only {outlook['kept']:.0%} of the importance" in said
    both = factlearn(*adapt, "--weight", 2, "--out", "both", cwd=place)
    assert both.returncode == 2
    assert "leave one out" in both.stderr
    output_of("train", "config.yaml", "--out", "free", "--tasks", 1, "--set", "strategy.lambda=0", cwd=place)
    assert "WARNING: lambda is 0" in output_of("adapt", "free", "--facts", "keep.txt", "--out", "none", cwd=place)


def test_a_run_of_classes_is_adapted_and_continues(class_place, shapes):
    output_of("train", "config.yaml", "--out", "first", "--tasks", 1, cwd=class_place)
    adapt = ("adapt", "first", "--class", "red", "--class", "round/blue")
    ambiguous = factlearn(*adapt, "--out", "second", cwd=class_place)
    assert "write it as task/class" in ambiguous.stderr
    output_of("adapt", "first", "--class", "round/red", "--class", "round/blue", "--out", "second", cwd=class_place)
    assert "square" in output_of("learn", "second", "--tasks", 1, cwd=class_place)
    output_of("adapt", "first", "--images", shapes / "round" / "test", "--out", "third", cwd=class_place)
    assert [row["stage"] for row in read_json("memory", "first", "second", cwd=class_place)] == [1, 1, 2]


def test_importance_in_use_is_gathered_while_indexing(place, manifest):
    built = output_of(
        "index", "build", "run", "--images", manifest.parent, "--out", "used", "--learn-importance", cwd=place
    )
    assert "importance gathered from 54 images" in built
    output_of("adapt", "run", "--used", "--out", "to-use", cwd=place)


def test_split_saves_tasks_that_train_takes(place):
    printed = output_of(
        "split", "config.yaml", "--out", "tasks.json", "--dendrogram", "tree.svg", "--json",
        "--set", "tasks.method=agglomerative", cwd=place,
    )  # fmt: skip
    assert json.loads(printed) == json.loads((place / "tasks.json").read_text())
    assert (place / "tree.svg").read_text().startswith("<?xml")
    output_of(
        "train", "config.yaml", "--out", "from-file", "--set", "tasks={method: file, file: tasks.json}",
        "--set", "training.epochs=1", cwd=place,
    )  # fmt: skip


def test_an_interrupted_command_says_how_to_continue(place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("factlearn.learning.results.load_result", interrupted)
    done = factlearn("evaluate", "run", cwd=place)
    assert done.returncode == 130
    assert "--resume" in done.stderr
