"""The experiments as a list: what each is in the paper, and how long it took here."""

from rich.table import Table

from factlearn.experiments.paper.outcome import Outcome
from factlearn.experiments.paper.registry import Experiment, load_experiments, outcome_folder
from factlearn.experiments.paper.request import Request


def measured(request: Request, found: Experiment) -> Outcome | None:
    """The outcome kept for this data and scale, if the experiment was run."""
    folder = outcome_folder(request, found)
    return Outcome.load(folder) if (folder / "outcome.json").is_file() else None


def experiments_table(request: Request) -> Table:
    """A row an experiment; the time is that of all its runs, whichever experiment learned them first."""
    table = Table(title=f"Experiments, {request.data}, {request.scale} scale")
    for column in ("name", "paper", "what", "runs", "time here"):
        table.add_column(
            column,
            justify="right" if column in ("runs", "time here") else "left",
            overflow="fold",
            no_wrap=column == "name",
        )
    for found in load_experiments().values():
        kept = measured(request, found)
        time = f"{kept.seconds / 60:.1f} min" if kept else "not run yet"
        table.add_row(found.name, found.paper, found.title, str(kept.runs) if kept else "", time)
    return table
