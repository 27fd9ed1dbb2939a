"""docs/results.md: every outcome that is kept, as one page of Markdown, with the remarks written for it."""

import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from factlearn.errors import RunError
from factlearn.experiments.paper.outcome import Outcome, PaperTable, verdict
from factlearn.experiments.paper.registry import EXPERIMENTS
from factlearn.files import atomic_write

_INTRODUCTION = """# Results next to the paper's

`factlearn results` wrote this page from the outcomes of `factlearn reproduce`; only the remarks are typed by hand, in
`factlearn/experiments/paper/remarks.yaml`. A cell reads *paper / here*. The paper trained whole networks for hundreds
of epochs on data that is not public or not available to us (6DS, Birds, Flowers, …). Ours are trained on other data and
mostly at a small scale, named in each section, so compare orderings, not absolute figures. Minutes of learning are
wall-clock time on two cores shared with other work; a run that two experiments share counts in both.
"""


LEAD = "lead"
"""The remarks that stand before all sections, by title."""


def find_outcomes(runs: Path) -> list[tuple[Path, Outcome]]:
    """Every outcome kept below a folder of runs, in the experiments' order.

    Raises:
        RunError: if there is none.
    """
    order = list(EXPERIMENTS)
    folders = sorted(path.parent for path in (runs / "reproduce").glob("*/*/outcome.json"))
    found = [(folder, Outcome.load(folder)) for folder in folders]
    if not found:
        raise RunError(f"{runs} holds no outcomes; make some with `factlearn reproduce NAME`.")
    known = [(folder, outcome) for folder, outcome in found if outcome.name in order]
    return sorted(known, key=lambda pair: (order.index(pair[1].name), pair[1].setting))


def write_results(runs: Path, path: Path) -> None:
    """Write the page, and the plots as SVG in a folder beside it."""
    found = find_outcomes(runs)
    remarks = _remarks()
    figures = path.with_suffix("")
    lead = [f"## {title}\n\n{_wrapped(text.strip())}\n" for title, text in remarks.get(LEAD, {}).items()]
    parts = [_INTRODUCTION, *lead, _overview([outcome for _, outcome in found])]
    for folder, outcome in found:
        parts.append(_section(folder, outcome, remarks, figures))
    with atomic_write(path) as stream:
        stream.write("\n".join(parts))


def _remarks() -> dict[str, Any]:
    text = files("factlearn.experiments.paper").joinpath("remarks.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text) or {}


def _overview(outcomes: Sequence[Outcome]) -> str:
    """Every statement and whether it holds."""
    rows = []
    for outcome in outcomes:
        swapped = [c for t in outcome.tables for c in t.columns if t.ordering(c).startswith("no")]
        ordered = [c for t in outcome.tables for c in t.columns if t.ordering(c) != "-"]
        same = "-" if not ordered else f"{len(ordered) - len(swapped)} of {len(ordered)} columns"
        holds = sum(bool(statement.holds) for statement in outcome.statements)
        time = f"{outcome.seconds / 60:.1f}"
        counted = f"{holds} of {len(outcome.statements)}"
        rows.append([f"[{outcome.name}](#{_anchor(outcome)})", outcome.paper, outcome.setting, same, counted, time])
    header = ["experiment", "paper", "setting", "paper's ordering?", "statements that hold", "minutes of learning"]
    return "\n".join(["## All at a glance", "", *_markdown(header, rows), ""])


def _section(folder: Path, outcome: Outcome, remarks: dict[str, str], figures: Path) -> str:
    lines = [f"## {_heading(outcome)}", "", f"{outcome.title} ({outcome.paper}). `{outcome.command}`", ""]
    for table in outcome.tables:
        lines += [f"**{table.title}**{f' ({table.note})' if table.note else ''}", "", *_table(table), ""]
    if outcome.statements:
        rows = [[s.text, verdict(s.holds), s.detail] for s in outcome.statements]
        lines += [*_markdown(["statement", "holds here", "figures"], rows), ""]
    for key in (outcome.name, f"{outcome.name}, {outcome.setting.split(',')[0]}"):
        lines += [_wrapped(remarks[key].strip()), ""] if key in remarks else []
    lines += [_wrapped(f"- {note}", "  ") for note in outcome.notes]
    lines += [""] if outcome.notes else []
    for svg in sorted(folder.glob("*.svg")):
        name = f"{outcome.name}-{folder.parent.name}-{svg.stem}.svg"
        figures.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(svg, figures / name)
        lines += [f"![{outcome.title}: {svg.stem}]({figures.name}/{name})", ""]
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "") -> str:
    """Paragraphs at the width of the docs; tables stay as they are."""
    options: dict[str, Any] = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    parts = (part if part.startswith("|") else fill(part, 120, **options) for part in text.split("\n\n"))
    return "\n\n".join(parts)


def _heading(outcome: Outcome) -> str:
    return f"{outcome.name}: {outcome.setting}"


def _anchor(outcome: Outcome) -> str:
    kept = "".join(c for c in _heading(outcome).lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _table(table: PaperTable) -> list[str]:
    rows = [[row, *(table.cell(row, column).replace(" | ", " / ") for column in table.columns)] for row in table.rows]
    orders = [table.ordering(column) for column in table.columns]
    if any(order != "-" for order in orders):
        rows.append(["*same ordering?*", *orders])
    return _markdown(["", *table.columns], rows)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
