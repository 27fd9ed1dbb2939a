"""Runs and what they achieved, and jobs with their progress."""

from typing import Any, Literal

from pydantic import Field

from factlearn.server.shapes.base import Shape, example

JOB = {
    "id": "9f2c41d07ab3",
    "kind": "importance",
    "state": "running",
    "what": "importance of 12 images",
    "done": 40,
    "total": 120,
    "created": "2026-01-01T12:00:00Z",
    "finished": None,
    "error": None,
    "result": None,
}


class RunInfo(Shape):
    """A run whose models made a served index; `remembers` says whether its method can measure importance."""

    model_config = example(
        name="mas", method="mas", title="MAS", tasks=["actions", "objects"], stages=2, indexes=["demo"], remembers=True
    )

    name: str
    method: str
    title: str
    tasks: list[str]
    stages: int
    indexes: list[str]
    remembers: bool


class RunsAnswer(Shape):
    """The runs behind the served indexes."""

    runs: list[RunInfo]


class RunMetrics(Shape):
    """What a run achieved after each stage.

    `whole` and `matrix` are by rule of relevance (`exact`, `prefix`): MAP over everything after each stage, and MAP of
    every task (columns) after each stage (rows), null before a task was learned.
    """

    model_config = example(
        run="mas",
        measure="MAP",
        tasks=["actions", "objects"],
        moments=["actions", "objects"],
        whole={"exact": [0.31, 0.52], "prefix": [0.35, 0.55]},
        matrix={"exact": [[0.6, None], [0.55, 0.7]], "prefix": [[0.61, None], [0.57, 0.7]]},
        forgetting={"exact": {"average": 0.05}, "prefix": {"average": 0.04}},
    )

    run: str
    measure: str
    tasks: list[str]
    moments: list[str]
    whole: dict[str, list[float | None]]
    matrix: dict[str, list[list[float | None]]]
    forgetting: dict[str, Any]


class ImportanceRequest(Shape):
    """What must not be forgotten: facts (patterns with * allowed) or images by id, of one index."""

    model_config = example(index="demo", facts=["<person, riding, *>"], images=[])

    index: str | None = None
    facts: list[str] = Field(default_factory=list, max_length=200)
    images: list[str] = Field(default_factory=list, max_length=1000)


class Firmness(Shape):
    """How firmly a fact is held: the mean importance of the parameters it uses, in units of the mean before."""

    model_config = example(fact="<person, riding, bike>", before=1.4, after=2.2)

    fact: str
    before: float
    after: float


class Remembered(Shape):
    """The outcome of an importance job: the new run, and how firmly each fact is held now, most gained first."""

    run: str
    facts: list[Firmness]


class OptimizeRequest(Shape):
    """How to choose the search of an index: the share of the exact best to find, and a limit of memory in bytes."""

    model_config = example(index="demo", target_recall=0.95)

    index: str | None = None
    target_recall: float = Field(0.95, gt=0, le=1)
    memory: int | None = Field(None, ge=0)
    kinds: list[str] | None = Field(None, min_length=1, max_length=8)
    k: int = Field(10, ge=1, le=1000)
    per_pattern: int = Field(24, ge=2, le=200)
    seed: int = Field(0, ge=0, le=2**31)


class Trial(Shape):
    """A way to search, measured; `note` says "chosen", or why it was not measured."""

    kind: str
    settings: dict[str, Any]
    recall_full: float
    recall_wild: float
    milliseconds: float
    memory: int
    note: str


class Optimized(Shape):
    """The outcome of an optimize job: every way to search that was tried."""

    trials: list[Trial]


class Job(Shape):
    """Work in the background; `done` of `total` steps of `what`."""

    model_config = example(**JOB)

    id: str
    kind: Literal["importance", "optimize"]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    what: str
    done: int
    total: int
    created: str
    finished: str | None = None
    error: str | None = None
    result: Remembered | Optimized | None = None


class JobsAnswer(Shape):
    """All jobs since the service started, newest first."""

    jobs: list[Job]
