"""Queries, how they were understood, and what they found."""

from pydantic import Field

from factlearn.retrieval.negation import MARGIN
from factlearn.server.shapes.base import Shape, example

UNITS = {"subject": "person", "predicate": "riding", "object": None}
UNDERSTOOD = {
    "text": "a person riding something but not a horse",
    "query": {"fact": "<person, riding>", **UNITS},
    "also": [],
    "without": [{"fact": "<*, *, horse>", "subject": None, "predicate": None, "object": "horse"}],
    "any_of": [],
    "notes": [],
    "alternatives": [],
}
HIT = {
    "id": "apple/1f6b4.png",
    "name": "1f6b4.png",
    "path": None,
    "score": -0.31,
    "scores": {"subject": -0.1, "predicate": -0.21},
    "probability": 0.93,
    "fact": "<person, riding, bike>",
    "labels": ["<person, riding, bike>"],
    "right": True,
    "metadata": {"split": "test", "vendor": "apple"},
    "model": "3f2a9c0d1e4b5a67",
    "thumb": "/api/v1/images/apple%2F1f6b4.png/thumb?index=demo",
}
SHOWN = {"fact": "<person, riding, bike>", "score": -0.4, "probability": 0.87}


class Asked(Shape):
    """One fact that was asked for; an open unit is null."""

    model_config = example(fact="<person, riding>", **UNITS)

    fact: str
    subject: str | None
    predicate: str | None
    object: str | None


class Understood(Shape):
    """How a text was read: one fact to show, and, or, not; with remarks and other readings."""

    model_config = example(**UNDERSTOOD)

    text: str
    query: Asked
    also: list[Asked] = Field(default_factory=list)
    without: list[Asked] = Field(default_factory=list)
    any_of: list[Asked] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    alternatives: list[Asked] = Field(default_factory=list)


class FoundImage(Shape):
    """An image that answers a query.

    `score` is minus the weighted sum of squared distances over the units asked for, higher is better; `scores` has
    minus the squared distance of each. `probability` is calibrated, null if the index has no calibration. `labels` are
    all facts that the image is known to show, `fact` is the first of them; `right` says whether they confirm the
    answer, null if there are none or they do not tell.
    """

    model_config = example(**HIT)

    id: str
    name: str
    path: str | None = Field(None, description="Where the file was when it was indexed; only told on loopback.")
    score: float
    scores: dict[str, float]
    probability: float | None = None
    fact: str | None = None
    labels: list[str] = Field(default_factory=list)
    right: bool | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    model: str = ""
    thumb: str


class SearchAnswer(Shape):
    """The images that answer a query, best first.

    `cut` is the number of images, counted from the best, after which the model sees other facts; null if the index
    cannot tell. `next` is the offset of the following page; null if this was the last.
    """

    model_config = example(
        index="demo",
        stage=4,
        understood=UNDERSTOOD,
        hits=[HIT],
        k=24,
        offset=0,
        next=24,
        images=1895,
        cut=17,
        seconds=0.004,
    )

    index: str
    stage: int | None = None
    understood: Understood
    hits: list[FoundImage]
    k: int
    offset: int
    next: int | None
    images: int = Field(description="How many images the index holds.")
    cut: int | None = None
    seconds: float


class ManyQueries(Shape):
    """Several queries, each answered by itself."""

    model_config = example(index="demo", queries=["<person, riding, *>", "a dog"], k=10)

    index: str | None = None
    queries: list[str] = Field(min_length=1, max_length=64)
    k: int = Field(10, ge=1, le=1000)
    where: str | None = Field(None, max_length=2000)
    weights: list[float] | None = Field(None, min_length=3, max_length=3)
    stage: int | None = Field(None, ge=1, le=10_000)


class ManyAnswers(Shape):
    """One answer per query, in the same order."""

    answers: list[SearchAnswer]


class ShownFact(Shape):
    """A fact that an image shows; `score` is the evidence, fair to facts of one, two and three units."""

    model_config = example(**SHOWN)

    fact: str
    score: float
    probability: float | None = None


class FactsAnswer(Shape):
    """The facts that an image shows, best first."""

    model_config = example(index="demo", facts=[SHOWN])

    index: str
    facts: list[ShownFact]


class VectorQuery(Shape):
    """An image's vector [3, D] as a query."""

    index: str | None = None
    vector: list[list[float]] = Field(min_length=3, max_length=3)
    k: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=1_000_000)
    where: str | None = Field(None, max_length=2000)
    weights: list[float] | None = Field(None, min_length=3, max_length=3)
    without: list[str] = Field(default_factory=list, max_length=16)
    margin: float = Field(MARGIN, ge=0, le=1)
    threshold: float | None = None
    facts: int = Field(5, ge=1, le=100, description="How many of the facts it shows to tell.")


class SimilarAnswer(Shape):
    """The images most like an image, and the facts it shows."""

    model_config = example(index="demo", facts=[SHOWN], hits=[HIT], k=24, offset=0, next=24, seconds=0.05)

    index: str
    facts: list[ShownFact]
    hits: list[FoundImage]
    k: int
    offset: int
    next: int | None
    seconds: float
