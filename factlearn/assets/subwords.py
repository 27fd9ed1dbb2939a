"""Word vectors made of subwords: no word is unknown.

WordLlama's table has a row for each of 32,000 pieces of words, Llama 2's. A word is spelled in pieces by byte-pair
encoding: from single characters, the pair that was merged earliest in training is merged first; a character without a
piece of its own is spelled in bytes. The word's vector is the mean of its pieces' rows. The table was trained so that
its leading columns are a table by themselves, so it may be cut to 128 or 64.

    vectors.npy    float32, one row per piece
    pieces.json    {"pieces": [...], "merges": [[left, right], ...]}, both in order
"""

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from factlearn.assets.vectors import VECTORS_FILE
from factlearn.errors import AssetError
from factlearn.files import write_json

PIECES_FILE = "pieces.json"
_START = "▁"  # marks a piece that starts a word
_TABLE = "wordllama/weights/l2_supercat_256.safetensors"
_TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_RARE = 1 << 30


@dataclass(frozen=True)
class OfWordLlama:
    """Converts the wheel wordllama: a table of 256 columns, of which the first are kept, and a tokenizer."""

    dimension: int

    def __call__(self, package: Path, folder: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            with zipfile.ZipFile(package) as archive:
                (table,) = load(archive.read(_TABLE)).values()
                model = json.loads(archive.read(_TOKENIZER))["model"]
            merges = [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in model["merges"]]
            pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
        except (OSError, zipfile.BadZipFile, zlib.error, SafetensorError, KeyError, ValueError, TypeError) as error:
            raise AssetError(f"{package} does not hold WordLlama's table and tokenizer; it is damaged.") from error
        vectors = np.ascontiguousarray(table[:, : self.dimension], dtype=np.float32)
        if vectors.shape != (len(pieces), self.dimension) or not np.isfinite(vectors).all():
            raise AssetError(f"{package} holds {len(pieces)} pieces but a table of shape {table.shape}; it is damaged.")
        np.save(folder / VECTORS_FILE, vectors)
        write_json(folder / PIECES_FILE, {"pieces": pieces, "merges": merges})


class SubwordVectors:
    """Vectors of any word, with the part of gensim's KeyedVectors that a language space asks for.

    Attributes:
        vectors: one row per piece.
        index_to_key: the words that are one piece, frequent ones first.
        key_to_index: has every word; its values rank words by frequency, and words of several pieces come last.
    """

    def __init__(self, folder: Path) -> None:
        stored = json.loads((folder / PIECES_FILE).read_text(encoding="utf-8"))
        self.vectors: NDArray[np.float32] = np.load(folder / VECTORS_FILE)
        self._rows = {piece: row for row, piece in enumerate(stored["pieces"])}
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(stored["merges"])}
        whole = [piece.removeprefix(_START) for piece in self._rows if piece.startswith(_START)]
        self.index_to_key = [word for word in whole if word.isalpha()]
        self.key_to_index: Mapping[str, int] = EveryWord(self.index_to_key)

    @property
    def vector_size(self) -> int:
        """The length of a vector."""
        return int(self.vectors.shape[1])

    def pieces(self, word: str) -> list[str]:
        """How a word is spelled."""
        parts = [part for character in _START + word for part in self._spelled(character)]
        while True:
            ranks = [self._ranks.get(pair, _RARE) for pair in pairwise(parts)]
            best = min(ranks, default=_RARE)
            if best == _RARE:
                return parts
            place = ranks.index(best)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    def _spelled(self, character: str) -> list[str]:
        return [character] if character in self._rows else [f"<0x{byte:02X}>" for byte in character.encode()]

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        rows = [self._rows[piece] for piece in self.pieces(word)]
        mean: NDArray[np.float64] = self.vectors[rows].mean(axis=0, dtype=np.float64)
        return mean.astype(np.float32)


class EveryWord(Mapping[str, int]):
    """Ranks of words; those that are not listed come last, but are there if they are known."""

    def __init__(self, words: list[str], is_known: Callable[[str], bool] = bool) -> None:
        self._ranks = {word: rank for rank, word in enumerate(words)}
        self._is_known = is_known

    def __getitem__(self, word: str) -> int:
        if not self._is_known(word):
            raise KeyError(word)
        return self._ranks.get(word, _RARE)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)
