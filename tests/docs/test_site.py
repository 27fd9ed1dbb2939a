"""The site builds without a warning, loads nothing from elsewhere, and its reference pages leave nothing out."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import urlparse

import pytest
import typer.main
import yaml

from factlearn.cli import app
from factlearn.data.registry import SOURCES
from factlearn.learning.config import SCHEMAS
from factlearn.lifelong.registry import METHODS
from tests.docs.miniature import ROOT


def load_reference():
    """The module that makes the reference pages; it is no part of the package."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "hooks" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_reference()


class Loaded(HTMLParser):
    """The hosts from which a page loads scripts, styles and pictures."""

    def __init__(self):
        super().__init__()
        self.hosts = set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "srcset", "data") or (name == "href" and tag == "link"):
                self.hosts.add(urlparse(value or "").netloc)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return folder


def test_the_site_starts_with_the_guide_and_names_every_page(site):
    first, *_ = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert first == {"A year with factlearn": "README.md"}
    assert '<h1 id="a-year-with-factlearn">' in (site / "index.html").read_text()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert pages <= {path.parent.name for path in site.rglob("index.html")}


def test_the_site_loads_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    for path in pages:
        page = Loaded()
        page.feed(path.read_text())
        assert page.hosts <= {""}, f"{path.relative_to(site)} loads from {page.hosts}"
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", styles)


def test_blocks_of_the_site_keep_their_code_and_lose_what_only_tests_need(site):
    text = (site / "contributing" / "index.html").read_text()
    assert "factlearn_extras/l2.py</span>" in text  # the title of a file that is shown
    everything = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "not-run" not in everything
    assert "<p>```" not in everything


def test_the_reference_of_configs_has_every_key_with_a_meaning():
    page = REFERENCE.config_page()
    models = [*SCHEMAS.values(), *(each.config for each in (*SOURCES.values(), *METHODS.values()))]
    models += [model for schema in SCHEMAS.values() for model in REFERENCE.sections(schema).values()]
    for model in models:
        for name, field in model.model_fields.items():
            meaning = REFERENCE.description(model, name)
            assert meaning, f"{model.__name__}.{name} has no docstring below it, so nobody can look it up"
            if name not in ("name", "source") and name not in REFERENCE.sections(model):
                assert f"| `{field.alias or name}` | " in page
                assert meaning in page.replace("\\|", "|")
    for name in SOURCES:
        assert f"### source: {name}\n" in page
    for name in METHODS:
        assert f"### name: {name}\n" in page


def test_the_reference_of_commands_has_every_command_and_option():
    page = REFERENCE.commands_page()
    chapters = {chapter.splitlines()[0]: chapter for chapter in page.split("\n## ")}
    found = dict(REFERENCE.commands(typer.main.get_command(app)))
    assert {"train", "query", "learn"} <= {words[0] for words in found}
    for words, command in found.items():
        chapter = chapters[f"factlearn {' '.join(words)}"]
        for parameter in command.params:
            if not getattr(parameter, "hidden", False) and "--help" not in parameter.opts:
                assert parameter.help, f"{words}: {parameter.name} has no help"
                assert parameter.help.split(",")[0][:20] in chapter.replace("&lt;", "<").replace("\\", "")
                assert all(option in chapter for option in parameter.opts if option.startswith("-"))
