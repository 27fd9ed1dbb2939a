"""The client: an index on another machine, used like a `FactIndex`."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from factlearn.client.connection import Connection
from factlearn.client.reading import hit_of, reading_of, shown_of
from factlearn.errors import FactlearnError
from factlearn.facts import Fact, FactQuery
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.sentences import Reading

Asked = str | Fact | FactQuery
Image = str | Path | bytes | NDArray[Any]
_PAGE = 1000
_MOST_QUERIES = 64


class Client:
    """An index behind a service.

    Where `FactIndex` takes an image's vector, an image of the index (by its id), a file (`Path`) or the bytes of one
    may be given as well; the service embeds it.

    Args:
        url: of the service, such as http://127.0.0.1:8765.
        index: the name of one of its indexes; the first if not given.
        token: allows changes.
        timeout: seconds to wait for an answer.
        retries: how often to ask again when the service is busy.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        index: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        self.name = index
        self._connection = Connection(url, token, timeout, retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    # Queries

    def query(
        self,
        query: Asked,
        k: int = 10,
        *,
        also: Sequence[Asked] = (),
        without: Sequence[Asked] = (),
        weights: Sequence[float] | None = None,
        where: str | None = None,
        offset: int = 0,
        threshold: float | None = None,
        margin: float | None = None,
        stage: int | None = None,
    ) -> list[Hit]:
        """The k images that answer a query best; see `FactIndex.query`. `stage` asks the model after that stage."""
        options = {"q": str(query), "k": k, "where": where, "offset": offset, "threshold": threshold, "stage": stage}
        facts = {"and": list(map(str, also)), "not": list(map(str, without)), "margin": margin}
        found = self._get("/search", **options, **facts, weights=_weights(weights))
        return [hit_of(each) for each in found["hits"]]

    def query_many(
        self,
        queries: Sequence[Asked],
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        where: str | None = None,
        stage: int | None = None,
    ) -> list[list[Hit]]:
        """The k best images for each of several queries."""
        options: dict[str, Any] = {"index": self.name, "k": k, "where": where, "stage": stage}
        options["weights"] = None if weights is None else list(weights)
        answers = []
        for start in range(0, len(queries), _MOST_QUERIES):
            part = [str(query) for query in queries[start : start + _MOST_QUERIES]]
            answers += self._connection.json("POST", "/search", json={**options, "queries": part})["answers"]
        return [[hit_of(each) for each in answer["hits"]] for answer in answers]

    def similar(
        self,
        image: Image,
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        where: str | None = None,
        offset: int = 0,
    ) -> list[Hit]:
        """The images most like one: an id, a file, its bytes, or a vector [3, D]."""
        options = {"k": k, "where": where, "offset": offset}
        if isinstance(image, str):
            found = self._get(f"/images/{_quoted(image)}/similar", **options, weights=_weights(weights))
        elif isinstance(image, np.ndarray):
            body = {"index": self.name, "vector": image.tolist(), **options}
            body["weights"] = None if weights is None else list(weights)
            found = self._connection.json("POST", "/search/vector", json=body)
        else:
            found = self._upload("/search/image", image, **options, weights=_weights(weights))
        return [hit_of(each) for each in found["hits"]]

    def facts_of(self, image: Image, k: int = 10) -> list[ShownFact]:
        """The known facts that an image speaks for, best first; the image as in `similar`."""
        if isinstance(image, str):
            found = self._get(f"/images/{_quoted(image)}/similar", k=1, facts=k)
        elif isinstance(image, np.ndarray):
            body = {"index": self.name, "vector": image.tolist(), "k": 1, "facts": k}
            found = self._connection.json("POST", "/search/vector", json=body)
        else:
            found = self._upload("/facts", image, k=k)
        return [shown_of(each) for each in found["facts"]]

    def read(self, query: Asked) -> Reading:
        """How a text is understood."""
        return reading_of(self._get("/understand", q=str(query)))

    # What it holds

    def __len__(self) -> int:
        return int(self.info()["images"])

    @property
    def dimension(self) -> int:
        """The length of a unit's vector."""
        return int(self.info()["dimension"])

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The known facts, sorted."""
        return tuple(Fact.parse(each["fact"]) for each in self._get("/facts")["facts"])

    @property
    def ids(self) -> list[str]:
        """The ids of all images."""
        return [item["id"] for item in self.items()]

    def items(self, where: str | None = None) -> list[dict[str, Any]]:
        """What is known about all images, or about those that pass a filter."""
        return list(self._pages(where))

    def _pages(self, where: str | None) -> Iterator[dict[str, Any]]:
        offset: int | None = 0
        while offset is not None:
            page = self._get("/images", where=where, offset=offset, limit=_PAGE)
            yield from page["images"]
            offset = page["next"]

    def info(self) -> dict[str, Any]:
        """What the service says about the index: images, facts, stages, whether it can be searched.

        Raises:
            FactlearnError: if it serves no such index.
        """
        served = self._connection.json("GET", "")["indexes"]
        found = [each for each in served if self.name in (None, each["name"])]
        if not found:
            raise FactlearnError(f"The service has no index {self.name!r}.")
        return dict(found[0])

    def stages(self, query: Asked | None = None) -> dict[str, Any]:
        """What the run achieved after each task, and the average precision of a query by each model."""
        return dict(self._get("/stages", q=None if query is None else str(query)))

    def thumbnail(self, image: str, size: int = 256) -> bytes:
        """A small version of an image of the index, as JPEG."""
        parameters = {"index": self.name, "size": size}
        return self._connection.send("GET", f"/images/{_quoted(image)}/thumb", params=parameters).content

    # Changes

    def add(
        self,
        images: Sequence[Path | bytes],
        ids: Sequence[str] | None = None,
        *,
        facts: Sequence[Fact | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
    ) -> list[str]:
        """Send images and add them, replacing those with the same ids; returns their ids when all are committed."""
        made = []
        for place, image in enumerate(images):
            fact = facts[place] if facts else None
            fields = {
                "id": ids[place] if ids else None,
                "fact": None if fact is None else str(fact),
                "metadata": json.dumps(dict(metadata[place])) if metadata else None,
            }
            made.append(str(self._upload("/images", image, **fields)["id"]))
        return made

    def remove(self, ids: Collection[str] = (), *, where: str | None = None) -> int:
        """Remove images by id or by a filter; returns how many there were."""
        chosen = [*ids, *(item["id"] for item in self.items(where))] if where is not None else list(ids)
        parameters = {"index": self.name}
        return sum(
            int(self._connection.json("DELETE", f"/images/{_quoted(image)}", params=parameters)["removed"])
            for image in dict.fromkeys(chosen)
        )

    def remember(
        self,
        facts: Sequence[Asked] = (),
        images: Sequence[str] = (),
        *,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Adapt the run behind the index to what must not be forgotten; returns the finished job.

        Args:
            facts: with wildcards where all will do.
            images: ids; either these or facts.
            progress: called with the job whenever it changes.

        Raises:
            FactlearnError: if the job fails.
        """
        body = {"index": self.name, "facts": [str(fact) for fact in facts], "images": list(images)}
        job = self._connection.json("POST", "/importance", json=body)
        while job["finished"] is None:
            if progress is not None:
                progress(job)
            job = self._wait(job)
        if job["state"] != "done":
            raise FactlearnError(job["error"] or f"The job was {job['state']}.")
        return dict(job)

    def _wait(self, job: Mapping[str, Any]) -> Any:
        import time

        time.sleep(0.5)
        return self._connection.json("GET", f"/jobs/{job['id']}")

    def _get(self, path: str, **parameters: Any) -> Any:
        return self._connection.json("GET", path, params={"index": self.name, **parameters})

    def _upload(self, path: str, image: Path | bytes, **fields: Any) -> Any:
        name, content = ("image", image) if isinstance(image, bytes) else (image.name, image.read_bytes())
        data = {key: value for key, value in {"index": self.name, **fields}.items() if value is not None}
        return self._connection.json("POST", path, files={"image": (name, content)}, data=data)


def _quoted(image: str) -> str:
    return quote(image, safe="")


def _weights(weights: Sequence[float] | None) -> str | None:
    return None if weights is None else ",".join(map(str, weights))
