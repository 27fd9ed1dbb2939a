"""Filters as Milvus expressions.

Items are stored so that each condition has one clear meaning in Milvus: texts in VARCHAR fields and in the JSON field
`texts`, and the number that a text spells, if any, in the JSON field `numbers`. Versions of Milvus disagree on whether
a missing key is unequal to a value, but in all of them it is neither less nor greater; so `!=` becomes "less or
greater". What no expression states reliably (most `like` patterns, infinite numbers, control characters), or not to
this server (`like '%x'` before 2.4), is left to the client: `implied` then returns an expression that holds for all
images that pass, and perhaps for others.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from factlearn.retrieval.items import FACTS, METADATA
from factlearn.retrieval.where import Condition, Filter, Value, number_of

BUILT_IN = ("id", "path", "fact", "model")
NOTHING = 'id < ""'
_PLAIN_KEY = re.compile(r"(?!x_)[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PATTERN = re.compile(r"%?[^%_\\\"'\x00-\x1f\x7f\ud800-\udfff]*%?")


def json_key(key: str) -> str:
    """The key in a JSON field for a metadata key: the key itself, or its bytes in hex if it is not a plain word."""
    return key if _PLAIN_KEY.fullmatch(key) else "x_" + key.encode().hex()


def metadata_key(key: str) -> str:
    """The inverse of `json_key`."""
    return bytes.fromhex(key[2:]).decode() if key.startswith("x_") else key


def stored(item: Mapping[str, str | None], metadata: Mapping[str, str | None]) -> dict[str, dict[str, Any]]:
    """The JSON fields of an image, given its item and its metadata."""
    texts = {json_key(key): text for key, text in metadata.items() if text is not None}
    spelled = {**{f"@{name}": item[name] for name in BUILT_IN}, **texts}
    numbers = {key: number for key, text in spelled.items() if (number := number_of(text)) is not None}
    return {"texts": texts, "numbers": numbers}


def literal(text: str) -> str:
    """A text as a literal of an expression."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def one_of(ids: Sequence[str], key: str = "id") -> str:
    """The expression for rows by id."""
    return f"{key} in [{', '.join(map(literal, ids))}]"


def between(expression: str, low: str | None, high: str | None, key: str = "id") -> str:
    """The expression for rows that satisfy another and have `low` <= id < `high`."""
    limits = [expression] if expression else []
    limits += [f"{key} >= {literal(low)}"] if low is not None else []
    limits += [f"{key} < {literal(high)}"] if high is not None else []
    return joined("and", limits) if limits else ""


def joined(operator: str, parts: list[str]) -> str:
    """Expressions joined by `and` or `or`."""
    return parts[0] if len(parts) == 1 else f" {operator} ".join(f"({part})" for part in parts)


def implied(filter_: Filter, *, substrings: bool = True) -> tuple[str, bool]:
    """An expression that every image passing the filter satisfies, and whether no other image does.

    The empty expression is satisfied by all.

    Args:
        substrings: whether the server knows patterns that begin with %.
    """
    if isinstance(filter_, Condition):
        expression = _condition(filter_, substrings)
        return expression or "", expression is not None
    parts = [implied(part, substrings=substrings) for part in filter_.parts]
    texts, exact = [text for text, _ in parts], all(exact for _, exact in parts)
    if filter_.operator == "and":
        texts = [text for text in texts if text]
        return (joined("and", texts) if texts else ""), exact
    return (joined("or", texts) if all(texts) else ""), exact


def _condition(condition: Condition, substrings: bool) -> str | None:
    if condition.column == FACTS:
        return None
    text, number = _column(condition.column)
    there = f'{text} {">" if condition.column == "fact" else ">="} ""'
    if condition.operator == "null":
        return there if condition.negated else _missing(condition.column, text)
    if not all(map(_expressible, condition.values)):
        return None
    if condition.operator == "like":
        return _like(text, there, condition, substrings)
    operator = condition.operator if condition.operator != "in" else "!=" if condition.negated else "="
    tests = [_compare(text if isinstance(v, str) else number, operator, v) for v in condition.values]
    test = joined("and" if condition.negated else "or", tests)
    return joined("and", [there, test]) if condition.column == "fact" else test


def _column(name: str) -> tuple[str, str]:
    """The expressions for a column's text and number."""
    if name in BUILT_IN:
        return name, f'numbers["@{name}"]'
    key = json_key(name.removeprefix(METADATA))
    return f'texts["{key}"]', f'numbers["{key}"]'


def _missing(name: str, text: str) -> str:
    if name == "fact":
        return 'fact == ""'
    return NOTHING if name in BUILT_IN else f"not (exists {text})"


def _expressible(value: Value) -> bool:
    return not _CONTROL.search(value) if isinstance(value, str) else math.isfinite(value)


def _compare(column: str, operator: str, value: Value) -> str:
    right = literal(value) if isinstance(value, str) else repr(float(value))
    if operator == "!=":
        return joined("or", [f"{column} < {right}", f"{column} > {right}"])
    return f"{column} {'==' if operator == '=' else operator} {right}"


def _like(text: str, there: str, condition: Condition, substrings: bool) -> str | None:
    """Prefixes, suffixes, substrings and whole texts only, which mean the same wherever they are known."""
    pattern = condition.values[0]
    assert isinstance(pattern, str)
    if not _PATTERN.fullmatch(pattern) or pattern.strip("%") == "" or (pattern[0] == "%" and not substrings):
        return None
    if pattern[-1] != "%" and pattern[0] != "%":
        return joined("and", [there, _compare(text, "!=" if condition.negated else "=", pattern)])
    test = f"{text} like {literal(pattern)}"
    return joined("and", [there, f"not ({test})" if condition.negated else test])
