import re
from html.parser import HTMLParser

import pytest

from factlearn.config import parse_config
from factlearn.errors import RunError
from factlearn.experiments.plots import curves_svg
from factlearn.experiments.report import write_report
from factlearn.results import load_result
from factlearn.training import train


@pytest.fixture
def results(config, tmp_path):
    """The same tasks learned three ways."""
    made = {}
    for title, name in (("FineTune", "finetune"), ("MAS", "mas"), ("Joint", "joint")):
        run = train(parse_config({**config, "strategy": {"name": name}}, "test"), tmp_path / name)
        made[title] = load_result(run)
    return made


class Page(HTMLParser):
    """Counts tags and collects what a page would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.frames = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.loads += [values[key] for key in ("src", "href") if key in values and tag != "use"]
        if tag == "figure":
            self.frames.append(values["class"])


def test_the_page_is_self_contained_and_shows_every_method_after_every_task(results, tmp_path):
    path = tmp_path / "report.html"
    write_report(results, ["<person, riding, bike>", "<tree>"], path, title="Facts & <forgetting>", k=4)
    text = path.read_text()
    page = Page(text)
    assert all(load.startswith("data:image/") for load in page.loads if not load.startswith("#"))
    assert "script" not in page.tags
    assert page.tags.count("svg") >= 2
    assert "<title>Facts &amp; &lt;forgetting&gt;</title>" in text
    assert len(page.frames) == 2 * 4 * (2 + 2 + 1)  # queries x images x stages of the three methods
    assert set(page.frames) <= {"right", "wrong"}
    for method, result in results.items():
        assert f"{method} ends with MAP {result.final.map_all:.3f}" in text


def test_frames_say_which_images_are_right(results, tmp_path):
    path = tmp_path / "report.html"
    write_report({"Joint": results["Joint"]}, ["<tree>"], path, title="t", k=6)
    labels = re.findall(r'<figure class="(right|wrong)">.*?title="&lt;(.*?)&gt;"', path.read_text())
    assert len(labels) == 6
    assert all((frame == "right") == (fact == "tree") for frame, fact in labels)


def test_runs_over_other_tasks_cannot_share_a_page(results, config, tmp_path):
    other = train(parse_config({**config, "tasks": {"count": 3}}, "test"), tmp_path / "three")
    with pytest.raises(RunError, match="same tasks"):
        write_report({**results, "Other": load_result(other)}, [], tmp_path / "report.html", title="t")
    assert not (tmp_path / "report.html").exists()


def test_curves_have_a_panel_a_task_and_name_every_method(results):
    svg = curves_svg(results, [None, "task 1"])
    assert svg.count("<!-- FineTune -->") == 2
    assert svg.count("<!-- MAS -->") == 2
    assert "All test images" in svg
