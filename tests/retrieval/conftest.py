import numpy as np
import pytest
from gensim.models import KeyedVectors

from factlearn.facts import Fact
from factlearn.language import LanguageSpace
from factlearn.retrieval import FactIndex

WORDS = ("person", "woman", "dog", "riding", "holding", "bike", "horse", "mountain", "golf")
FACTS = (
    Fact("person", "riding", "bike"),
    Fact("person", "riding", "mountain bike"),
    Fact("woman", "holding", "dog"),
    Fact("person", "riding"),
    Fact("dog"),
)


def language_space(seed=0, dimension=8):
    vectors = KeyedVectors(dimension)
    vectors.add_vectors(WORDS, np.random.default_rng(seed).normal(size=(len(WORDS), dimension)).astype(np.float32))
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
