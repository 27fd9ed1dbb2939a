import itertools
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from factlearn.retrieval.about import ModelEntry
from factlearn.retrieval.folder import writer as writing
from factlearn.retrieval.folder.files import open_segments, start_index
from factlearn.retrieval.folder.manifest import Manifest, read_manifest
from factlearn.retrieval.folder.segments import items_table
from factlearn.retrieval.folder.store import FolderStore
from factlearn.retrieval.items import Images
from factlearn.retrieval.rows import pack
from factlearn.retrieval.search import Question, nearest, nearest_to_all
from factlearn.retrieval.where import parse_filter

MASKS = [mask for mask in itertools.product([0.0, 1.0], repeat=3) if any(mask)]
WEIGHTS = [0.0, 1.0, 2.0, 0.1, 1 / 3, 1e-7, 1e-46, 1e6]


class NoLanguage:
    """Stands where an index keeps its language space, which searching never looks at."""

    fingerprint = "none"

    def save(self, target):
        target.mkdir(parents=True)
        (target / "nothing").write_text("")


def store_of(path, vectors, names, *, most_rows=10**6, kept=None, groups=None):
    """An index folder over the vectors, in segments of at most `most_rows`, those not `kept` removed."""
    count, dimension = len(vectors), vectors.shape[-1]
    manifest = Manifest(
        generation=0, dimension=dimension, language="none", facts=(), models={"m": ModelEntry(lineage="m")}
    )
    metadata = [{} if group is None else {"group": str(group)} for group in groups or [None] * count]
    items = items_table(Images(vectors, names, names, metadata=metadata).columns)
    path.mkdir(exist_ok=True)
    with patch.object(writing, "MOST_ROWS", most_rows), patch("factlearn.files._sync"):  # a disk's fsyncs take seconds
        start_index(path, manifest, NoLanguage())
        writer = writing.Writer(path)
        writer.append(pack(vectors), items, "m")
        writer.commit()
        if kept is not None:
            writer = writing.Writer(path)
            removed = {name for name, keep in zip(names, kept, strict=True) if not keep}
            writer.delete(lambda segment: np.isin(segment.items.column("id").to_pylist(), list(removed)))
            writer.commit()
    return opened(path)


def opened(path):
    """The store of an index folder without a language space."""
    manifest = read_manifest(path)
    return FolderStore(path, manifest, open_segments(path, manifest))


def scores_of(vectors, question):
    difference = vectors.astype(np.float64) - question.target.astype(np.float64)
    return (-(difference**2).sum(axis=-1) * question.weights).sum(axis=-1)


