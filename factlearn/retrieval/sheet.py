"""Contact sheets: the images that answer a query, as one picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from factlearn.errors import FactIndexError, ImageError
from factlearn.facts import FactQuery, Relevance, Vocabulary
from factlearn.files import atomic_write
from factlearn.images import load_image
from factlearn.retrieval.confidence import SURE, seen_until
from factlearn.retrieval.hits import Hit
from factlearn.retrieval.sentences import Reading
from factlearn.retrieval.verdicts import verdict

_PAPER, _TILE, _INK, _FAINT = "#ffffff", "#f1f3f5", "#1f2933", "#7b8794"
_RIGHT, _WRONG = "#1a9850", "#d73027"
_MARGIN, _GAP, _FRAME = 28, 18, 5
_TITLE_SIZE, _TEXT_SIZE = 26, 16
_BAND = 34
NOT_SEEN = "below here the model does not see it"
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


def contact_sheet(
    hits: Sequence[Hit],
    out: Path | str,
    title: str = "",
    *,
    query: FactQuery | Reading | None = None,
    known: Vocabulary | None = None,
    relevance: Relevance | str = Relevance.PREFIX,
    columns: int = 5,
    tile: int = 200,
    sure: float = SURE,
) -> Path:
    """Write a picture of the hits in a grid, best first, each with its rank, probability, score and fact.

    A line separates hits that the model sees from those below, if hits have a probability.

    If the query is given, images whose label decides it get a green frame and a check mark where they are right, a red
    frame and a cross where they are wrong (see `factlearn.retrieval.verdicts`). An image that cannot be read becomes a
    grey tile that says so.

    Args:
        hits: what `FactIndex.query` returned.
        out: the file to write: .png, .jpg or .webp.
        title: the heading; the query's text if not given.
        query: what was asked.
        known: the units that labels use; without it, all of them.
        relevance: which facts count as right.
        columns: tiles per row.
        tile: a tile's side in pixels.
        sure: the probability below which the model does not see what was asked for.

    Raises:
        FactIndexError: if there are no hits, the file name ends in something else, or a size makes no sense.
    """
    out = Path(out)
    if not hits:
        raise FactIndexError("There are no images to show on a contact sheet; ask for at least one.")
    if out.suffix.lower() not in _FORMATS:
        raise FactIndexError(f"A contact sheet is a .png, .jpg or .webp picture, not {out.name!r}; rename it.")
    if columns < 1 or not 48 <= tile <= 1024:
        raise FactIndexError(f"A contact sheet needs columns >= 1 and 48 <= tile <= 1024, not {columns} and {tile}.")
    rights = [None if query is None else verdict(hit.facts, query, known, relevance) for hit in hits]
    seen = seen_until(hits, sure)
    layout = _Layout(len(hits), min(columns, len(hits)), tile, len(hits) if seen is None else seen)
    sheet = Image.new("RGB", layout.size, _PAPER)
    draw = ImageDraw.Draw(sheet)
    heading = title or (str(query) if query is not None else "Images found")
    draw.text((_MARGIN, _MARGIN), _fitted(heading, layout.inner_width, _TITLE_SIZE), _INK, _font(_TITLE_SIZE))
    below = (_MARGIN, _MARGIN + _TITLE_SIZE + 10)
    summary = _summary(rights) + (", no match" if seen == 0 else "")
    draw.text(below, _fitted(summary, layout.inner_width, _TEXT_SIZE), _FAINT, _font(_TEXT_SIZE))
    if layout.seen < len(hits):
        y = layout.line
        draw.line([(_MARGIN, y), (_MARGIN + layout.inner_width, y)], fill=_FAINT, width=2)
        draw.text((_MARGIN, y + 7), _fitted(NOT_SEEN, layout.inner_width, _TEXT_SIZE), _FAINT, _font(_TEXT_SIZE))
    for place, (hit, right) in enumerate(zip(hits, rights, strict=True)):
        _draw_hit(sheet, (*layout.corner(place), tile), place + 1, hit, right)
    with atomic_write(out, "wb") as stream:
        sheet.save(stream, format=_FORMATS[out.suffix.lower()])
    return out


@dataclass(frozen=True)
class _Layout:
    count: int
    columns: int
    tile: int
    seen: int

    @property
    def inner_width(self) -> int:
        return max(self.columns * (self.tile + _GAP) - _GAP, 320)

    @property
    def _top(self) -> int:
        return _MARGIN + _TITLE_SIZE + _TEXT_SIZE + 34

    @property
    def _row_height(self) -> int:
        return self.tile + 2 * (_TEXT_SIZE + 7) + _GAP + 6

    @property
    def size(self) -> tuple[int, int]:
        rows = self._rows_above + -(-(self.count - self.seen) // self.columns)
        band = _BAND if self.seen < self.count else 0
        return self.inner_width + 2 * _MARGIN, self._top + rows * self._row_height + band - _GAP + _MARGIN

    @property
    def _rows_above(self) -> int:
        """The rows of hits that the model sees; the others begin in a new row below the line."""
        return -(-self.seen // self.columns)

    @property
    def line(self) -> int:
        """Where the line between them is drawn."""
        return self._top + self._rows_above * self._row_height - _GAP // 2

    def corner(self, place: int) -> tuple[int, int]:
        above = place < self.seen
        row, column = divmod(place if above else place - self.seen, self.columns)
        y = self._top + row * self._row_height + (0 if above else self._rows_above * self._row_height + _BAND)
        return _MARGIN + column * (self.tile + _GAP), y


def _draw_hit(sheet: Image.Image, square: tuple[int, int, int], rank: int, hit: Hit, right: bool | None) -> None:
    x, y, tile = square
    draw = ImageDraw.Draw(sheet)
    draw.rectangle((x, y, x + tile - 1, y + tile - 1), fill=_TILE)
    inside = tile - 2 * _FRAME
    try:
        picture = _fitting_square(load_image(hit.path), inside)
        sheet.paste(picture, (x + (tile - picture.width) // 2, y + (tile - picture.height) // 2))
    except ImageError:
        for line, text in enumerate(("cannot be read", hit.path.name)):
            middle = (x + tile // 2, y + tile // 2 + (line * 2 - 1) * (_TEXT_SIZE // 2 + 3))
            draw.text(middle, _fitted(text, inside - 8, _TEXT_SIZE), _FAINT, _font(_TEXT_SIZE), anchor="mm")
    if right is not None:
        colour = _RIGHT if right else _WRONG
        draw.rectangle((x, y, x + tile - 1, y + tile - 1), outline=colour, width=_FRAME)
        _draw_mark(draw, (x + tile - 20, y + 20), colour, right=right)
    label = " ".join(map(str, hit.facts)) or hit.path.name
    chance = "" if hit.probability is None else f"   {hit.probability:.0%}"
    draw.text((x, y + tile + 6), f"{rank}{chance}", _INK, _font(_TEXT_SIZE))
    draw.text((x + tile, y + tile + 6), f"{hit.score:.3f}", _FAINT, _font(_TEXT_SIZE), anchor="ra")
    draw.text((x, y + tile + _TEXT_SIZE + 12), _fitted(label, tile, _TEXT_SIZE), _INK, _font(_TEXT_SIZE))


def _fitting_square(picture: Image.Image, side: int) -> Image.Image:
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS)


def _draw_mark(draw: ImageDraw.ImageDraw, centre: tuple[int, int], colour: str, *, right: bool) -> None:
    """A check mark or a cross in a disc, for readers who cannot tell red from green."""
    x, y = centre
    draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=colour, outline=_PAPER, width=2)
    if right:
        draw.line([(x - 6, y), (x - 2, y + 5), (x + 6, y - 5)], fill=_PAPER, width=3, joint="curve")
    else:
        draw.line([(x - 4, y - 4), (x + 4, y + 4)], fill=_PAPER, width=3)
        draw.line([(x - 4, y + 4), (x + 4, y - 4)], fill=_PAPER, width=3)


def _summary(rights: Sequence[bool | None]) -> str:
    images = "1 image" if len(rights) == 1 else f"{len(rights)} images"
    known = [right for right in rights if right is not None]
    return f"{images}, {sum(known)} of {len(known)} right" if known else images


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _fitted(text: str, width: int, size: int) -> str:
    """The text, cut with an ellipsis if it is wider than `width` pixels."""
    font = _font(size)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"
