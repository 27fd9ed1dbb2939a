"""Units in any place: which places are tried, and scores that compare between them."""

import numpy as np
import pytest

from factlearn.facts import Fact, FactQuery, Vocabulary
from factlearn.retrieval import FactIndex
from factlearn.retrieval.anywhere import anywhere, placements
from factlearn.retrieval.sentences import Reading

KNOWN = Vocabulary.of([Fact("person", "riding", "bike"), Fact("dog"), Fact("person", "holding", "dog")])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("<bike>", ["<bike>", "<*, *, bike>"]),
        ("<*, *, dog>", ["<*, *, dog>", "<dog>"]),
        ("<bicycle>", ["<bicycle>", "<*, *, bicycle>"]),
        ("<riding>", ["<riding>", "<*, riding>"]),
        ("<*, sitting on>", ["<*, sitting on>"]),
        ("<dog, holding>", ["<dog, holding>", "<*, holding, dog>"]),
        ("<person, *, dog>", ["<person, *, dog>", "<dog, *, person>"]),
    ],
)
def test_a_unit_is_looked_for_wherever_it_may_stand(query, expected):
    assert list(map(str, placements(FactQuery.parse(query), KNOWN))) == expected


def test_what_is_unwanted_is_unwanted_in_any_place():
    reading = Reading("", FactQuery(("person",)), without=(FactQuery(("dog",)),))
    placed = anywhere(reading, KNOWN)
    assert list(map(str, placed.without)) == ["<dog>", "<*, *, dog>"]
    assert anywhere(placed, KNOWN) == placed


@pytest.fixture
def dogs(tmp_path, language):
    """Dogs as subjects, seen clearly, and as objects, seen less clearly; people on bikes; other things."""
    shown = [Fact("dog")] * 10 + [Fact("woman", "holding", "dog")] * 10 + [Fact("person", "riding", "bike")] * 10
    targets, mask = language.embed(shown)
    noise = np.random.default_rng(0).normal(size=targets.shape) * np.array([0.02, 0.1, 0.2])[:, None]
    vectors = np.where(mask[..., None], targets + noise, 0).astype(np.float32)
    ids = [f"{number:02}.png" for number in range(30)]
    about = {"paths": ids, "facts": shown, "known_facts": set(shown)}
    return FactIndex.create(tmp_path / "dogs", vectors, ids, language=language, model="m", **about)


def test_both_places_are_found_before_anything_else(dogs):
    assert {hit.fact for hit in dogs.query("<dog>", k=10)} == {Fact("dog")}
    hits = dogs.query("<dog>", k=20, anywhere=True)
    assert [hit.fact.units[-1] for hit in hits] == ["dog"] * 20
    assert all(hit.score > 0 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert dogs.query("<dog>", k=30, anywhere=True)[20].score < min(hit.score for hit in hits)


def test_pages_thresholds_and_conditions_work_as_in_other_queries(dogs):
    whole = dogs.query("<dog>", k=30, anywhere=True)
    assert len({hit.id for hit in whole}) == len(whole) == 30
    assert dogs.query("<dog>", k=7, offset=5, anywhere=True) == whole[5:12]
    assert dogs.query("<dog>", k=30, threshold=whole[11].score, anywhere=True) == whole[:12]
    assert dogs.query_many(["<dog>", "<bike>"], k=3, anywhere=True)[0] == whole[:3]
    kept = dogs.query("<person>", k=30, without=["<dog>"], anywhere=True)
    assert {hit.fact for hit in kept} == {Fact("person", "riding", "bike")}
    women = dogs.query("<dog>", k=10, also=["<woman>"], anywhere=True)
    assert {hit.fact for hit in women} == {Fact("woman", "holding", "dog")}
