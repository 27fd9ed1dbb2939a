"""Every example runs, within its minute, and prints what it is about."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRINTED = {
    "learn_and_search": "<*, riding, bike>",
    "protect_your_module": "MAS:",
    "adapt_to_sports": "MAP among all images:",
    "growing_index": "refreshed:",
    "compare_methods": "MAS is ahead of FineTune",
}
LONG = ("learn_and_search", "growing_index", "adapt_to_sports", "compare_methods")


def test_every_example_is_listed_and_tested():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert scripts == PRINTED.keys()
    assert all(f"[{name}.py]({name}.py)" in listed for name in scripts)


@pytest.mark.assets
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in PRINTED])
def test_the_example_runs(name):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert PRINTED[name] in done.stdout
