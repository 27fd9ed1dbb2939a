"""Splitting facts into tasks: random and balanced, by meaning (agglomerative clustering), or by a manifest's column."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from factlearn.config import Located, Section
from factlearn.data.samples import FactDataset
from factlearn.errors import DatasetError, FactError
from factlearn.facts import Fact, FactQuery, Relevance
from factlearn.files import write_json
from factlearn.language import LanguageSpace

Linkage = Literal["ward", "complete", "average"]


class TasksConfig(Section):
    """How the facts are split into tasks."""

    method: Literal["random", "agglomerative", "column", "file"] = "random"
    """How to split: at random but balanced, by clusters of meaning, by a manifest column, or as saved in a file."""
    count: int = Field(4, ge=1)
    """Number of tasks (method: random, agglomerative)."""
    trials: int = Field(100, ge=1)
    """Number of random splits to draw; the most balanced one is kept."""
    linkage: Linkage = "ward"
    """Linkage criterion of the clustering (method: agglomerative)."""
    column: str | None = None
    """A manifest column: one task per value, in the order in which the values first appear (method: column)."""
    file: Located | None = None
    """A split saved by `factlearn split` (method: file)."""
    names: tuple[str, ...] | None = None
    """Names of the tasks, in order."""

    @model_validator(mode="after")
    def _complete(self) -> "TasksConfig":
        if self.method == "file" and self.file is None:
            raise ValueError("file: name the split that `factlearn split` saved")
        if self.method == "column" and not self.column:
            raise ValueError("column: name the column of the manifest whose values are the tasks")
        if self.names is not None and self.method in ("random", "agglomerative") and len(self.names) != self.count:
            raise ValueError(f"names: {len(self.names)} names for {self.count} tasks")
        return self


@dataclass(frozen=True)
class Task:
    """A group of facts learned together.

    Attributes:
        typical: for a task found by clustering, the facts nearest to its centre, nearest first.
    """

    name: str
    facts: tuple[Fact, ...]
    typical: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class TaskSplit:
    """Tasks in the order they are learned, and how they were made."""

    method: str
    tasks: tuple[Task, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        tasks = [
            {
                "name": task.name,
                "facts": [str(f) for f in task.facts],
                "typical": [str(f) for f in task.typical],
            }
            for task in self.tasks
        ]
        return {"method": self.method, "details": dict(self.details), "tasks": tasks}

    def save(self, path: Path) -> None:
        """Write the split as JSON."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path, *, disjoint: bool = True) -> "TaskSplit":
        """Read a split that `save` wrote, or a hand-written one with at least `tasks: [{name, facts}]`.

        Args:
            disjoint: refuse a fact in two tasks; a task added to a run may bring new photos of a known fact.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            tasks = tuple(
                Task(
                    entry["name"],
                    tuple(Fact.parse(text) for text in entry["facts"]),
                    tuple(Fact.parse(text) for text in entry.get("typical", ())),
                )
                for entry in raw["tasks"]
            )
        except FileNotFoundError:
            raise DatasetError(f"The split {path} does not exist; make it with `factlearn split`.") from None
        except (OSError, ValueError, KeyError, TypeError, FactError) as error:
            raise DatasetError(
                f"{path} is not a readable task split ({error}); make it with `factlearn split`."
            ) from error
        split = cls(raw.get("method", "file"), tasks, raw.get("details", {}))
        split._check(path, disjoint)
        return split

    def _check(self, path: Path, disjoint: bool) -> None:
        counts = Counter(fact for task in self.tasks for fact in task.facts)
        repeated = [str(fact) for fact, count in counts.items() if count > 1]
        if repeated and disjoint:
            raise DatasetError(f"{path}: {repeated[0]} is in {counts[Fact.parse(repeated[0])]} tasks; keep it in one.")
        if not self.tasks or not all(task.facts for task in self.tasks):
            raise DatasetError(f"{path}: every task needs at least one fact.")

    def renamed(self, names: Sequence[str]) -> "TaskSplit":
        """The same tasks under other names."""
        if len(names) != len(self.tasks):
            raise DatasetError(f"{len(names)} names were given for {len(self.tasks)} tasks.")
        tasks = (Task(name, task.facts, task.typical) for name, task in zip(names, self.tasks, strict=True))
        return TaskSplit(self.method, tuple(tasks), self.details)


def make_tasks(config: TasksConfig, dataset: FactDataset, language: LanguageSpace, seed: int) -> TaskSplit:
    """The tasks that a section asks for: those of the facts with training images."""
    train, test = ([fact for sample in dataset.of_split(s) for fact in sample.facts] for s in ("train", "test"))
    learned = set(train)
    if config.method == "file":
        assert config.file is not None
        split = TaskSplit.load(config.file)
        for fact in (fact for task in split.tasks for fact in task.facts):
            if fact not in learned:
                raise DatasetError(f"{config.file}: {fact} has no training images in {dataset.name}; remove it.")
    elif config.method == "column":
        assert config.column is not None
        split = by_column(dataset, config.column)
    elif config.method == "random":
        tested = (fact for fact in test if fact in learned)
        split = random_balanced(train, tested, config.count, seed=seed, trials=config.trials)
    else:
        split = agglomerative(fact_embeddings(sorted(learned), language), config.count, linkage=config.linkage)
    return split.renamed(config.names) if config.names else split


def by_column(dataset: FactDataset, column: str) -> TaskSplit:
    """One task for each value of a column, in the order in which training images first have it.

    Raises:
        DatasetError: if there is no such column, a training image has no value, or a fact has two.
    """
    name = column.strip().lower()
    train = [(sample, fact, labels) for sample in dataset.of_split("train") for fact, labels in sample.labels.items()]
    columns = sorted({key for _, _, labels in train for key in labels})
    if name not in columns:
        listed = f"it has {', '.join(columns)}" if columns else "it has none besides those of facts"
        raise DatasetError(f"{dataset.name} has no column {column!r} to make tasks from; {listed}.")
    first: dict[Fact, tuple[str, str]] = {}
    tasks: dict[str, list[Fact]] = {}
    for sample, fact, labels in train:
        value = labels.get(name, "").strip()
        if not value:
            raise DatasetError(
                f"{dataset.name}: {sample.id} ({fact}) has no {name}, so it belongs to no task; give it one."
            )
        before, where = first.setdefault(fact, (value, sample.id))
        if before != value:
            raise DatasetError(
                f"{dataset.name}: {fact} is in two tasks, {name} {before!r} ({where}) and {value!r} ({sample.id}); "
                "a fact belongs to one task: give all its rows the same value."
            )
        if fact not in tasks.setdefault(value, []):
            tasks[value].append(fact)
    made = tuple(Task(value, tuple(sorted(facts))) for value, facts in tasks.items())
    return TaskSplit("column", made, {"column": name})


def fact_embeddings(facts: Sequence[Fact], language: LanguageSpace) -> dict[Fact, NDArray[np.float32]]:
    """Each fact's unit vectors side by side, zeros for a missing unit: what facts are clustered by."""
    vectors, _ = language.embed(facts)
    return dict(zip(facts, vectors.reshape(len(facts), -1), strict=True))


