"""Single images: what is known about them, adding, removing and downloading them."""

from typing import Literal

from pydantic import Field

from factlearn.server.shapes.base import Shape, example
from factlearn.server.shapes.search import SHOWN, ShownFact

IMAGE = {
    "id": "apple/1f6b4.png",
    "name": "1f6b4.png",
    "path": None,
    "fact": "<person, riding, bike>",
    "labels": ["<person, riding, bike>"],
    "metadata": {"split": "test", "vendor": "apple"},
    "model": "3f2a9c0d1e4b5a67",
    "bytes": 5312,
    "thumb": "/api/v1/images/apple%2F1f6b4.png/thumb?index=demo",
}


class ImageInfo(Shape):
    """What an index knows about an image; `labels` are all facts it is known to show, `fact` is the first."""

    model_config = example(**IMAGE)

    id: str
    name: str
    path: str | None = None
    fact: str | None = None
    labels: list[str] = Field(default_factory=list)
    metadata: dict[str, str] = Field(default_factory=dict)
    model: str = ""
    bytes: int | None = None
    thumb: str


class ImageDetail(ImageInfo):
    """What an index knows about an image, and the facts its vector speaks for."""

    model_config = example(**IMAGE, index="demo", facts=[SHOWN])

    index: str
    facts: list[ShownFact]


class ImagesAnswer(Shape):
    """A page of the images that pass a filter, in the order of the index."""

    model_config = example(index="demo", images=[IMAGE], offset=0, next=None, total=1)

    index: str
    images: list[ImageInfo]
    offset: int
    next: int | None
    total: int


class Added(Shape):
    """An image that was added and committed."""

    model_config = example(index="demo", id="uploads/6b1f0c2d.png", replaced=False, images=1896, facts=[SHOWN])

    index: str
    id: str
    replaced: bool = Field(description="An image with the same id was replaced.")
    images: int = Field(description="How many images the index holds now.")
    facts: list[ShownFact]


class Removed(Shape):
    """An image that was removed."""

    model_config = example(index="demo", id="uploads/6b1f0c2d.png", removed=1, images=1895)

    index: str
    id: str
    removed: int
    images: int


class Download(Shape):
    """Images to download as a list or as files; in the order given."""

    model_config = example(index="demo", ids=["apple/1f6b4.png"], format="csv")

    index: str | None = None
    ids: list[str] = Field(min_length=1, max_length=1000)
    format: Literal["csv", "json", "zip"] = "csv"
