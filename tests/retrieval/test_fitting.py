"""Facts of one, two and three units compared fairly, on vectors whose units are noisy to different degrees."""

import numpy as np
import pytest

from factlearn.facts import Fact
from factlearn.retrieval.fitting import Fitting
from tests.retrieval.conftest import language_space
from tests.retrieval.words import many_units

SUBJECTS, PREDICATES, OBJECTS = (many_units(name, 30) for name in ("s", "p", "o"))
NOISE = [(0.05, 0.1, 0.15), (0.1, 0.2, 0.3), (0.2, 0.2, 0.2)]  # of subject, predicate and object
RNG = np.random.default_rng(7)


def _facts():
    """As many facts of one, two and three units; most about the same subject, as people are in photos."""
    facts = {Fact(subject) for subject in SUBJECTS}
    while len(facts) < 90:
        subject = SUBJECTS[0] if RNG.random() < 0.7 else RNG.choice(SUBJECTS)
        units = [subject, RNG.choice(PREDICATES), RNG.choice(OBJECTS)]
        fact = Fact(*map(str, units[: 2 if len(facts) < 60 else 3]))
        facts.add(fact)
    return sorted(facts)


FACTS = _facts()


@pytest.fixture(scope="module", params=NOISE, ids=str)
def shown(request):
    """Images, ten of each fact; a unit that a fact does not have is between some that were taught."""
    language = language_space(words=(*SUBJECTS, *PREDICATES, *OBJECTS), dimension=50)
    images = [fact for fact in FACTS for _ in range(10)]
    vectors, mask = language.embed(images)
    units = [np.stack([language.unit(unit) for unit in known]) for known in (SUBJECTS, PREDICATES, OBJECTS)]
    for row, position in zip(*np.nonzero(~mask), strict=True):
        vectors[row, position] = units[position][RNG.choice(30, 4, replace=False)].mean(axis=0)
    vectors = vectors + RNG.normal(size=vectors.shape) * np.array(request.param)[:, None]
    return language, images, vectors.astype(np.float32)


def found_orders(images, scores):
    """The number of units of the best fact for each image, and of the right one."""
    return np.array([[FACTS[best].order, fact.order] for best, fact in zip(scores.argmax(axis=1), images, strict=True)])


def test_no_number_of_units_is_favoured(shown):
    language, images, vectors = shown
    targets, mask = language.embed(FACTS)
    fitting = Fitting.of(vectors, FACTS, language)
    scores = np.stack([fitting.scores(vector, targets, mask) for vector in vectors])
    orders = found_orders(images, scores)
    for order in (1, 2, 3):
        assert (orders[:, 0] == order).sum() == pytest.approx((orders[:, 1] == order).sum(), rel=0.25)
        right = scores[orders[:, 1] == order].argmax(axis=1)
        wanted = [FACTS.index(fact) for fact in images if fact.order == order]
        assert (right == wanted).mean() > 0.65


def test_a_mean_of_distances_would_favour_few_units(shown):
    language, images, vectors = shown
    targets, mask = language.embed(FACTS)
    distances = np.square(vectors[:, None].astype(np.float64) - targets).sum(axis=-1)
    orders = found_orders(images, -(distances * mask).sum(axis=-1) / mask.sum(axis=-1))
    assert (orders[:, 0] == 3).sum() < 0.5 * (orders[:, 1] == 3).sum()
