import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.errors import FactIndexError
from factlearn.retrieval.folder import store
from factlearn.retrieval.folder.lock import locked
from factlearn.retrieval.folder.structures import Coding, write_structure
from factlearn.retrieval.folder.writer import Writer
from factlearn.retrieval.rows import pack
from factlearn.retrieval.search import Question, nearest, nearest_to_all
from factlearn.retrieval.where import parse_filter
from tests.retrieval.test_search import brute_force, opened, plain, store_of

DIMENSION = 12
MASKS = list(itertools.product([0.0, 1.0], repeat=3))[1:]
SETTINGS = {
    "pq": {"part": 2},
    "ivf": {"part": 2, "lists": 8, "probes": 8},
    "hnsw": {"links": 16},
}


@pytest.fixture
def images():
    """Vectors around a few centres, as those of facts are."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 3, DIMENSION))
    vectors = centres[rng.integers(0, 20, 2_000)] + rng.normal(size=(2_000, 3, DIMENSION)) * 0.4
    return vectors.astype(np.float32), [f"{number:04d}" for number in rng.permutation(2_000)]


def structured(path, kind, candidates, covered=None, **changes):
    """The index with a structure over its first segments, opened."""
    with locked(path):
        writer = Writer(path)
        chosen = writer.segments[:covered]
        dimension = writer.manifest.dimension
        chosen_settings = {"kind": kind, "candidates": candidates, "dimension": dimension, **SETTINGS[kind], **changes}
        entry = write_structure(
            path,
            writer.new_name(),
            lambda: (segment.take(np.arange(len(segment))) for segment in chosen),
            sum(map(len, chosen)),
            dimension,
            chosen_settings,
            [segment.entry.name for segment in chosen],
        )
        writer.update(structure=entry)
        writer.commit()
    return opened(path)


def questions(count, masks=MASKS):
    rng = np.random.default_rng(1)
    return [plain(rng.normal(size=(3, DIMENSION)), mask) for mask in masks for _ in range(count)]


@pytest.mark.parametrize(("kind", "part"), [("pq", 4), ("ivf", 5)])  # an odd number of parts, and padded ones
def test_codes_whose_candidates_are_all_images_answer_exactly(tmp_path, images, kind, part):
    vectors, names = images
    store_of(tmp_path / "index", vectors, names, most_rows=700)
    index = structured(tmp_path / "index", kind, len(names), part=part)
    assert not index.exact
    for question in [*questions(2), *questions(2, [(1.0, 2.5, 0.3)])]:
        found = nearest(index, [question], 10)[0]
        assert index.names(found.keys) == brute_force(vectors, [question], names)[:10]
    both = questions(1)[:2]
    assert index.names(nearest_to_all(index, both, 10).keys) == brute_force(vectors, both, names)[:10]


@pytest.mark.parametrize(
    ("kind", "masks", "least"), [("pq", MASKS, 0.9), ("ivf", MASKS, 0.9), ("hnsw", [(1.0, 1.0, 1.0)], 0.9)]
)
def test_a_tenth_of_the_images_as_candidates_holds_nearly_all_of_the_best(tmp_path, images, kind, masks, least):
    vectors, names = images
    store_of(tmp_path / "index", vectors, names)
    index = structured(tmp_path / "index", kind, 200)
    for mask in masks:
        asked = questions(10, [mask])
        found = [index.names(each.keys) for each in nearest(index, asked, 10)]
        expected = [brute_force(vectors, [question], names)[:10] for question in asked]
        shares = [len(set(some) & set(right)) / 10 for some, right in zip(found, expected, strict=True)]
        assert np.mean(shares) >= least, mask


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("few", [0, 20_000])
def test_removed_and_filtered_images_are_never_found_and_uncovered_ones_always(
    tmp_path, monkeypatch, images, kind, few
):
    monkeypatch.setattr(store, "_FEW", few)
    vectors, names = images
    kept = np.random.default_rng(2).random(len(names)) < 0.6
    groups = [place % 3 for place in range(len(names))]
    store_of(tmp_path / "index", vectors, names, most_rows=500, kept=kept, groups=groups)
    index = structured(tmp_path / "index", kind, 300, covered=2)
    for where, allowed in [(None, kept), (parse_filter("group = 1"), kept & (np.array(groups) == 1))]:
        question = questions(1)[-1]
        expected = brute_force(vectors, [question], names, allowed)
        found = index.names(nearest(index, [question], 40, where)[0].keys)
        assert len(found) == 40
        assert set(found) <= set(expected)
        uncovered = [[name for name in ranking if name in names[1000:]] for ranking in (found, expected)]
        assert uncovered[0] == uncovered[1][: len(uncovered[0])]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_fewer_images_than_processors_can_have_a_structure(tmp_path, monkeypatch, count):
    monkeypatch.setattr("factlearn.retrieval.folder.structures._shard_count", lambda: 4)
    vectors = np.random.default_rng(0).normal(size=(count, 3, DIMENSION)).astype(np.float32)
    names = [str(number) for number in range(count)]
    store_of(tmp_path / "index", vectors, names)
    index = structured(tmp_path / "index", "hnsw", 10)
    found = nearest(index, questions(1)[-1:], 10)[0]
    assert index.names(found.keys) == brute_force(vectors, questions(1)[-1:], names)


def test_a_structure_over_segments_that_were_joined_is_given_up(tmp_path, images):
    vectors, names = images
    store_of(tmp_path / "index", vectors, names, most_rows=500)
    assert not structured(tmp_path / "index", "pq", 100).exact
    with locked(tmp_path / "index"):
        writer = Writer(tmp_path / "index")
        assert writer.compact(whole=True)
        writer.commit()
    assert opened(tmp_path / "index").exact
    assert not list((tmp_path / "index" / "structures").iterdir())


def test_a_structure_that_cannot_be_read_is_reported(tmp_path, images):
    vectors, names = images
    store_of(tmp_path / "index", vectors[:50], names[:50])
    structured(tmp_path / "index", "hnsw", 100)
    for file in (tmp_path / "index" / "structures").rglob("shard-0.faiss"):
        file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(FactIndexError, match=r"shard-0\.faiss"):
        opened(tmp_path / "index")


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32), st.tuples(*[st.floats(0, 100)] * 3))
def test_coded_parts_have_the_inner_product_of_query_and_row(dimension, part, seed, weights):
    rng = np.random.default_rng(seed)
    rows = pack(rng.normal(size=(5, 3, dimension)).astype(np.float32))
    question = Question(rng.normal(size=(3, dimension)).astype(np.float32), np.array(weights))
    coding = Coding(dimension, min(part, dimension), float(rng.uniform(0.01, 2)))
    coded = coding.rows(rows)
    assert coded.shape == (5, coding.width)
    found = coded @ coding.queries(question.row[None])[0]
    magnitude = np.abs(rows) @ np.abs(question.row)
    np.testing.assert_array_less(np.abs(found - rows @ question.row), 1e-5 * magnitude + 1e-5)
