"""A plot as every page and folder gets it: SVG text for people, its numbers as rows for programs."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factlearn.files import atomic_write

# Okabe and Ito's palette: told apart with every kind of colour vision; markers and dashes repeat the distinction.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "-", "-", "--", "--", "--", ":")
GREY = "#8a949e"
# Text stays text: it can be searched, read aloud and copied.
SVG_STYLE: Any = {"svg.hashsalt": "factlearn", "svg.fonttype": "none", "font.family": "sans-serif"}


@dataclass(frozen=True)
class Plot:
    """One picture and the numbers it shows.

    Attributes:
        name: of its files, without ending.
        svg: the picture, from `<svg` on, so that a page can hold it.
        header, rows: its numbers as a table.
        alt: the picture in words, for those who do not see it.
        figure: matplotlib's, for other formats.
    """

    name: str
    svg: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    alt: str = ""
    figure: Any = None

    @property
    def inline(self) -> str:
        """The SVG for a page: a name for screen readers, and ids that no other plot of the page has."""
        prefix = re.sub(r"\W", "-", self.name)
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", self.svg)
        label = _escaped(self.alt or self.name)
        return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)

    def save(self, folder: Path) -> None:
        """Write NAME.svg and NAME.csv."""
        with atomic_write(folder / f"{self.name}.svg") as stream:
            stream.write('<?xml version="1.0" encoding="utf-8"?>\n' + self.svg)
        with atomic_write(folder / f"{self.name}.csv") as stream:
            stream.write(csv_text(self.header, self.rows))


def csv_text(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as CSV; None is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return stream.getvalue()


def new_figure(width: float, height: float) -> Any:
    """An empty figure; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Any) -> str:
    """The figure as SVG text, the same for the same figure."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context(SVG_STYLE):
        figure.savefig(stream, format="svg", metadata={"Date": None}, dpi=150)
    svg = stream.getvalue()
    return svg[svg.index("<svg") :]


def tidy(axes: Any) -> None:
    """Leave out the lines that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)


def style_of(place: int) -> dict[str, Any]:
    """Colour, marker and dash of the method or fact at this place; they repeat after seven."""
    turn = place % len(COLOURS)
    return {"color": COLOURS[turn], "marker": MARKERS[turn], "linestyle": DASHES[turn]}


def _escaped(text: str) -> str:
    from html import escape

    return escape(text, quote=True)
