"""Teaching a finished run more, pruning it, and reporting on it when photos are gone, as users type it."""

import pytest

from tests.cli.commands import factlearn


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--data", "none.csv"], "does not exist"),
        (["--data", "photos"], "is not a manifest of facts"),
        (["--name", "x"], "give its data with --data"),
        (["--data", "photos/facts.csv", "--tasks", 1], "leave them out with --data"),
        (["--data", "photos/facts.csv", "--name", "task 1"], "is a task already"),
    ],
)
def test_what_cannot_be_taught_is_refused_in_one_sentence(mine, options, says):
    done = factlearn("learn", "runs/mas", *options, cwd=mine)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
