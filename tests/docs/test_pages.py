"""Links lead somewhere, lines fit a screen, and commands that are gone are not named."""

import re

import pytest

from tests.docs.miniature import ROOT
from tests.docs.test_blocks import PAGES

WIDTH = 120
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(path):
    """The fragments of a page, as GitHub makes them from its headings."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page):
    for target, fragment in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page} links to {target}"
        assert not fragment or fragment in anchors(path), f"{page} links to {target}#{fragment}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_lines_fit_a_screen_except_in_tables(page):
    lines = enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1)
    wide = [number for number, line in lines if len(line) > WIDTH and not line.startswith("|")]
    assert not wide, f"{page}: lines {wide} are longer than {WIDTH} characters"


@pytest.mark.parametrize("page", PAGES)
def test_no_module_is_run_as_a_command(page):
    assert "python -m factlearn" not in (ROOT / page).read_text(encoding="utf-8"), "tables come from commands"


def test_the_table_of_backbones_says_what_the_registry_says():
    from factlearn.models.backbones import BACKBONES

    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    for name, backbone in BACKBONES.items():
        about = backbone.described()
        blocks = ", ".join(f"{block} {channels}" for block, channels in about["blocks"].items()) or "none"
        weights = f"`{about['weights']}` | {about['licence']}" if about["weights"] else "none |"
        assert f"| `{name}` | {blocks} | {weights} |" in text
