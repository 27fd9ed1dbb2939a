import csv
import re
import shutil
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from factlearn.cli import app
from factlearn.errors import FactError, FactlearnError, RunError
from factlearn.evaluation.results import RunResult
from factlearn.experiments.changes import changes_of
from factlearn.experiments.paper.cells import slim
from factlearn.experiments.plots import curves, forgetting_bars, heat_map
from factlearn.experiments.report import pdf, write_report
from factlearn.learning.protection import protection_of
from factlearn.learning.runs import Run


@pytest.fixture
def results(learned):
    """The same tasks learned three ways."""
    return [learned(name=name) for name in ("finetune", "mas", "joint")]


class Page(HTMLParser):
    """Counts tags and collects what a page would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.frames, self.ids = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.loads += [values["src"]] if "src" in values else []
        self.ids += [values["id"]] if "id" in values else []
        if tag == "figure" and "image" in values["class"]:
            self.frames.append(values["class"].split()[1])


def test_the_page_is_self_contained_and_shows_every_method_after_every_task(results, tmp_path):
    path = tmp_path / "report.html"
    write_report(results, path, queries=["<person, riding, bike>", "<tree>"], title="Facts & <forgetting>", k=4)
    text = path.read_text()
    page = Page(text)
    assert all(load.startswith("data:image/") for load in page.loads)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert page.tags.count("svg") >= 6
    assert len(page.ids) == len(set(page.ids))
    assert "<title>Facts &amp; &lt;forgetting&gt;</title>" in text
    assert len(page.frames) == 2 * 4 * (2 + 2 + 1)  # queries x images x stages of the three methods
    assert set(page.frames) <= {"right", "wrong"}
    for method, result in zip(("FineTune", "MAS", "Joint"), results, strict=True):
        assert f"{method} ends with MAP {result.final.map_all:.3f}" in text


def test_every_plot_lies_beside_the_page_with_its_numbers(results, tmp_path):
    page, folder = write_report(results, tmp_path / "report.html", k=2)
    names = {path.stem for path in folder.glob("*.svg")}
    assert {"curves-all", "map-matrix", "forgetting", "facts", "memory", "projection", "importance"} <= names
    assert {path.stem for path in folder.glob("*.csv")} == names
    assert all(f"{folder.name}/{name}.svg" in page.read_text() for name in names)
    rows = list(csv.DictReader((folder / "map-matrix.csv").open()))
    mas = results[1]
    last = [float(row["MAP"]) for row in rows if row["method"] == "MAS" and row["after learning"] == "task 2"]
    assert last == pytest.approx(mas.matrix("exact")[-1])


def test_frames_say_which_images_are_right(results, tmp_path):
    path = tmp_path / "report.html"
    write_report(results[2:], path, queries=["<tree>"], k=6)
    labels = re.findall(r'<figure class="image (right|wrong)">.*?title="&lt;(.*?)&gt;"', path.read_text())
    assert len(labels) == 6
    assert all((frame == "right") == (fact == "tree") for frame, fact in labels)


def test_without_queries_the_page_shows_facts_that_were_learned_and_lost(results, tmp_path):
    path = tmp_path / "report.html"
    write_report(results, path, k=3)
    first = {str(fact) for fact in results[0].run.tasks().tasks[0].facts}
    asked = re.findall(r"<h3>&lt;(.*?)&gt;</h3>", path.read_text())
    assert asked
    assert {f"<{name}>" for name in asked} <= first


def test_runs_over_other_tasks_cannot_share_a_page(results, learned, tmp_path):
    other = learned(tasks=3, name="si")
    with pytest.raises(RunError, match="same tasks"):
        write_report([*results, other], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_has_learned_one_task_so_far_has_a_page(learned, tmp_path):
    folder = shutil.copytree(learned(name="finetune").run.folder, tmp_path / "short")
    shutil.rmtree(folder / "stages" / "2")
    write_report([Run.open(folder).result()], tmp_path / "report.html", queries=["<tree>"], k=2)
    text = (tmp_path / "report.html").read_text()
    assert "after <strong>task 1</strong>" in text
    assert "at once" not in text


def test_a_query_that_no_image_answers_is_refused(results, tmp_path):
    with pytest.raises(FactError, match="None of the test images"):
        write_report(results, tmp_path / "report.html", queries=["<dog, riding, bike>"])


def test_a_sweep_of_lambda_adds_its_curve_and_details_of_the_best_only(results, learned, tmp_path):
    swept = [learned(name="mas", **{"lambda": 10.0**i}) for i in range(-3, 3)]
    _, folder = write_report([results[0], *swept], tmp_path / "report.html", k=1)
    rows = list(csv.DictReader((folder / "lambda.csv").open()))
    assert [float(row["lambda"]) for row in rows] == [10.0**i for i in range(-3, 3)]
    methods = {row["method"] for row in csv.DictReader((folder / "facts.csv").open())}
    assert len(methods) == 2


def test_the_command_writes_the_page_and_refuses_what_is_no_run(results, tmp_path, monkeypatch):
    folders = [str(result.run.folder) for result in results]
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", *folders, "--out", str(out), "--query", "<tree>", "-k", "2"])
    assert done.exit_code == 0
    assert out.is_file()
    for wrong, sentence in (([str(tmp_path / "none")], "holds no run"), (folders[:1] * 2, "given twice")):
        refused = CliRunner().invoke(app, ["report", *wrong, "--out", str(tmp_path / "no.html")])
        assert isinstance(refused.exception, FactlearnError)
        assert sentence in str(refused.exception)
    monkeypatch.setattr(pdf, "BROWSERS", ())
    refused = CliRunner().invoke(app, ["report", *folders, "--out", str(tmp_path / "no.html"), "--pdf"])
    assert "Chromium" in str(refused.exception)
    assert not (tmp_path / "no.html").exists()


def test_curves_have_one_panel_per_task_and_name_every_method(results):
    shown = dict(zip(("FineTune", "MAS", "Joint"), results, strict=True))
    svg = curves(shown, [None, "task 1", "sports"]).svg
    assert svg.count(">FineTune<") == 3
    assert svg.count(">MAS<") == 3
    assert results[0].whole_title in svg
    assert "The facts of “sports”" in svg


def test_a_browser_prints_the_page(results, tmp_path):
    try:
        browser = pdf.find_browser()
    except FactlearnError:
        pytest.skip("no Chromium here")
    page, _ = write_report(results[:2], tmp_path / "report.html", k=1)
    written = pdf.write_pdf(page, browser)
    assert written == tmp_path / "report.pdf"
    assert written.read_bytes().startswith(b"%PDF")


@dataclass(frozen=True)
class Stage:
    """Metrics made up for two tasks."""

    tasks: dict[str, float]
    rules: ClassVar[tuple[str, ...]] = ("exact",)
    measure: ClassVar[str] = "MAP"
    whole_title: ClassVar[str] = "All"

    def task(self, name, rule):
        return self.tasks.get(name)

    def whole(self, rule):
        return sum(self.tasks.values()) / 2


def test_tasks_learned_in_another_order_stand_under_their_own_names():
    def course(tasks, first, second):
        stages = [Stage({tasks[0]: first}), Stage({tasks[0]: first / 2, tasks[1]: second})]
        return RunResult(None, tasks, [tasks[:1], tasks], stages)

    courses = {"one": course(["a", "b"], 0.8, 0.6), "other": course(["b", "a"], 0.4, 0.2)}
    rows = {(method, task): value for method, after, task, value in heat_map(courses).rows if after == "b"}
    assert rows["one", "a"] == 0.4
    assert rows["other", "b"] == 0.4
    lost = {(method, task): value for method, task, value in forgetting_bars(courses).rows}
    assert lost["one", "a"] == pytest.approx(0.4)
    assert lost["other", "b"] == pytest.approx(0.2)
    assert ("other", "a", 2, 0.2) in [tuple(row) for row in curves(courses, ["a"]).rows]


def test_the_facts_that_were_lost_are_named_with_their_numbers(results, tmp_path):
    page, _ = write_report(results, tmp_path / "report.html", k=1)
    worst = changes_of(results[0])[0]
    name = worst.name.replace("<", "&lt;").replace(">", "&gt;")
    assert f"<td>{name}</td><td>{worst.then:.2f}</td><td>{worst.now:.2f}</td>" in page.read_text()


def test_a_run_that_an_experiment_slimmed_has_a_page(learned, tmp_path):
    run = Run.open(shutil.copytree(learned(name="mas").run.folder, tmp_path / "slim"))
    slim(run)
    _, folder = write_report([run.result()], tmp_path / "report.html", k=1)
    assert (folder / "importance.svg").is_file()
    assert not (folder / "importance-scatter.svg").exists()


def test_a_run_that_protects_facts_shows_them_before_and_after(learned, tmp_path):
    plain = learned(name="mas")
    fact = str(plain.run.tasks().tasks[0].facts[0])
    result = learned(name="mas", protect=(fact,))
    page, _ = write_report([plain, result], tmp_path / "report.html")
    text = page.read_text()
    protected = protection_of(result.run).fate("protected")
    assert text.count("<td>protected</td>") == 1
    for before, now in zip(protected.before, protected.now, strict=True):
        assert f"{before:.3f} → {now:.3f}" in text
