"""The split of a manifest that has none."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.data.samples import Sample
from factlearn.data.splitting import with_split
from factlearn.facts import Fact

FACTS = [Fact("dog"), Fact("cat"), Fact("person", "riding", "bike"), Fact("person", "running")]


def photos(shown: list[list[int]]) -> list[Sample]:
    samples = []
    for number, facts in enumerate(shown):
        labels = {FACTS[fact]: {} for fact in facts}
        samples.append(Sample(f"{number}.jpg", Path(f"{number}.jpg")).showing(labels))
    return samples


some_photos = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), min_size=1, max_size=40)


@settings(deadline=None)
@given(some_photos, st.integers(0, 5))
def test_every_fact_has_training_photos(shown: list[list[int]], seed: int) -> None:
    split = with_split(photos(shown), seed)
    for fact in {fact for sample in split for fact in sample.facts}:
        assert any(fact in sample.facts for sample in split if sample.split == "train")


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 5), st.data())
def test_two_photos_are_enough_for_a_test_photo_and_appended_rows_move_none(
    shown: list[int], seed: int, data: st.DataObject
) -> None:
    samples = photos([[fact] for fact in shown])
    whole = with_split(samples, seed)
    for fact in FACTS:
        sides = [sample.split for sample in whole if sample.fact == fact]
        assert len(sides) < 2 or {*sides} == {"train", "test"}
    before = data.draw(st.integers(1, len(shown)))
    assert with_split(samples[:before], seed) == whole[:before]


def test_a_photo_of_two_facts_does_not_cost_the_other_fact_its_test_photo() -> None:
    first, second = with_split(photos([[0], [0, 1]]), seed=0)
    assert (first.split, second.split) == ("test", "train")


def test_about_a_fifth_is_for_testing_and_the_seed_decides_which() -> None:
    samples = photos([[0]] * 1000)
    tests = [{sample.id for sample in with_split(samples, seed) if sample.split == "test"} for seed in (0, 0, 1)]
    assert tests[0] == tests[1] != tests[2]
    assert all(160 < len(chosen) < 240 for chosen in tests)