def choose_facts(
    patterns: Sequence[str], facts: Sequence[Fact], *, report: Callable[[str], None] | None = None
) -> list[Fact]:
    """The facts that a list of facts and patterns such as `<person, *, tennis>` names.

    A list may serve several datasets, so a pattern with a wildcard may match nothing, which goes to `report`.

    Raises:
        DatasetError: if a fact without a wildcard is not there, or nothing matches at all.
    """
    chosen: dict[Fact, None] = {}
    unmatched = []
    for query in map(FactQuery.parse, patterns):
        matches = [fact for fact in facts if query.matches(fact, Relevance.EXACT)]
        chosen.update(dict.fromkeys(matches))
        if not matches:
            unmatched.append(str(query))
            if None not in query.units:
                break
    else:
        if chosen and unmatched and report:
            report(f"No fact of the dataset matches {', '.join(unmatched)}; the other patterns are used.")
        if chosen:
            return list(chosen)
    raise DatasetError(f"No fact of the dataset matches {unmatched[-1]}; `factlearn split` lists all facts.")


def _check_count(facts: Sequence[Fact], count: int) -> None:
    if not 1 <= count <= len(facts):
        raise DatasetError(f"{len(facts)} facts cannot be split into {count} tasks; ask for 1 to {len(facts)}.")


