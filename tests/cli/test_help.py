"""What the command line says of itself."""

import re
import time

import pytest
import typer.main

from factlearn import __version__
from factlearn.cli import app
from tests.cli.commands import ROOT, factlearn, in_a_process

FILES = re.compile(r"(?<![\w/.-])(?:configs|docs|factlearn|examples|benchmarks)/[\w./-]*\w")


def commands(group, path=()):
    """Every command as the words that a user types."""
    for name, command in group.commands.items():
        yield (*path, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


COMMANDS = sorted(commands(typer.main.get_command(app)))


def test_the_commands_serve_facts_and_classes_alike():
    names = {words[0] for words in COMMANDS}
    assert {"train", "evaluate", "predict", "adapt", "learn", "list", "query", "index", "assets", "demo"} <= names
    assert "classify" not in names


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_names_no_file_that_does_not_exist(words, tmp_path):
    done = factlearn(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 3
    named = FILES.findall(done.stdout)
    made_by_the_command = {"docs/results.md"}
    missing = [name for name in named if not (ROOT / name).exists() and name not in made_by_the_command]
    assert not missing


def test_help_answers_within_a_second_and_does_not_import_torch(tmp_path):
    in_a_process("--help", cwd=tmp_path)  # compiles what is not compiled yet
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        done = in_a_process("--help", cwd=tmp_path)
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 1
    assert done.returncode == 0
    heavy = "{'torch', 'torchvision', 'gensim', 'faiss', 'scipy', 'sklearn', 'numpy', 'PIL'}"
    code = (
        "from factlearn.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', sorted({heavy} & set(sys.modules)))"
    )
    shown = in_a_process("--help", cwd=tmp_path, code=f"exec({code!r})")
    assert shown.stdout.splitlines()[-1] == "loaded: []", shown.stderr


def test_the_version_is_told(tmp_path):
    assert factlearn("--version", cwd=tmp_path).stdout == f"factlearn {__version__}\n"
