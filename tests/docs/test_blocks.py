"""Every block of the docs that claims to run does, and one that is not run says why."""

import json
import socket
import textwrap
import time
import tomllib
from contextlib import contextmanager

import pytest

from tests.docs import forkserver
from tests.docs.blocks import CODE, NOT_CODE, blocks_of
from tests.docs.miniature import ROOT

GENERATED = ("docs/results.md",)
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in GENERATED),
]

CHECK_CONFIG = """
from pathlib import Path
from factlearn.learning.config import load_config

Path("configs/documented.yaml").write_text({text!r})
load_config("configs/documented.yaml")
"""


@contextmanager
def python_session(checkout):
    """A function that executes code where all python blocks of a page run; it returns what went wrong."""
    ours, theirs = socket.socketpair()
    with checkout.folder.with_name("printed").open("w") as printed, theirs, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(checkout.server)
        here = {"folder": str(checkout.folder), "environment": checkout.environment}
        streams = (theirs.fileno(), printed.fileno(), printed.fileno())
        forkserver.send(connection, {"kind": "session", "arguments": [], **here}, streams)
    with ours, ours.makefile("rw") as stream:

        def execute(code: str, page: str, line: int) -> str:
            stream.write(json.dumps([code, page, line]) + "\n")
            stream.flush()
            answer = stream.readline()
            return json.loads(answer) if answer else "the process died"

        yield execute


def write_files(checkout, blocks):
    """Save the files that a page shows; a pyproject.toml is installed, as `pip install -e .` would."""
    for block in blocks:
        title = block.attribute("title")
        if title:
            path = checkout.folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            if path.name == "pyproject.toml":
                install(checkout, tomllib.loads(block.text)["project"])


def install(checkout, project):
    """What an editable install leaves for importlib.metadata; the folder is on PYTHONPATH already."""
    about = checkout.folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    groups = project.get("entry-points", {}).items()
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in points.items()) for group, points in groups]
    (about / "entry_points.txt").write_text("\n".join(lines))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_that_is_not_run_says_why(page):
    for block in blocks_of(ROOT, page):
        assert block.language in CODE + NOT_CODE, f"{block.place}: is {block.language} code? See tests/docs/blocks.py"
        assert block.attribute("not-run") != "", f"{block.place}: not-run needs a reason"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_runs(page, request):
    blocks = blocks_of(ROOT, page)
    if not any(block.runs for block in blocks):
        return
    checkout = request.getfixturevalue("checkout")
    write_files(checkout, blocks)
    with python_session(checkout) as execute:
        for block in blocks:
            started = time.monotonic()
            if not block.runs:
                continue
            if block.language == "sh":
                code, said = checkout.shell(block.text)
                problem = said if code else ""
            elif block.language == "python":
                problem = execute(block.text, str(ROOT / page), block.line)
            else:
                problem = execute(CHECK_CONFIG.format(text=block.text), page, 0)
            assert not problem, f"{block.place} fails:\n{textwrap.indent(problem[-4000:], '  ')}"
            print(f"{block.place} ({block.language}): {time.monotonic() - started:.1f} s")
