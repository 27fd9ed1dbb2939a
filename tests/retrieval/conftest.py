from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex
from factlearn.retrieval.folder.lock import locked
from factlearn.retrieval.folder.structures import write_structure
from factlearn.retrieval.folder.writer import Writer

WORDS = ("person", "woman", "dog", "riding", "holding", "bike", "horse", "mountain", "golf")
FACTS = (
    Fact("person", "riding", "bike"),
    Fact("person", "riding", "mountain bike"),
    Fact("woman", "holding", "dog"),
    Fact("person", "riding"),
    Fact("dog"),
)


def language_space(seed=0, dimension=8, words=WORDS):
    vectors = KeyedVectors(dimension)
    vectors.add_vectors(words, np.random.default_rng(seed).normal(size=(len(words), dimension)).astype(np.float32))
    return LanguageSpace.of_vectors(vectors, normalise=True)


@pytest.fixture
def language():
    return language_space()


@pytest.fixture
def collection(language):
    """Vectors near the facts' targets, with exact duplicates, and what goes with them."""
    rng = np.random.default_rng(1)
    shown = [FACTS[place] for place in rng.integers(0, len(FACTS), 120)]
    targets, _ = language.embed(shown)
    vectors = (targets + rng.normal(size=targets.shape) * 0.3).astype(np.float32)
    vectors[40:80] = vectors[:40]
    ids = [f"set/{number}.png" for number in rng.permutation(len(shown))]
    return {
        "vectors": vectors,
        "ids": ids,
        "paths": [f"/pictures/{name}" for name in ids],
        "facts": [None if place % 10 == 0 else fact for place, fact in enumerate(shown)],
        "metadata": [{"split": "test", **({"vendor": "x"} if place % 2 else {})} for place in range(len(shown))],
    }


@pytest.fixture
def index(tmp_path, collection, language):
    return FactIndex.create(tmp_path / "index", **collection, language=language, model="m1", known_facts=FACTS)


def more_images(count, seed=2, prefix="more"):
    """Arguments of `FactIndex.add` for random images."""
    vectors = np.random.default_rng(seed).normal(size=(count, 3, 8)).astype(np.float32) * 0.3
    ids = [f"{prefix}/{number}.png" for number in range(count)]
    return {
        "vectors": vectors,
        "ids": ids,
        "paths": [f"/pictures/{name}" for name in ids],
        "metadata": [{"split": "train", "year": str(1990 + number)} for number in range(count)],
    }


def link(path: Path) -> None:
    """Give an index a search structure over its first segments."""
    with locked(path):
        writer = Writer(path)
        covered = writer.segments[:1]
        count, dimension = sum(map(len, covered)), writer.manifest.dimension
        settings = {"kind": "hnsw", "links": 8, "candidates": count, "dimension": dimension}

        def parts():
            return (segment.take(np.arange(len(segment))) for segment in covered)

        names = [segment.entry.name for segment in covered]
        writer.update(structure=write_structure(path, writer.new_name(), parts, count, dimension, settings, names))
        writer.commit()


def compact(path: Path) -> None:
    """Join all segments that can be joined."""
    with locked(path):
        writer = Writer(path)
        writer.compact(whole=True)
        writer.commit()


@pytest.fixture
def grown(index, collection):
    """An index with every kind of file: several segments of two models, removed images, added facts, a structure."""
    index.add(**more_images(30), model="m2", known_facts=[Fact("woman", "holding", "golf")])
    index.remove([*collection["ids"][:9], "more/3.png"])
    index.add(**more_images(5, seed=3, prefix="late"), model="m2")
    link(index.path)
    index.reload()
    return index
