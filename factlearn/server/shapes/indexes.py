"""What the service serves: indexes, their vocabulary and columns, and their models after each task."""

from typing import Literal

from pydantic import Field

from factlearn.server.shapes.base import Shape, example

STAGE = {"stage": 4, "moment": "gestures", "index": "demo", "images": 1895, "ready": True}
INDEX = {
    "name": "demo",
    "ready": True,
    "reason": None,
    "images": 1895,
    "facts": 137,
    "dimension": 50,
    "models": 1,
    "run": "mas",
    "stage": 4,
    "stages": [STAGE],
    "writable": True,
}


class Stage(Shape):
    """The index as the model of one stage saw the images; `moment` names what was learned last."""

    model_config = example(**STAGE)

    stage: int
    moment: str | None = None
    index: str
    images: int
    ready: bool


class IndexInfo(Shape):
    """A served index; `reason` says why it cannot be searched, if it cannot."""

    model_config = example(**INDEX)

    name: str
    ready: bool
    reason: str | None = None
    images: int = 0
    facts: int = 0
    dimension: int = 0
    models: int = 0
    run: str | None = None
    stage: int | None = None
    stages: list[Stage] = Field(default_factory=list)
    writable: bool = False


class Service(Shape):
    """The service: its indexes, the first one being the default, and what it asks of clients."""

    model_config = example(
        version="0.1",
        indexes=[INDEX],
        token_to_read=False,
        max_upload_bytes=20_000_000,
        max_upload_pixels=50_000_000,
    )

    version: str
    indexes: list[IndexInfo]
    token_to_read: bool
    max_upload_bytes: int
    max_upload_pixels: int


class Unit(Shape):
    """A unit of the known facts; `images` are labelled with it, `facts` contain it."""

    model_config = example(unit="riding", position="predicate", images=120, facts=6)

    unit: str
    position: Literal["subject", "predicate", "object"]
    images: int
    facts: int


class VocabularyAnswer(Shape):
    """Units in the order of use, most images first."""

    model_config = example(index="demo", units=[{"unit": "riding", "position": "predicate", "images": 120, "facts": 6}])

    index: str
    units: list[Unit]


class KnownFact(Shape):
    """A fact the index knows, and how many images are labelled with it."""

    model_config = example(fact="<person, riding, bike>", images=31)

    fact: str
    images: int


class KnownFacts(Shape):
    """The facts the index knows, sorted."""

    index: str
    facts: list[KnownFact]


class ColumnValue(Shape):
    """A value of a column, and how many images have it."""

    model_config = example(value="test", images=380)

    value: str
    images: int


class Column(Shape):
    """A column that filters may use, with its most frequent values; `distinct` is how many there are in all."""

    model_config = example(
        name="split", metadata=True, distinct=2, numeric=False, values=[{"value": "test", "images": 380}]
    )

    name: str
    metadata: bool
    distinct: int
    numeric: bool = Field(description="Every value spells a number.")
    values: list[ColumnValue]


class ColumnsAnswer(Shape):
    """The columns of an index."""

    index: str
    columns: list[Column]


class StageScore(Shape):
    """A stage, how well the run did after it, and how well this query does.

    `map_all` is over all test images of the run; `tasks` has the MAP of each task learned so far on its own images;
    `average_precision` is that of the query, over labelled images; null where it cannot be told.
    """

    model_config = example(
        stage=2,
        moment="objects",
        index="demo-after-task-2",
        ready=True,
        map_all=0.41,
        tasks={"actions": 0.52, "objects": 0.61},
        average_precision=0.73,
    )

    stage: int
    moment: str | None = None
    index: str
    ready: bool
    map_all: float | None = None
    tasks: dict[str, float | None] = Field(default_factory=dict)
    average_precision: float | None = None


class StagesAnswer(Shape):
    """The stages of an index in order; `over` is the filter and `images` the number of images that were judged."""

    index: str
    run: str | None = None
    query: str | None = None
    over: str | None = None
    images: int = 0
    relevant: int = 0
    stages: list[StageScore]


class Ready(Shape):
    """Whether each index can be searched, and why not."""

    model_config = example(ready=True, indexes={"demo": {"ready": True, "reason": None}})

    ready: bool
    indexes: dict[str, "Readiness"]


class Readiness(Shape):
    """Whether an index can be searched, and why not."""

    ready: bool
    reason: str | None = None


class Verified(Shape):
    """What is not as it was written, one sentence each; none if all is well."""

    model_config = example(index="demo", problems=[])

    index: str
    problems: list[str]


class Alive(Shape):
    """The process answers."""

    model_config = example(status="ok")

    status: Literal["ok"] = "ok"
