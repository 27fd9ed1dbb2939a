import operator
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import FactIndexError
from factlearn.retrieval.where import columns_of, matching, parse_filter

NAMES = {"split": "split", "year": "year", "odd name, really": "`odd name, really`", "and": "`and`"}
TEXTS = ["", "5", "5.0", " 5", "-3", "1e2", "10", "9", "1_0", "nan", "inf", "abc", "ABC", "abcd", "a%c", "a_c", "a\\c"]
TEXTS += ["it's", "''", "é", "日本", "line\nbreak", "test", "train"]
NUMBERS = ["5", "-3", "+5", "100", "1e2", "0.5", "9.0", "10", "-1e-3"]
PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%c",
    "a%c",
    "a_c",
    "%b%",
    "___",
    "a\\%c",
    "a\\_c",
    "line%",
    "_é",
    "%'%",
    "A%",
    "(",
    "a.c",
]
COMPARE = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def number(text):
    """The finite number a text spells in the usual way, by a grammar of its own."""
    return float(text) if re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text) else None


def like(text, pattern):
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    parts = [{"%": ".*", "_": "."}.get(token, re.escape(token.removeprefix("\\"))) for token in tokens]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def compared(value, symbol, literal, is_number):
    """True, False, or None: nothing can be said."""
    if value is None:
        return None
    if not is_number:
        return COMPARE[symbol](value, literal)
    found = number(value)
    return None if found is None else COMPARE[symbol](found, float(literal))


def negation(value):
    return None if value is None else not value


def conjunction(values):
    return False if False in values else None if None in values else True


def disjunction(values):
    return negation(conjunction([negation(value) for value in values]))


def words(draw, text):
    return draw(st.sampled_from([text, text.upper(), text.title()]))


@st.composite
def literals(draw):
    if draw(st.booleans()):
        text = draw(st.sampled_from(TEXTS))
        return quoted(text), text, False
    text = draw(st.sampled_from(NUMBERS))
    return text, text, True


@st.composite
def conditions(draw):
    """The text of a condition and what it says of a row."""
    name = draw(st.sampled_from(list(NAMES)))
    written, kind = NAMES[name], draw(st.sampled_from(["compare", "in", "like", "null"]))
    no = draw(st.booleans())
    turned = negation if no else lambda value: value
    prefix = words(draw, "not") + " " if no else ""
    if kind == "compare":
        symbol, space = draw(st.sampled_from(list(COMPARE))), draw(st.sampled_from(["", " "]))
        text, value, is_number = draw(literals())
        return f"{written}{space}{symbol}{space}{text}", lambda row: compared(row[name], symbol, value, is_number)
    if kind == "in":
        chosen = draw(st.lists(literals(), min_size=1, max_size=3))
        listed = ",".join(text for text, _, _ in chosen)

        def among(row):
            return turned(disjunction([compared(row[name], "=", value, numeric) for _, value, numeric in chosen]))

        return f"{written} {prefix}{words(draw, 'in')} ({listed})", among
    if kind == "like":
        pattern = draw(st.sampled_from(PATTERNS))

        def alike(row):
            return turned(None if row[name] is None else like(row[name], pattern))

        return f"{written} {prefix}{words(draw, 'like')} {quoted(pattern)}", alike
    return f"{written} {words(draw, 'is')} {prefix}null", lambda row: turned(row[name] is None)


def combined(inner):
    @st.composite
    def build(draw):
        kind = draw(st.sampled_from(["not", "and", "or"]))
        if kind == "not":
            text, said = draw(inner)
            return f"{words(draw, 'not')} ({text})", lambda row: negation(said(row))
        parts = draw(st.lists(inner, min_size=2, max_size=3))
        join = conjunction if kind == "and" else disjunction
        text = f" {words(draw, kind)} ".join(f"({text})" for text, _ in parts)
        return text, lambda row: join([said(row) for _, said in parts])

    return build()


FILTERS = st.recursive(conditions(), combined, max_leaves=8)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), st.sampled_from(TEXTS)) for name in NAMES}), max_size=12
)


def passed(text, rows):
    def column(name):
        half = len(rows) // 2  # in two parts, as tables in files are
        values = [row[name] for row in rows]
        return pa.chunked_array([pa.array(values[:half], pa.string()), pa.array(values[half:], pa.string())])

    found = matching(parse_filter(text), column)
    assert found.dtype == bool
    return found.tolist()


@settings(max_examples=400, deadline=None)
@given(FILTERS, ROWS)
def test_any_filter_passes_exactly_the_rows_of_which_it_is_true_by_three_valued_logic(filter_, rows):
    text, said = filter_
    assert passed(text, rows) == [said(row) is True for row in rows]


def test_and_binds_tighter_than_or_and_not_tighter_than_both():
    rows = [{"a": a, "b": b, "c": c} for a in "01" for b in "01" for c in "01"]
    on = {name: [row[name] == "1" for row in rows] for name in "abc"}
    expected = [a or (b and c) for a, b, c in zip(*on.values(), strict=True)]
    assert passed("a = '1' or b = '1' and c = '1'", rows) == expected
    expected = [(not a and b) or c for a, b, c in zip(*on.values(), strict=True)]
    assert passed("not a = '1' and b = '1' or c = '1'", rows) == expected


def test_the_columns_of_a_filter_are_those_it_names():
    assert columns_of(parse_filter("a = 1 and not (b in ('c') or `d e` is null)")) == {"a", "b", "d e"}


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("split", "at its end", "one of ="),
        ("split =", "at its end", "a 'text' in single quotes"),
        ("split = test", "at 'test'", "a 'text' in single quotes"),
        ("split = 'test' cluster = 'x'", "at \"cluster = 'x'\"", "`and` or `or`"),
        ("(split = 'a'", "at its end", "`)`"),
        ("split in ()", "at ')'", "a 'text'"),
        ("split in 'a'", "at \"'a'\"", "`(`"),
        ("split not = 'a'", "at \"= 'a'\"", "one of ="),
        ("split is 'a'", "at \"'a'\"", "`null`"),
        ("and = 'a'", "at \"and = 'a'\"", "the name of a column"),
        ("year like 5", "at its end", "a 'text' after like"),
        ("split = 'open", 'at "\'open"', "a 'text'"),
        ("year = 1.2.3", "at '1.2.3'", "or a number"),
        ("year = 12x", "at '12x'", "or a number"),
        ("a ; b", "at '; b'", "one of ="),
        ("", "at its end", "the name of a column"),
    ],
)
def test_what_is_no_filter_is_refused_with_the_place_and_what_was_expected(text, place, expected):
    with pytest.raises(FactIndexError) as error:
        parse_filter(text)
    assert place in str(error.value)
    assert expected in str(error.value)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab =!<>()',`.%_-5\\\n\tinotrdlke", max_size=25))
def test_any_text_is_a_filter_or_refused_in_a_sentence(text):
    try:
        filter_ = parse_filter(text)
    except FactIndexError:
        return
    names = {name: pa.chunked_array([pa.array(["5", None, "b"])]) for name in columns_of(filter_)}
    assert matching(filter_, names.__getitem__).shape == np.shape([1, 2, 3])
