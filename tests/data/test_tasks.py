from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlearn.config import parse_as
from factlearn.data.samples import FactDataset, Sample
from factlearn.data.tasks import (
    Task,
    TasksConfig,
    TaskSplit,
    agglomerative,
    choose_facts,
    fact_embeddings,
    imbalance,
    make_tasks,
    random_balanced,
)
from factlearn.errors import ConfigError, DatasetError
from factlearn.facts import Fact
from factlearn.language import LanguageSpace

counts = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=1, max_size=25)


def images(sizes, side):
    return [Fact(f"fact {number}") for number, size in enumerate(sizes) for _ in range(size[side])]


@given(counts, st.data(), st.integers(0, 5))
def test_a_random_split_holds_every_fact_once_and_the_largest_fact_first(sizes, data, seed):
    count = data.draw(st.integers(1, len(sizes)))
    train, test = images(sizes, 0), images(sizes, 1)
    split = random_balanced(train, test, count, seed=seed, trials=5)
    facts = [fact for task in split.tasks for fact in task.facts]
    assert sorted(facts) == sorted(set(train))
    assert max(len(task.facts) for task in split.tasks) - min(len(task.facts) for task in split.tasks) <= 1
    total = Counter(train) + Counter(test)
    assert max(total.values()) in {total[fact] for fact in split.tasks[0].facts}
    assert split == random_balanced(train, test, count, seed=seed, trials=5)


def test_more_trials_never_balance_worse_and_usually_better():
    sizes = [(int(n), int(n) // 2) for n in np.random.default_rng(0).geometric(0.05, 40)]
    train, test = images(sizes, 0), images(sizes, 1)
    scores = [random_balanced(train, test, 4, seed=1, trials=trials).details["imbalance"] for trials in (1, 10, 100)]
    assert scores[0] >= scores[1] >= scores[2]
    assert scores[2] < scores[0] / 2


def test_imbalance_is_zero_only_for_equal_groups():
    assert imbalance(np.array([[2.0, 10, 0], [2, 10, 0]])) == 0
    assert imbalance(np.array([[2.0, 10, 4], [2, 11, 4]])) > 0


def blobs():
    """Three far apart groups of 5, 3 and 2 facts."""
    generator = np.random.default_rng(0)
    embeddings = {}
    for group, size in enumerate((5, 3, 2)):
        for number in range(size):
            embeddings[Fact(f"g{group} {number}")] = (10 * np.eye(3)[group] + generator.normal(size=3)).astype(
                np.float32
            )
    return embeddings


@pytest.mark.parametrize("linkage", ["ward", "complete", "average"])
def test_agglomerative_tasks_are_the_clusters_largest_first(linkage):
    split = agglomerative(blobs(), 3, linkage=linkage)
    groups = [{fact.subject.split()[0] for fact in task.facts} for task in split.tasks]
    assert groups == [{"g0"}, {"g1"}, {"g2"}]
    assert [len(task.facts) for task in split.tasks] == [5, 3, 2]


def test_the_first_typical_fact_is_the_nearest_to_its_tasks_centre():
    embeddings = blobs()
    for task in agglomerative(embeddings, 3).tasks:
        centre = np.mean([embeddings[fact] for fact in task.facts], axis=0)
        distance = {fact: np.linalg.norm(embeddings[fact] - centre) for fact in task.facts}
        assert task.typical[0] == min(distance, key=distance.get)


@pytest.mark.parametrize("count", [0, 11])
def test_an_impossible_number_of_tasks_is_refused(count):
    with pytest.raises(DatasetError, match="cannot be split"):
        agglomerative(blobs(), count)


def test_facts_with_one_embedding_cannot_be_told_apart():
    same = {Fact(f"f{n}"): np.ones(3, np.float32) for n in range(4)}
    with pytest.raises(DatasetError, match="only 1 clusters"):
        agglomerative(same, 2)


def test_a_saved_split_is_read_back(tmp_path):
    split = agglomerative(blobs(), 3).renamed(["a", "b", "c"])
    split.save(tmp_path / "tasks.json")
    assert TaskSplit.load(tmp_path / "tasks.json") == split


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a readable task split"),
        ("[]", "not a readable task split"),
        ('{"tasks": []}', "at least one fact"),
        ('{"tasks": [{"name": "a", "facts": []}]}', "at least one fact"),
        ('{"tasks": [{"name": "a", "facts": ["<dog>"]}, {"name": "b", "facts": ["dog"]}]}', "in 2 tasks"),
        ('{"tasks": [{"name": "a", "facts": ["<dog"]}]}', "unmatched bracket"),
    ],
)
def test_a_bad_split_file_is_refused(tmp_path, text, says):
    (tmp_path / "tasks.json").write_text(text)
    with pytest.raises(DatasetError, match=says):
        TaskSplit.load(tmp_path / "tasks.json")


def test_names_must_fit_the_tasks():
    with pytest.raises(DatasetError, match="2 names"):
        TaskSplit("file", (Task("a", (Fact("dog"),)),)).renamed(["x", "y"])


BIKE, DOG, TREE = Fact("person", "riding", "bike"), Fact("dog", "jumping"), Fact("tree")


