"""Reading a manifest's rows: CSV, TSV, JSON lines and Parquet become numbered mappings of text."""

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from factlearn.errors import DatasetError

COLUMNS = ("path", "split", "subject", "predicate", "object")
OPTIONAL = "split"
"""The one column that may be missing; a split is then made (see `factlearn.data.splitting`)."""
_NEEDED_IN_JSON = ("path", "subject")
_LONGEST_FIELD = 1 << 20
_DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class Row:
    """One row of a manifest: its place, its values, and what is wrong with it, if anything."""

    place: str
    values: Mapping[str, str]
    problem: str = ""


def read_rows(path: Path) -> Iterator[Row]:
    """Read a manifest by its suffix; a row that cannot be read carries its problem.

    Raises:
        DatasetError: if the file as a whole cannot be used: missing, of an unknown kind, or lacking a column.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DatasetError(f"The manifest {path} is of an unknown kind; use {', '.join(MANIFEST_SUFFIXES)}.")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DatasetError(f"The manifest {path} {what}; name the file that lists the images.")
    try:
        yield from reader(path)
    except OSError as error:
        raise DatasetError(f"The manifest {path} cannot be read: {error.strerror or error}.") from error


def _misspelt(missing: str, present: Sequence[str]) -> str:
    """A hint if a column looks like a misspelling of the missing one."""
    close = get_close_matches(missing, [name for name in present if name not in COLUMNS], n=1, cutoff=0.75)
    return f" (is {close[0]!r} meant?)" if close else ""


def _check_columns(present: Sequence[str], path: Path) -> None:
    for name in present:
        if name in COLUMNS and present.count(name) > 1:
            raise DatasetError(f"The manifest {path} has two columns called {name}; keep one.")
    hints = {name: _misspelt(name, present) for name in COLUMNS if name not in present}
    missing = [name + hint for name, hint in hints.items() if hint or name != OPTIONAL]
    if missing:
        raise DatasetError(
            f"The manifest {path} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"it needs {', '.join(COLUMNS)}."
        )


def _broken_text(values: Mapping[str, str]) -> str:
    """Bytes that are not UTF-8 were read as lone surrogates, so that their row can be named."""
    for name, value in values.items():
        if any("\udc80" <= letter <= "\udcff" for letter in name + value):
            return f"the {name} is not UTF-8 text; save the file as UTF-8"
    return ""


def manifest_text(path: Path) -> str:
    """The text of a file, without a byte order mark; spreadsheets also write UTF-16, which always has one."""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "surrogateescape")


def delimiter_of(text: str, usual: str) -> str:
    """What separates the fields of a table: whatever finds most of our columns in its header."""

    def found(delimiter: str) -> int:
        try:
            header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            return 0
        return len({name.strip().lower() for name in header} & {*COLUMNS})

    return max((usual, *_DELIMITERS), key=found)


def _read_csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_FIELD)
    text = manifest_text(path)
    delimiter = delimiter_of(text, "\t" if path.suffix.lower() == ".tsv" else ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not header:
            raise DatasetError(f"The manifest {path} is empty; its first line names the columns.")
        _check_columns(header, path)
        start = reader.line_num + 1
        for fields in reader:
            place, start = f"line {start}", reader.line_num + 1
            if not fields:
                continue
            values = dict(zip(header, fields, strict=False))
            problem = _broken_text(values)
            if len(fields) != len(header):
                problem = f"it has {len(fields)} fields instead of {len(header)}"
            yield Row(place, values, problem)
    except csv.Error as error:
        raise DatasetError(f"The manifest {path} cannot be read at line {reader.line_num}: {error}.") from error


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _row_of_object(place: str, raw: Mapping[Any, Any]) -> Row:
    """A row with typed values: our own columns must be text, any others are converted."""
    names = {key: str(key).strip().lower() for key in raw}
    values = {names[key]: _as_text(value) for key, value in raw.items()}
    for key, value in raw.items():
        if names[key] in COLUMNS and value is not None and not isinstance(value, str):
            return Row(place, values, f"the {names[key]} is {_as_text(value)} instead of text")
    for name in COLUMNS:
        if name not in values:
            hint = _misspelt(name, list(values))
            if hint or name in _NEEDED_IN_JSON:
                return Row(place, values, f"it has no {name}{hint}")
    return Row(place, values, _broken_text(values))


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in enumerate(manifest_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Row(place, {}, f"it is not JSON ({error})")
            continue
        if isinstance(raw, dict):
            yield _row_of_object(place, raw)
        else:
            yield Row(place, {}, 'it is not a JSON object such as {"path": "a.jpg", "split": "train", ...}')


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        _check_columns([str(name).strip().lower() for name in table.column_names], path)
        number = 0
        for batch in table.to_batches():
            for raw in batch.to_pylist():
                number += 1
                yield _row_of_object(f"row {number}", raw)
    except (pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise DatasetError(f"The manifest {path} is not a whole Parquet file; write it again.") from error


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
MANIFEST_SUFFIXES = tuple(_READERS)
"""What the name of a manifest ends in, lower case."""
