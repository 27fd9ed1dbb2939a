"""The report on classifiers: self-contained, true to the predictions, and not for a mix of kinds."""

import csv
import re

import pytest
from typer.testing import CliRunner

from factlearn.classification.config import ClassifyConfig
from factlearn.classification.results import load_result
from factlearn.classification.training import train
from factlearn.cli import app
from factlearn.config import parse_as
from factlearn.errors import FactlearnError
from factlearn.experiments.report.classes import class_changes, write_class_report


def learn(config, out, **strategy):
    return load_result(train(parse_as(ClassifyConfig, {**config, "strategy": strategy}, "test"), out))


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
        assert f"{label} ends with {result.average:.3f} accuracy" in text
    names = {path.stem for path in folder.glob("*.svg")}
    assert {"curves-all", "curves-1", "accuracy-matrix", "forgetting", "classes", "memory"} == names
    assert all(f"{folder.name}/{name}.csv" in text for name in names)


def test_the_numbers_beside_the_page_are_the_runs_own(results, tmp_path):
    _, folder = write_class_report(results, tmp_path / "report.html")
    rows = list(csv.reader((folder / "accuracy-matrix.csv").open()))[1:]
    after_all = {(method, task): float(value) for method, after, task, value in rows if after == "square" and value}
    assert after_all["MAS", "round"] == pytest.approx(results[1].accuracy[-1][0])
    changes = class_changes(results[0])
    assert {change.fact for change in changes} == {f"{colour} (round)" for colour in ("red", "green", "blue")}
    for change in changes:
        name = change.fact.removesuffix(" (round)")
        assert change.then == results[0].class_accuracy(f"round/{name}", 1)
        assert change.now == results[0].class_accuracy(f"round/{name}", 2)
    assert class_changes(results[2]) == []


def test_rows_of_numbers_have_no_pictures(digits_config, tmp_path):
    page, _ = write_class_report([learn(digits_config, tmp_path / "run", name="finetune")], tmp_path / "report.html")
    assert "Forgetting, in pictures" not in page.read_text()
    assert "Which classes were forgotten" in page.read_text()


def test_the_command_takes_classifiers_and_says_what_it_cannot_do(results, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    done = call("report", tmp_path / "mas", tmp_path / "finetune", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.html").is_file()
    asked = call("report", tmp_path / "mas", "--query", "<dog>", "--out", tmp_path / "other.html")
    assert isinstance(asked.exception, FactlearnError)
    assert "leave it out" in str(asked.exception)
    assert not (tmp_path / "other.html").exists()
    compared = call("compare", tmp_path / "mas", tmp_path / "finetune")
    assert "factlearn report" in str(compared.exception)


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