@pytest.fixture
def dataset():
    """Three facts with training images, and a kite that is only tested."""
    rows = [(BIKE, "train"), (DOG, "train"), (DOG, "test"), (TREE, "train"), (TREE, "test"), (Fact("kite"), "test")]
    return FactDataset("mine", tuple(Sample(str(n), Path(str(n)), *row) for n, row in enumerate(rows)))


@pytest.fixture
def language(vectors_file):
    return LanguageSpace.open(str(vectors_file), normalise=True)


def test_random_tasks_hold_the_facts_that_can_be_learned(dataset, language):
    split = make_tasks(TasksConfig(count=2, names=("a", "b")), dataset, language, seed=1)
    assert [task.name for task in split.tasks] == ["a", "b"]
    assert sorted(fact for task in split.tasks for fact in task.facts) == sorted((BIKE, DOG, TREE))
    facts = [BIKE, DOG, TREE]
    assert split == random_balanced(facts, [DOG, TREE], 2, seed=1, trials=100).renamed(["a", "b"])


def test_tasks_by_meaning_cluster_the_fact_embeddings(dataset, language):
    split = make_tasks(TasksConfig(method="agglomerative", count=2, linkage="average"), dataset, language, seed=1)
    embeddings = fact_embeddings([BIKE, DOG, TREE], language)
    assert split == agglomerative(embeddings, 2, linkage="average")
    assert embeddings[DOG].shape == (24,)
    assert not embeddings[DOG][16:].any()


def test_tasks_of_a_file_must_have_training_images(dataset, language, tmp_path):
    (tmp_path / "tasks.json").write_text('{"tasks": [{"name": "a", "facts": ["<tree>"]}]}')
    config = parse_as(TasksConfig, {"method": "file", "file": "tasks.json"}, tmp_path / "run.yaml")
    assert make_tasks(config, dataset, language, seed=0).tasks == (Task("a", (TREE,)),)
    (tmp_path / "tasks.json").write_text('{"tasks": [{"name": "a", "facts": ["<kite>"]}]}')
    with pytest.raises(DatasetError, match=r"tasks\.json: <kite> has no training images in mine"):
        make_tasks(config, dataset, language, seed=0)


@pytest.mark.parametrize(
    ("raw", "says"),
    [({"method": "file"}, "name the split"), ({"count": 2, "names": ["a"]}, "1 names for 2"), ({"count": 0}, "count")],
)
def test_a_section_that_makes_no_tasks_is_refused(raw, says):
    with pytest.raises(ConfigError, match=says):
        parse_as(TasksConfig, raw, "here")


def test_patterns_choose_facts_in_order_and_once():
    facts = [BIKE, DOG, TREE]
    assert choose_facts(["<*, jumping>", "<tree>", "<dog, *>"], facts) == [DOG, TREE]
    with pytest.raises(DatasetError, match="No fact of the dataset matches <cat>"):
        choose_facts(["<cat>"], facts)


def test_a_list_of_patterns_may_name_more_than_a_dataset_holds():
    said = []
    assert choose_facts(["<*, jumping>", "<*, flying>"], [DOG, TREE], report=said.append) == [DOG]
    assert said == ["No fact of the dataset matches <*, flying>; the other patterns are used."]
    with pytest.raises(DatasetError, match="<cat>"):
        choose_facts(["<*, jumping>", "<cat>"], [DOG, TREE])
    with pytest.raises(DatasetError, match="<\\*, flying>"):
        choose_facts(["<*, flying>"], [DOG, TREE])


def of_topics(*rows):
    """Training images, each `(fact, topic)`."""
    samples = [Sample(f"{n}.jpg", Path(f"{n}.jpg"), Fact(f), "train", {"topic": t}) for n, (f, t) in enumerate(rows)]
    return FactDataset("mine", tuple(samples))


def by_column(dataset, column="topic", **options):
    config = parse_as(TasksConfig, {"method": "column", "column": column, **options}, "test")
    return make_tasks(config, dataset, None, seed=0)


def test_the_values_of_a_column_are_tasks_in_the_order_they_first_appear():
    dataset = of_topics(("dog", "pets"), ("spoon", "kitchen"), ("cat", "pets"), ("dog", "pets"))
    split = by_column(dataset, " Topic")
    assert split.tasks == (Task("pets", (Fact("cat"), Fact("dog"))), Task("kitchen", (Fact("spoon"),)))
    assert [task.name for task in by_column(dataset, names=["a", "b"]).tasks] == ["a", "b"]


def test_a_column_that_makes_no_tasks_is_refused_saying_why():
    with pytest.raises(DatasetError, match=r"has no column 'cluster' to make tasks from; it has topic"):
        by_column(of_topics(("dog", "pets")), "cluster")
    with pytest.raises(DatasetError, match=r"<dog> is in two tasks, topic 'pets' \(0.jpg\) and 'zoo' \(1.jpg\)"):
        by_column(of_topics(("dog", "pets"), ("dog", "zoo")))
    with pytest.raises(DatasetError, match=r"1.jpg \(<cat>\) has no topic"):
        by_column(of_topics(("dog", "pets"), ("cat", " ")))
    with pytest.raises(ConfigError, match="column: name the column"):
        parse_as(TasksConfig, {"method": "column"}, "test")
