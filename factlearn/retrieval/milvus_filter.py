"""Filters in the language of Milvus.

What is known of an image is stored so that each condition has one plain meaning there: texts in VARCHAR columns and in
the JSON column `texts`, and the number that a text spells, if any, in the JSON column `numbers`. Milvus versions differ
in what a comparison with a missing key gives, so each condition first asks whether the key exists. What no expression
says reliably (most patterns of `like`, infinite numbers, control characters) is left to the client: `implied` then
gives an expression that holds for at least the images that pass.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.retrieval.segments import METADATA
from factlearn.retrieval.where import Condition, Filter, Value, number_of

BUILT_IN = ("id", "path", "fact", "model")
NOTHING = 'id < ""'
_PLAIN_KEY = re.compile(r"(?!x_)[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PATTERN = re.compile(r"%?[^%_\\\"'\x00-\x1f\x7f\ud800-\udfff]*%?")
_OPERATORS = {"=": "=="}


def json_key(key: str) -> str:
    """The key of a JSON column that stands for a metadata key: itself, or if it is no plain word its bytes."""
    return key if _PLAIN_KEY.fullmatch(key) else "x_" + key.encode().hex()


def metadata_key(key: str) -> str:
    """The metadata key that a key of a JSON column stands for."""
    return bytes.fromhex(key[2:]).decode() if key.startswith("x_") else key


def stored(item: Mapping[str, str | None], metadata: Mapping[str, str | None]) -> dict[str, dict[str, Any]]:
    """The JSON columns of an image, given its built-in texts and its metadata."""
    texts = {json_key(key): text for key, text in metadata.items() if text is not None}
    spelled = {**{f"@{name}": item[name] for name in BUILT_IN}, **texts}
    numbers = {key: number for key, text in spelled.items() if (number := number_of(text)) is not None}
    return {"texts": texts, "numbers": numbers}


def literal(text: str) -> str:
    """A text as a literal."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def one_of(ids: Sequence[str], key: str = "id") -> str:
    """The expression for some rows."""
    return f"{key} in [{', '.join(map(literal, ids))}]"


def between(expression: str, low: str | None, high: str | None, key: str = "id") -> str:
    """The expression for rows that satisfy another and have ids from `low` to before `high`."""
    limits = [expression] if expression else []
    limits += [f"{key} >= {literal(low)}"] if low is not None else []
    limits += [f"{key} < {literal(high)}"] if high is not None else []
    return joined("and", limits) if limits else ""


def joined(operator: str, parts: list[str]) -> str:
    """Expressions joined by `and` or `or`."""
    return parts[0] if len(parts) == 1 else f" {operator} ".join(f"({part})" for part in parts)


def implied(filter_: Filter) -> tuple[str, bool]:
    """An expression that every image which passes the filter satisfies, and whether no other does.

    An empty expression is satisfied by all.
    """
    if isinstance(filter_, Condition):
        expression = _condition(filter_)
        return expression or "", expression is not None
    parts = [implied(part) for part in filter_.parts]
    texts, exact = [text for text, _ in parts], all(exact for _, exact in parts)
    if filter_.operator == "and":
        texts = [text for text in texts if text]
        return (joined("and", texts) if texts else ""), exact
    return (joined("or", texts) if all(texts) else ""), exact


def _condition(condition: Condition) -> str | None:
    text, number, exists = _column(condition.column)
    if condition.operator == "null":
        if exists is None:
            return 'id >= ""' if condition.negated else NOTHING
        return exists if condition.negated else f"not ({exists})"
    if not all(map(_expressible, condition.values)):
        return None
    if condition.operator == "like":
        test = _like(text, condition)
    elif condition.operator == "in":
        test = _in(text, number, condition)
    elif isinstance(condition.values[0], str):
        test = _compare(text, condition.operator, condition.values[0])
    else:
        exists, test = f"exists {number}", _compare(number, condition.operator, condition.values[0])
    return None if test is None else joined("and", [part for part in (exists, test) if part])


def _column(name: str) -> tuple[str, str, str | None]:
    """A column's text, its number, and the test that it is not missing, if it can be."""
    if name in BUILT_IN:
        return name, f'numbers["@{name}"]', 'fact != ""' if name == "fact" else None
    key = json_key(name.removeprefix(METADATA))
    return f'texts["{key}"]', f'numbers["{key}"]', f'exists texts["{key}"]'


def _expressible(value: Value) -> bool:
    return not _CONTROL.search(value) if isinstance(value, str) else math.isfinite(value)


def _compare(column: str, operator: str, value: Value) -> str:
    right = literal(value) if isinstance(value, str) else repr(float(value))
    return f"{column} {_OPERATORS.get(operator, operator)} {right}"


def _in(text: str, number: str, condition: Condition) -> str:
    tests = []
    for value in condition.values:
        operator = "!=" if condition.negated else "="
        if isinstance(value, str):
            tests.append(_compare(text, operator, value))
        else:
            tests.append(joined("and", [f"exists {number}", _compare(number, operator, value)]))
    return joined("and" if condition.negated else "or", tests)


def _like(text: str, condition: Condition) -> str | None:
    """Only beginnings, ends, parts and whole texts, which mean the same everywhere."""
    pattern = condition.values[0]
    assert isinstance(pattern, str)
    if not _PATTERN.fullmatch(pattern) or pattern.strip("%") == "":
        return None
    test = f"{text} like {literal(pattern)}"
    return f"not ({test})" if condition.negated else test