def brute_force(vectors, questions, names, allowed=None):
    """The names of all images, best first, by the definition: of several questions the worst score counts."""
    scores = np.min([scores_of(vectors, question) for question in questions], axis=0)
    places = range(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    return [names[place] for place in sorted(places, key=lambda place: (-scores[place], names[place]))]


def plain(target, mask=(1.0, 1.0, 1.0)):
    return Question(np.asarray(target, np.float32), np.array(mask))


@st.composite
def collections(draw):
    """Image vectors and a target, often far from zero (so that float32 cancels) and often repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, dimension = draw(st.integers(1, 200)), draw(st.integers(1, 6))
    scale = draw(st.sampled_from([1e-30, 1e-3, 1.0, 1e3, 1e17]))
    offset = min(draw(st.sampled_from([0.0, 1.0, 1e3, 1e5])) * scale, 1e17)
    distinct = rng.normal(size=(draw(st.integers(1, count)), 3, dimension))
    if draw(st.booleans()):
        distinct = distinct.round()
    vectors = (distinct[rng.integers(0, len(distinct), count)] * scale + offset).astype(np.float32)
    target = (rng.normal(size=(3, dimension)) * scale + offset).astype(np.float32)
    if draw(st.booleans()):
        target = vectors[rng.integers(0, count)].copy()
    names = [f"{number}" for number in rng.permutation(count)]
    return vectors, target, names


@st.composite
def weightings(draw):
    weights = draw(st.tuples(*[st.sampled_from(WEIGHTS)] * 3).filter(any))
    return np.array(weights)


@settings(max_examples=60, deadline=None)
@given(collections(), weightings(), st.integers(1, 220), st.data())
def test_every_mask_and_weighting_gives_exactly_the_ranking_of_brute_force(collection, weights, k, data):
    vectors, target, names = collection
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kept = rng.random(len(vectors)) < data.draw(st.sampled_from([0.3, 0.9, 1.0]))
    kept[rng.integers(len(kept))] = True
    groups = [None if group == 3 else int(group) for group in rng.integers(0, 4, len(vectors))]
    groups[0] = 1  # a filter may name only columns that exist
    questions = [Question(target, np.array(mask)) for mask in MASKS] + [Question(target, weights)]
    most_rows = data.draw(st.sampled_from([20, 60, 1000]))
    with tempfile.TemporaryDirectory() as parent:
        store = store_of(Path(parent) / "index", vectors, names, most_rows=most_rows, kept=kept, groups=groups)
        assert len(store) == kept.sum()
        in_group = np.array([group in (0, 1) for group in groups])
        for where, allowed in ((None, kept), (parse_filter("group < 2"), kept & in_group)):
            answers = nearest(store, questions, k, where)
            for question, answer in zip(questions, answers, strict=True):
                assert store.names(answer.keys) == brute_force(vectors, [question], names, allowed)[:k]
                np.testing.assert_array_equal(
                    np.isnan(answer.by_unit), np.tile(question.weights == 0, (len(answer), 1))
                )
            both = [questions[-1], plain(vectors[0], MASKS[rng.integers(len(MASKS))])]
            answer = nearest_to_all(store, both, k, where)
            assert store.names(answer.keys) == brute_force(vectors, both, names, allowed)[:k]


def test_images_that_float32_cannot_tell_apart_are_still_ranked_exactly(tmp_path):
    rng = np.random.default_rng(0)
    vectors = (1000 + rng.normal(size=(5_000, 3, 20)) * 1e-2).astype(np.float32)
    target = np.full((3, 20), 1000, np.float32)
    names = [f"{number:05d}" for number in range(len(vectors))]
    swept = pack(vectors) @ np.concatenate([2 * target.ravel(), -np.ones(3, np.float32)])
    expected = brute_force(vectors, [plain(target)], names)
    assert [names[place] for place in np.argsort(-swept, kind="stable")[:10]] != expected[:10]
    store = store_of(tmp_path / "index", vectors, names, most_rows=2_000)
    assert store.names(nearest(store, [plain(target)], 10)[0].keys) == expected[:10]


def test_more_equal_images_than_asked_for_are_ordered_by_name(tmp_path):
    vectors = np.ones((3_000, 3, 4), np.float32)
    names = [f"{number:04d}" for number in np.random.default_rng(0).permutation(3_000)]
    store = store_of(tmp_path / "index", vectors, names, most_rows=700)
    found = nearest(store, [plain(np.zeros((3, 4)))], 5)[0]
    assert store.names(found.keys) == ["0000", "0001", "0002", "0003", "0004"]


def test_one_image_of_enormous_norm_does_not_spoil_the_others(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(500, 3, 4)).astype(np.float32)
    vectors[3] = 1e18
    names = [f"{number:03d}" for number in range(500)]
    question = plain(rng.normal(size=(3, 4)))
    store = store_of(tmp_path / "index", vectors, names)
    assert store.names(nearest(store, [question], 20)[0].keys) == brute_force(vectors, [question], names)[:20]


def test_weights_too_small_for_float32_still_rank_exactly(tmp_path):
    smallest = 2.0**-149
    question = plain(np.zeros((3, 1)), (0.4 * smallest, 0.6 * smallest, 0.0))  # float32 makes them 0 and 1 of these
    vectors = np.zeros((100, 3, 1), np.float32)
    vectors[:99, 0] = 1.4e17
    vectors[99, 1] = 1e17
    names = [f"{number:02d}" for number in range(100)]
    store = store_of(tmp_path / "index", vectors, names)
    assert store.names(nearest(store, [question], 1)[0].keys) == ["99"]


def test_many_queries_at_once_give_the_answers_of_each_alone(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 3, 5)).astype(np.float32)
    names = [f"{number:03d}" for number in range(400)]
    weights = rng.random((60, 3)) * (rng.random((60, 3)) < 0.7)
    weights[:, 0] += ~weights.any(axis=1)
    questions = [plain(rng.normal(size=(3, 5)), each) for each in weights]
    store = store_of(tmp_path / "index", vectors, names, most_rows=150)
    for question, together in zip(questions, nearest(store, questions, 7), strict=True):
        alone = nearest(store, [question], 7)[0]
        assert together.keys.tolist() == alone.keys.tolist()
        np.testing.assert_array_equal(together.by_unit, alone.by_unit)


def test_a_filter_that_passes_nothing_finds_nothing(tmp_path):
    vectors = np.zeros((10, 3, 2), np.float32)
    store = store_of(tmp_path / "index", vectors, [str(number) for number in range(10)], groups=[0] * 10)
    question = plain(np.zeros((3, 2)))
    assert len(nearest(store, [question], 5, parse_filter("group = 1"))[0]) == 0
    assert len(nearest_to_all(store, [question, question], 5, parse_filter("group is null"))) == 0
