"""Excluding a fact from noisy vectors."""

import numpy as np
import pytest

from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.negation import showing_any
from tests.retrieval.conftest import language_space
from tests.retrieval.words import many_units

OBJECTS = many_units("thing", 12)
FACTS = [Fact("person", "riding", thing) for thing in OBJECTS]
UNWANTED = FactQuery((None, None, OBJECTS[0]))


def noisy(language, fact, count, noise, shrinkage=1.0, seed=0):
    """Vectors of images of a fact as an unsure model writes them: shortened and noisy."""
    (target,), _ = language.embed([fact])
    rng = np.random.default_rng(seed)
    return (shrinkage * target + noise * rng.normal(size=(count, *target.shape))).astype(np.float32)


@pytest.fixture(scope="module")
def language():
    return language_space(words=("person", "riding", *OBJECTS), dimension=50)


@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_the_default_excludes_noisy_images_of_the_fact_that_a_margin_of_0_lets_through(language, shrinkage):
    images = noisy(language, FACTS[0], 2000, 0.3 * shrinkage, shrinkage)
    loose = showing_any(images, [UNWANTED], FACTS, language, margin=0)
    firm = showing_any(images, [UNWANTED], FACTS, language)
    assert (firm >= loose).all()
    assert (~firm).sum() <= (~loose).sum() / 4
    assert (~loose).sum() > 20


@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_images_of_other_facts_stay(language, shrinkage):
    kept = []
    for number, fact in enumerate(FACTS[1:]):
        images = noisy(language, fact, 200, 0.1 * shrinkage, shrinkage, seed=number)
        kept.append(~showing_any(images, [UNWANTED], FACTS, language))
    assert np.concatenate(kept).mean() > 0.95


def test_a_larger_margin_never_excludes_fewer(language):
    images = noisy(language, FACTS[1], 500, 0.3)
    counts = [showing_any(images, [UNWANTED], FACTS, language, margin).sum() for margin in (0, 0.2, 0.5, 1)]
    assert counts == sorted(counts)
