"""The command line: parses, calls, prints. What takes long to import is imported by the command that needs it."""

import os
import sys
from typing import Annotated

import typer

from factlearn import __version__
from factlearn.cli import assets, closed_form, experiments, index, learning, runs, upkeep
from factlearn.cli.demo import demo
from factlearn.cli.manifest import manifest
from factlearn.cli.query import query
from factlearn.cli.registries import list_
from factlearn.cli.serve import serve
from factlearn.errors import FactlearnError, StoppedError

app = typer.Typer(
    help="Learn facts from images, task after task, without forgetting, and search them by triplet text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
learning.add_commands(app)
closed_form.add_commands(app)
experiments.add_commands(app)
app.command()(manifest)
app.command()(query)
app.command()(demo)
app.command()(serve)
app.command("list")(list_)
upkeep.add_commands(app)
app.add_typer(index.app, name="index")
app.add_typer(runs.app, name="runs")
app.add_typer(assets.app, name="assets")

_INTERRUPTED, _TERMINATED = 130, 143


def _version(asked: bool) -> None:
    if asked:
        print(f"factlearn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors of the user's become one sentence and exit code 2."""
    # OpenMP threads that wait by spinning slow a machine that does anything else beside this to a crawl.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except StoppedError as error:
        _stop(str(error), _TERMINATED)
    except FactlearnError as error:
        _stop(str(error), 2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:  # how Typer ends a command at Ctrl-C
            _stop("Interrupted; nothing is left half-written. A training run continues with --resume.", _INTERRUPTED)
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        _stop(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", 2)


def _stop(sentence: str, code: int) -> None:
    print(f"factlearn: {sentence}", file=sys.stderr)
    sys.exit(code)
