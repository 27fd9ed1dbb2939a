"""Filters on items: `split = 'test' and not (cluster in ('sports', 'food') or year < 2000)`.

    condition   NAME = VALUE  (also != < <= > >=), NAME in (VALUE, ...), NAME like 'text%', NAME is null,
                with `not` before `in`, `like` and `null`
    combined    and, or, not, parentheses; and binds tighter than or
    VALUE       'text' (a quote inside is doubled) or a number; a number compares as a number
    NAME        a column; in `backquotes` if it contains anything but letters, digits, _ . -

As in SQL, a condition on a missing value is never true, nor is its `not`. `not` is therefore moved down to the
conditions when parsing, which leaves only ands and ors of conditions that each store can answer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.retrieval.items import FACTS, METADATA

if TYPE_CHECKING:
    import pyarrow as pa

Value: TypeAlias = str | float
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]))|`(?P<quoted>[^`]+)`
    |(?P<word>[^\W\d][\w.-]*)|(?P<symbol><=|>=|!=|<>|==|=|<|>|\(|\)|,))""",
    re.VERBOSE,
)
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SAME = {"==": "=", "<>": "!="}
_WORDS = {"and", "or", "not", "in", "like", "is", "null"}


@dataclass(frozen=True)
class Condition:
    """One test of one column; `operator` is a comparison, `in`, `like` or `null`."""

    column: str
    operator: str
    values: tuple[Value, ...] = ()
    negated: bool = False

    def opposite(self) -> "Condition":
        """True where this is false; like this one, never true where the value is missing."""
        if self.operator in _OPPOSITE:
            return Condition(self.column, _OPPOSITE[self.operator], self.values)
        return Condition(self.column, self.operator, self.values, not self.negated)


@dataclass(frozen=True)
class Combined:
    """Parts joined by `and` or `or`."""

    operator: str
    parts: tuple["Filter", ...]

    def opposite(self) -> "Combined":
        """By De Morgan's laws."""
        return Combined("or" if self.operator == "and" else "and", tuple(part.opposite() for part in self.parts))


Filter: TypeAlias = Condition | Combined


def parse_filter(text: str) -> Filter:
    """Parse a filter.

    Raises:
        FactIndexError: if the text is not a filter, naming the place.
    """
    return _Parser(text).whole()


def columns_of(filter_: Filter) -> set[str]:
    """The columns that a filter names."""
    if isinstance(filter_, Condition):
        return {filter_.column}
    return set().union(*map(columns_of, filter_.parts))


def check_columns(filter_: Filter, known: Sequence[str]) -> None:
    """Refuse a filter on a column that an index does not have; all have `facts`, which is `fact` for most images.

    Raises:
        FactIndexError: naming those it has.
    """
    for name in columns_of(filter_):
        if name.removeprefix(METADATA) not in (*known, FACTS):
            raise FactIndexError(f"The index has no column {name!r} to filter by; it has {', '.join(known)}.")


def matching(filter_: Filter, column: Callable[[str], "pa.ChunkedArray"]) -> NDArray[np.bool_]:
    """Which images pass a filter, given the text columns by name."""
    if isinstance(filter_, Combined):
        join = np.logical_and if filter_.operator == "and" else np.logical_or
        return join.reduce([matching(part, column) for part in filter_.parts])  # type: ignore[no-any-return]
    import pyarrow.compute as pc

    found = pc.fill_null(_test(filter_, column(filter_.column)), False)
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _test(condition: Condition, values: "pa.ChunkedArray") -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if condition.operator == "null":
        return pc.is_valid(values) if condition.negated else pc.is_null(values)
    if condition.operator == "like":
        found = pc.match_like(values, condition.values[0])
    elif condition.operator == "in":
        texts = [value for value in condition.values if isinstance(value, str)]
        numbers = [value for value in condition.values if not isinstance(value, str)]
        found = _among(values, pa.array(texts, pa.string()))
        if numbers:
            found = pc.or_kleene(found, _among(_numbers(values), pa.array(numbers, pa.float64())))
    else:
        value = condition.values[0]
        return _COMPARE[condition.operator](pc)(values if isinstance(value, str) else _numbers(values), value)
    return pc.invert(found) if condition.negated else found


def _among(values: Any, wanted: Any) -> Any:
    """Which values are among the wanted; null for a missing value."""
    import pyarrow.compute as pc

    return pc.if_else(pc.is_valid(values), pc.is_in(values, wanted), None)


_COMPARE: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "=": lambda pc: pc.equal,
    "!=": lambda pc: pc.not_equal,
    "<": lambda pc: pc.less,
    "<=": lambda pc: pc.less_equal,
    ">": lambda pc: pc.greater,
    ">=": lambda pc: pc.greater_equal,
}


def number_of(text: str | None) -> float | None:
    """The finite number that a text spells, if any."""
    if text is None or "_" in text:  # Python would ignore it
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _numbers(values: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    return pa.chunked_array([pa.array([number_of(text) for text in values.to_pylist()], pa.float64())])


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def whole(self) -> Filter:
        found = self._either()
        if self._peek() is not None:
            raise self._error("`and` or `or`")
        return found

    def _either(self) -> Filter:
        return self._joined("or", lambda: self._joined("and", self._negation))

    def _joined(self, word: str, part: Callable[[], Filter]) -> Filter:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Combined(word, tuple(parts))

    def _negation(self) -> Filter:
        if self._take("not"):
            return self._negation().opposite()
        if self._take("("):
            inside = self._either()
            self._expect(")")
            return inside
        return self._condition()

    def _condition(self) -> Condition:
        column = self._name()
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return Condition(column, "null", negated=negated)
        negated = self._take("not")
        if self._take("in"):
            return Condition(column, "in", tuple(self._list()), negated)
        if self._take("like"):
            value = self._value()
            if not isinstance(value, str):
                raise self._error("a 'text' after like")
            return Condition(column, "like", (value,), negated)
        token = self._peek()
        operator = _SAME.get(token[1], token[1]) if token else ""
        if negated or operator not in _OPPOSITE:
            raise self._error("one of = != < <= > >= in, like, is")
        self._advance()
        return Condition(column, operator, (self._value(),))

    def _list(self) -> Sequence[Value]:
        self._expect("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._expect(")")
        return values

    def _name(self) -> str:
        token = self._peek()
        if token is None or token[0] not in ("word", "quoted") or (token[0] == "word" and token[1].lower() in _WORDS):
            raise self._error("the name of a column")
        self._advance()
        return token[1]

    def _value(self) -> Value:
        token = self._peek()
        if token is None or token[0] not in ("text", "number"):
            raise self._error("a 'text' in single quotes or a number")
        self._advance()
        return token[1][1:-1].replace("''", "'") if token[0] == "text" else float(token[1])

    def _take(self, word: str) -> bool:
        token = self._peek()
        if token is None or token[0] not in ("word", "symbol") or token[1].lower() != word:
            return False
        self._advance()
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._error(f"`{word}`")

    def _peek(self) -> tuple[str, str] | None:
        if not self._text[self._place :].strip():
            return None
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            return ("other", self._text[self._place :].strip()[:1])
        kind = str(found.lastgroup)
        return kind, found[kind]

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._place)
        assert found is not None
        self._place = found.end()

    def _error(self, expected: str) -> FactIndexError:
        rest = self._text[self._place :].strip()
        where = f"at {rest[:20]!r}" if rest else "at its end"
        return FactIndexError(f"The filter {self._text!r} cannot be parsed {where}; expected {expected}.")
