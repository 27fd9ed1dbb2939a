"""Small sentence encoders with random weights, packed as MiniLM is published."""

import io
import json
import tarfile
from functools import cache

import numpy as np
from safetensors.numpy import save

from factlearn.assets.sentences import OfMiniLM

SIZE = (64, 2)
"""Dimension and layers; the smallest has one head of 32."""
SMALLEST = (32, 1)
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "d", "##o", "dog", "##gy", "cat", "riding", "bike", "##s", "!", "犬"]
TOKENIZER = {
    "normalizer": {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True,
    },
    "model": {"type": "WordPiece", "vocab": {piece: row for row, piece in enumerate(PIECES)}},
}  # fmt: skip


def convert(package, folder, size=SIZE):
    OfMiniLM(*size)(package, folder)


def random_arrays(size=SIZE):
    """Weights by name."""
    generator = np.random.default_rng(0)
    shapes = OfMiniLM(*size)._shapes(len(PIECES))
    arrays = {
        name: generator.normal(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.2, shape).astype(np.float16)
        for name, shape in shapes.items()
    }
    return arrays | {"embeddings.position_ids": np.arange(512)[None], "pooler.dense.bias": np.zeros(size[0])}


@cache
def random_weights(size=SIZE):
    """The same as a safetensors file."""
    return save(random_arrays(size))


def minilm_package(path, tokenizer=None, weights=None, size=SIZE):
    """An npm archive; its two files may be given as bytes."""
    files = {
        "package/package.json": b"{}",
        "package/model/tokenizer.json": json.dumps(TOKENIZER).encode() if tokenizer is None else tokenizer,
        "package/model/model.fp16.safetensors": random_weights(size) if weights is None else weights,
    }
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return path
