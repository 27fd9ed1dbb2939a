"""The report on classifiers: self-contained, true to the predictions, and not for a mix of kinds."""

import csv
import re

import pytest
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.errors import FactlearnError
from factlearn.experiments import comparison
from factlearn.experiments.changes import changes_of, class_accuracies
from factlearn.experiments.naming import group_runs
from factlearn.experiments.report import write_class_report
from factlearn.learning.config import parse_config
from factlearn.learning.training import train


def learn(config, out, **strategy):
    return train(parse_config({**config, "strategy": strategy}, "test"), out).result()


@pytest.fixture
def results(shapes_config, tmp_path):
    return [learn(shapes_config, tmp_path / name, name=name) for name in ("finetune", "mas", "joint")]


def test_the_page_shows_every_class_image_as_the_network_sees_it_after_each_task(results, tmp_path):
    page, folder = write_class_report(results, tmp_path / "report.html", title="Shapes & <colours>", k=2)
    text = page.read_text()
    assert "<script" not in text
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]*)"', text))
    assert "<title>Shapes &amp; &lt;colours&gt;</title>" in text
    frames = re.findall(r'<figure class="image (\w+)"', text)
    galleries = text.count('<p class="note">Learned with ')
    assert galleries == 3
    assert len(frames) == galleries * 2 * (2 + 2 + 1)  # images x stages of the three methods
    assert set(frames) <= {"right", "wrong"}
    for label, result in zip(("FineTune", "MAS", "Joint"), results, strict=True):
        assert f"{label} ends with accuracy {result.final.average:.3f} on average over 2 tasks" in text
    names = {path.stem for path in folder.glob("*.svg")}
    assert {"curves-all", "curves-1", "accuracy-matrix", "forgetting", "classes", "memory"} == names
    assert all(f"{folder.name}/{name}.csv" in text for name in names)


def test_the_numbers_beside_the_page_are_the_runs_own(results, tmp_path):
    _, folder = write_class_report(results, tmp_path / "report.html")
    rows = list(csv.reader((folder / "accuracy-matrix.csv").open()))[1:]
    after_all = {(method, task): float(value) for method, after, task, value in rows if after == "square" and value}
    assert after_all["MAS", "round"] == pytest.approx(results[1].matrix()[-1][0])
    listed = {
        row["class"]: row for row in csv.DictReader((folder / "classes.csv").open()) if row["method"] == "FineTune"
    }
    assert listed.keys() == {f"{colour} (round)" for colour in ("red", "green", "blue")}
    for name, row in listed.items():
        assert float(row["accuracy just after learning"]) == class_accuracies(results[0], 1)[name]
        assert float(row["accuracy at the end"]) == class_accuracies(results[0], 2)[name]


def test_the_page_names_what_was_lost_and_compares_the_methods(results, tmp_path):
    page, _ = write_class_report(results, tmp_path / "report.html", k=1)
    text = page.read_text()
    worst = changes_of(results[0])[0]
    assert f"<td>{worst.name}</td><td>{worst.then:.2f}</td><td>{worst.now:.2f}</td>" in text
    for row in comparison.tests_rows(comparison.paired_tests(group_runs(results))):
        assert "".join(f"<td>{cell}</td>" for cell in row) in text.replace("&lt;", "<")


def test_rows_of_numbers_have_no_pictures(digits_config, tmp_path):
    page, _ = write_class_report([learn(digits_config, tmp_path / "run", name="finetune")], tmp_path / "report.html")
    assert "Forgetting, in pictures" not in page.read_text()
    assert "Which classes were forgotten" in page.read_text()


def test_the_command_takes_classifiers_and_says_what_it_cannot_do(results, shapes_config, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    done = call("report", tmp_path / "mas", tmp_path / "finetune", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.html").is_file()
    asked = call("report", tmp_path / "mas", "--query", "<dog>", "--out", tmp_path / "other.html")
    assert isinstance(asked.exception, FactlearnError)
    assert "leave it out" in str(asked.exception)
    assert not (tmp_path / "other.html").exists()
    data = {**shapes_config["data"], "tasks": ["square", "round"]}
    learn({**shapes_config, "data": data}, tmp_path / "other", name="si")
    mixed = call("report", tmp_path / "mas", tmp_path / "other", "--out", tmp_path / "other.html")
    assert "different data" in str(mixed.exception)


def test_seeds_of_data_that_the_seed_draws_are_one_method(digits_config, tmp_path):
    for seed in (0, 1):
        learn({**digits_config, "seed": seed}, tmp_path / f"run-{seed}", name="finetune")
    folders = [str(tmp_path / f"run-{seed}") for seed in (0, 1)]
    done = CliRunner().invoke(app, ["report", *folders, "--out", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.exception
    assert "<td>FineTune</td><td>2</td>" in (tmp_path / "page.html").read_text()
    other = {**digits_config, "data": {"source": "permuted-digits", "count": 2}}
    other["model"] = {**other["model"], "heads": "shared"}
    learn({**other, "seed": 2}, tmp_path / "other", name="finetune")
    refused = CliRunner().invoke(app, ["report", *folders, str(tmp_path / "other"), "--out", str(tmp_path / "no.html")])
    assert "different data" in str(refused.exception)


def test_a_sweep_of_lambda_adds_its_curve_and_details_of_the_best_only(learned_classes, tmp_path):
    swept = [learned_classes(name="mas", **{"lambda": 10.0**power}) for power in range(-3, 3)]
    _, folder = write_class_report([learned_classes(name="finetune"), *swept], tmp_path / "report.html")
    rows = list(csv.DictReader((folder / "lambda.csv").open()))
    assert [float(row["lambda"]) for row in rows] == [10.0**power for power in range(-3, 3)]
    assert [float(row["accuracy, all"]) for row in rows] == [pytest.approx(each.final.average) for each in swept]
    assert len({row["method"] for row in csv.DictReader((folder / "classes.csv").open())}) == 2
