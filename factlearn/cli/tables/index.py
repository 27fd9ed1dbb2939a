"""What is to be said of an index, as tables for people and JSON for programs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from factlearn.cli.tables.basics import number
from factlearn.facts import FactQuery
from factlearn.retrieval.confidence import SURE, seen_until
from factlearn.retrieval.sheet import NOT_SEEN

if TYPE_CHECKING:
    from factlearn.indexing.refreshing import Drift
    from factlearn.retrieval import FactIndex, Hit, Reading, ShownFact
    from factlearn.retrieval.trials import Trial

_MARKS = {True: "✓", False: "✗", None: ""}


def index_info(index: "FactIndex") -> dict[str, Any]:
    """Everything an index says of itself."""
    images = Counter(item["model"] for item in index.items())
    about: dict[str, Any] = {
        "index": str(index.path),
        "images": len(index),
        "facts": len(index.facts),
        "dimension": index.dimension,
        "language": index.store.about.language,
        "models": [
            {"model": name, "images": images[name], "run": entry.run, "stage": entry.stage}
            for name, entry in index.models.items()
        ],
    }
    about |= index.store.describe()
    return about


def index_table(about: Mapping[str, Any]) -> Table:
    """`index_info` for people."""
    table = Table(title=about["index"], show_header=False)
    for name, value in about.items():
        if name == "models":
            for model in value:
                where = f"stage {model['stage']} of {model['run']}" if model["run"] else "unknown run"
                table.add_row("model", f"{model['model']}: {model['images']} images, {where}")
        elif name == "search":
            parts = (f"{key} {number(each) if isinstance(each, float) else each}" for key, each in value.items())
            table.add_row(name, ", ".join(parts))
        elif name != "index":
            table.add_row(name, ", ".join(value) if isinstance(value, list) else str(value))
    return table


def trials_table(trials: Sequence["Trial"]) -> Table:
    """The ways to search that were measured, and the one chosen."""
    table = Table(title="ways to search")
    for column in ("kind", "settings"):
        table.add_column(column)
    for column in ("recall, full queries", "recall, open units", "ms, median", "MB in memory"):
        table.add_column(column, justify="right")
    table.add_column("")
    for trial in trials:
        settings = ", ".join(f"{k} {v}" for k, v in trial.settings.items() if k not in ("kind", "dimension") and v)
        measured = trial.note in ("", "chosen")
        recalls = [number(trial.recall_full), number(trial.recall_wild)]
        figures = [*recalls, f"{trial.milliseconds:.2f}", f"{trial.memory / 1e6:.1f}"]
        table.add_row(trial.kind, settings, *(figures if measured else ["-"] * 4), trial.note)
    return table


def drift_table(drift: "Drift", most: int = 15) -> Table:
    """The facts that move most, losses first, and what the move does to MAP."""
    version = drift.version
    title = f"{drift.old} images embedded before {version.fingerprint} (stage {version.stage})"
    table = Table(title=title, caption=_drift_caption(drift))
    table.add_column("fact")
    for column in ("images", "sampled", "moved", "distance before", "after"):
        table.add_column(column, justify="right")
    table.add_column("")
    groups = drift.groups if len(drift.groups) <= 2 * most else (*drift.groups[:most], *drift.groups[-most:])
    for group in groups:
        figures = [number(value) for value in (group.moved, group.before, group.after)]
        counts = [str(group.images), str(group.sampled)]
        table.add_row(str(group.fact), *counts, *figures, "gains" if group.gains else "loses")
    return table


def _drift_caption(drift: "Drift") -> str:
    if not drift.groups:
        return "The index is up to date with this model."
    text = f"{drift.gaining} of {drift.old} images are of facts that gain."
    if drift.map_before is not None:
        text += (
            f" MAP over the sampled images: {number(drift.map_before)} with the old vectors, "
            f"{number(drift.map_after)} with new ones, {number(drift.map_guided)} with new ones where the fact gains."
        )
    return text


def shown_table(shown: Sequence["ShownFact"]) -> Table:
    """The facts an image shows, best first."""
    table = Table(title="facts it shows")
    calibrated = any(each.probability is not None for each in shown)
    for column in ("rank", "score", *(["probability"] if calibrated else [])):
        table.add_column(column, justify="right")
    table.add_column("fact")
    for rank, each in enumerate(shown, 1):
        chance = [number(each.probability)] if calibrated else []
        table.add_row(str(rank), number(each.score), *chance, str(each.fact))
    return table


def reading_text(reading: "Reading") -> str:
    """How plain words were read and what to know about it, in lines; nothing for a query in brackets."""
    from factlearn.retrieval.sentences import is_sentence

    if not is_sentence(reading.text):
        return ""
    lines = [f"read as {reading}"]
    lines += [f"  {note}" for note in reading.notes]
    if reading.alternatives:
        lines.append(f"  or did you mean {' or '.join(map(str, reading.alternatives))}?")
    return "".join(f"{line}\n" for line in lines)


def answer_text(
    reading: "Reading", hits: Sequence["Hit"], untaught: Mapping[FactQuery, str], sure: float = SURE
) -> str:
    """What to know about an answer before reading it, in lines: facts never taught, and that nothing was found."""
    lines = [f"{query}: {how}" for query, how in untaught.items()]
    if not hits:
        lines.append(f"No match: no image answers {reading} under these conditions.")
    elif seen_until(hits, sure) == 0:
        lines.append(f"No match: the model sees {reading} in no image; the nearest are listed.")
    return "".join(f"{line}\n" for line in lines)


def hits_table(
    query: FactQuery | str, hits: Sequence["Hit"], rights: Sequence[bool | None] = (), sure: float = SURE
) -> Table:
    """The images that answer a query, best first; with a column of verdicts if labels decide any.

    A line tells where the model no longer sees what was asked for, if hits have a probability.
    """
    decided = [right for right in rights if right is not None]
    summary = f", {sum(decided)} of {len(decided)} right" if decided else ""
    table = Table(title=f"{query}: {len(hits)} images{summary}")
    units = list(dict.fromkeys(unit for hit in hits for unit in hit.scores))
    seen = seen_until(hits, sure)
    chance = [] if seen is None else ["probability"]
    for column in ("rank", *chance, "score", *units):
        table.add_column(column, justify="right")
    if decided:
        table.add_column("right")
    table.add_column("fact")
    table.add_column("image", overflow="fold")
    for rank, hit in enumerate(hits, 1):
        if seen == rank - 1:
            table.add_section()
            table.add_row(*[""] * (len(table.columns) - 1), NOT_SEEN)
            table.add_section()
        chances = [number(hit.probability)] * len(chance)
        scores = [f"{hit.score:.3f}", *(number(hit.scores.get(unit)) for unit in units)]
        marks = [_MARKS[rights[rank - 1]]] if decided else []
        table.add_row(str(rank), *chances, *scores, *marks, " ".join(map(str, hit.facts)), hit.id)
    return table


def answer_json(
    reading: "Reading",
    hits: Sequence["Hit"],
    rights: Sequence[bool | None],
    untaught: Collection[FactQuery],
    sure: float = SURE,
) -> dict[str, Any]:
    """One query, how it was read, and its hits, each with the verdict of its label.

    `seen` is the number of hits down to the last one that the model sees, None if probabilities are not known; `match`
    is False if there is no such hit.
    """
    marked = [{**hit.to_json(), "right": right} for hit, right in zip(hits, rights, strict=True)]
    seen = seen_until(hits, sure) if hits else 0
    return {
        "query": str(reading),
        "reading": reading.to_json(),
        "never_taught": [str(query) for query in untaught],
        "match": None if seen is None else seen > 0,
        "seen": seen,
        "sure": sure,
        "hits": marked,
    }