def imbalance(sizes: NDArray[np.float64]) -> float:
    """How unbalanced groups are: the coefficient of variation between rows, summed over columns.

    Rows are groups; columns count facts, training images and test images. Zero is perfect balance.
    """
    means = sizes.mean(axis=0)
    present = means > 0
    return float((sizes.std(axis=0)[present] / means[present]).sum())


def random_balanced(
    train: Iterable[Fact], test: Iterable[Fact], count: int, *, seed: int, trials: int = 100
) -> TaskSplit:
    """The best balanced of `trials` random splits (the paper's appendix, fact learning setup).

    Args:
        train: the fact of every training image.
        test: the fact of every test image.
        count: number of tasks.
        trials: number of random splits to draw; the one with the least `imbalance` is kept.

    The fact with the most images is always in the first task, as `<person>` is in the paper.
    """
    train_images, test_images = Counter(train), Counter(test)
    images = train_images + test_images
    facts = sorted(images)
    _check_count(facts, count)
    sizes = np.array([(1, train_images[fact], test_images[fact]) for fact in facts], np.float64)
    largest = max(range(len(facts)), key=lambda row: (images[facts[row]], facts[row]))
    generator = np.random.default_rng(seed)
    best: tuple[float, NDArray[np.int64]] | None = None
    for _ in range(trials):
        group = np.empty(len(facts), np.int64)
        group[generator.permutation(len(facts))] = np.arange(len(facts)) % count
        group = (group - group[largest]) % count
        totals = np.stack([sizes[group == task].sum(axis=0) for task in range(count)])
        score = imbalance(totals)
        if best is None or score < best[0]:
            best = (score, group)
    assert best is not None
    tasks = tuple(
        Task(f"task {task + 1}", tuple(fact for fact, g in zip(facts, best[1], strict=True) if g == task))
        for task in range(count)
    )
    return TaskSplit("random", tasks, {"seed": seed, "trials": trials, "imbalance": best[0]})


def agglomerative(
    embeddings: Mapping[Fact, NDArray[np.float32]], count: int, *, linkage: Linkage = "ward", typical: int = 5
) -> TaskSplit:
    """Clusters of facts by the Euclidean distance of their embeddings, largest cluster first.

    Args:
        embeddings: one vector per fact, see `fact_embeddings`.
        count: number of clusters.
        linkage: the distance between two clusters.
        typical: number of facts, those nearest to its centre, that describe each cluster.
    """
    from scipy.cluster.hierarchy import fcluster

    facts = sorted(embeddings)
    _check_count(facts, count)
    vectors = np.stack([embeddings[fact] for fact in facts]).astype(np.float64)
    if len(facts) == 1:
        labels = np.array([1])
    else:
        labels = fcluster(linkage_matrix(vectors, linkage), count, criterion="maxclust")
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    groups.sort(key=lambda rows: (-len(rows), rows[0]))
    tasks = []
    for number, rows in enumerate(groups, 1):
        distances = np.linalg.norm(vectors[rows] - vectors[rows].mean(axis=0), axis=1)
        nearest = tuple(facts[rows[i]] for i in np.argsort(distances, kind="stable")[:typical])
        tasks.append(Task(f"task {number}", tuple(facts[row] for row in rows), nearest))
    if len(tasks) != count:
        raise DatasetError(f"The facts' embeddings form only {len(tasks)} clusters, not {count}; ask for fewer tasks.")
    return TaskSplit("agglomerative", tuple(tasks), {"linkage": linkage})


def linkage_matrix(vectors: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    """The tree of clusters of the vectors, in scipy's form."""
    from scipy.cluster.hierarchy import linkage

    return linkage(vectors, method=method, metric="euclidean")  # type: ignore[no-any-return]
