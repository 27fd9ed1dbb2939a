from hypothesis import given
from hypothesis import strategies as st

from factlearn.experiments.paper.subsets import halves, links
from factlearn.facts import Fact


@given(st.integers(2, 30), st.integers(0, 5))
def test_halves_split_all_facts_evenly(count, seed):
    facts = [Fact(f"thing{number}") for number in range(count)]
    one, other = halves(facts, seed)
    assert sorted([*one, *other]) == sorted(facts)
    assert 0 <= len(one) - len(other) <= 1
    assert halves(facts[::-1], seed) == (one, other)


def test_links_are_made_anew_only_if_the_images_changed(tmp_path):
    images = [tmp_path / f"{name}.png" for name in "ab"]
    for image in images:
        image.write_bytes(b"")
    folder = links(images, tmp_path / "links")
    before = folder.stat().st_ino
    assert links(images, tmp_path / "links").stat().st_ino == before
    assert len(list(links(images[:1], tmp_path / "links").iterdir())) == 1
