"""The client: an index on another machine, used like a `FactIndex`."""

import fnmatch
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from factlearn.client.connection import ClientError, Connection
from factlearn.client.reading import asked_for, hit_of, item_of, reading_of, shown_of
from factlearn.errors import FactlearnError, ImageError
from factlearn.facts import Fact, FactQuery, Vocabulary
from factlearn.retrieval.hits import Hit, ShownFact
from factlearn.retrieval.sentences import Reading, single
from factlearn.retrieval.trials import Trial

Asked = str | Fact | FactQuery | Reading
Image = str | Path | bytes | NDArray[Any]
_PAGE = 1000
_MOST_QUERIES = 64
_PAUSE = 0.5  # seconds between looks at a job


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
        any_of: Sequence[Asked] = (),
        weights: Sequence[float] | None = None,
        where: str | None = None,
        offset: int = 0,
        threshold: float | None = None,
        margin: float | None = None,
        anywhere: bool = False,
        stage: int | None = None,
    ) -> list[Hit]:
        """The k best images for a query; see `FactIndex.query`. `stage` queries the model after that stage."""
        options = {"k": k, "where": where, "offset": offset, "threshold": threshold, "margin": margin, "stage": stage}
        facts = asked_for(query, also, without, any_of)
        found = self._get("/search", **facts, **options, weights=_weights(weights), anywhere=anywhere or None)
        return [hit_of(each) for each in found["hits"]]

    def query_many(self, queries: Sequence[Asked], k: int = 10, **options: Any) -> list[list[Hit]]:
        """The k best images for each of several queries, in one request if the options allow; see `query`."""
        together = all(isinstance(query, str | Fact | FactQuery) for query in queries)
        if not together or not {"weights", "where", "stage"}.issuperset(options):
            return [self.query(query, k, **options) for query in queries]
        answers = []
        for start in range(0, len(queries), _MOST_QUERIES):
            part = [str(query) for query in queries[start : start + _MOST_QUERIES]]
            body = {"index": self.name, "k": k, "queries": part, **options}
            body["weights"] = None if options.get("weights") is None else list(options["weights"])
            answers += self._connection.json("POST", "/search", json=body)["answers"]
        return [[hit_of(each) for each in answer["hits"]] for answer in answers]

    def similar(
        self,
        image: Image,
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        where: str | None = None,
        offset: int = 0,
        threshold: float | None = None,
        without: Sequence[Asked] = (),
        margin: float | None = None,
    ) -> list[Hit]:
        """The images most like one: an id, a file, its bytes, or a vector [3, D]."""
        options = {"k": k, "where": where, "offset": offset, "threshold": threshold, "margin": margin}
        unwanted = [str(each) for each in without]
        if isinstance(image, np.ndarray):
            body = {"index": self.name, "vector": image.tolist(), **options, "without": unwanted}
            body["weights"] = None if weights is None else list(weights)
            given = {name: value for name, value in body.items() if value is not None}
            found = self._connection.json("POST", "/search/vector", json=given)
        elif isinstance(image, str):
            found = self._get(
                f"/images/{_quoted(image)}/similar", **options, weights=_weights(weights), **{"not": unwanted}
            )
        else:
            found = self._upload("/search/image", image, **options, weights=_weights(weights), **{"not": unwanted})
        return [hit_of(each) for each in found["hits"]]

    def facts_of(self, image: Image, k: int = 10) -> list[ShownFact]:
        """The known facts that an image shows, best first; the image as in `similar`."""
        if isinstance(image, str):
            found = self._get(f"/images/{_quoted(image)}/similar", k=1, facts=k)
        elif isinstance(image, np.ndarray):
            body = {"index": self.name, "vector": image.tolist(), "k": 1, "facts": k}
            found = self._connection.json("POST", "/search/vector", json=body)
        else:
            found = self._upload("/facts", image, k=k)
        return [shown_of(each) for each in found["facts"]]

    def read(self, query: Asked) -> Reading:
        """Parse a query text without searching."""
        return query if isinstance(query, Reading) else reading_of(self._get("/understand", q=str(query)))

    def parse(self, query: Asked) -> FactQuery:
        """The one fact that a query asks for; see `FactIndex.parse`.

        Raises:
            FactError: if the text also says and, or, not.
        """
        return single(self.read(query))

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
    def vocabulary(self) -> Vocabulary:
        """The units that plain-text queries may name."""
        return Vocabulary.of(self.facts)

    @property
    def path(self) -> str:
        """The address of the service and the name of the index."""
        return f"{self._connection.url}#{self.info()['name']}"

    @property
    def ids(self) -> list[str]:
        """The ids of all images."""
        return [item["id"] for item in self.items()]

    @property
    def paths(self) -> list[Path]:
        """The paths of all images when they were indexed; only their names, unless the service is on this machine."""
        return [Path(item["path"]) for item in self.items()]

    def items(self, where: str | None = None) -> list[dict[str, Any]]:
        """Metadata of all images, or of those that match a filter (see `factlearn.retrieval.items`)."""
        return [item_of(raw) for raw in self._pages(where)]

    def _pages(self, where: str | None) -> Iterator[dict[str, Any]]:
        offset: int | None = 0
        while offset is not None:
            page = self._get("/images", where=where, offset=offset, limit=_PAGE)
            yield from page["images"]
            offset = page["next"]

    def info(self) -> dict[str, Any]:
        """Information about the index: images, facts, stages, whether it can be searched.

        Raises:
            FactlearnError: if it serves no such index, or says nothing without a token.
        """
        service = self._connection.json("GET", "")
        found = [each for each in service["indexes"] if self.name in (None, each["name"])]
        if not found and not service["indexes"]:
            raise ClientError(401, f"Reading from {self._connection.url} needs a token; give it as token=.")
        if not found:
            raise FactlearnError(f"The service has no index {self.name!r}.")
        return dict(found[0])

    def stages(
        self,
        query: Asked | None = None,
        *,
        also: Sequence[Asked] = (),
        without: Sequence[Asked] = (),
        any_of: Sequence[Asked] = (),
        where: str | None = None,
    ) -> dict[str, Any]:
        """The run's metrics after each task, and the average precision of a query under each model."""
        facts = {} if query is None else asked_for(query, also, without, any_of)
        return dict(self._get("/stages", **facts, where=where))

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
        facts: Sequence[Fact | Sequence[Fact] | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
    ) -> list[str]:
        """Upload images and add them, replacing those with the same ids; returns their ids once all are committed."""
        said: dict[str, Sequence[Any] | None] = {"ids": ids, "facts": facts, "metadata": metadata}
        for name, given in said.items():
            if given is not None and len(given) != len(images):
                raise FactlearnError(f"{len(given)} {name} do not fit {len(images)} images; give one for each.")
        made = []
        for place, image in enumerate(images):
            shown = (facts[place] if facts else None) or ()
            fields = {
                "id": ids[place] if ids else None,
                "fact": [str(fact) for fact in ((shown,) if isinstance(shown, Fact) else shown)],
                "metadata": json.dumps(dict(metadata[place])) if metadata else None,
            }
            made.append(str(self._upload("/images", image, **fields)["id"]))
        return made

    def remove(self, ids: Collection[str] = (), *, pattern: str | None = None, where: str | None = None) -> int:
        """Remove images by id, by a pattern of ids such as "holiday/*", or by a filter; returns how many there were."""
        chosen = list(ids)
        if pattern is not None or where is not None:
            found = [item["id"] for item in self.items(where)]
            chosen += [image for image in found if pattern is None or fnmatch.fnmatchcase(image, pattern)]
        return sum(self._remove(image) for image in dict.fromkeys(chosen))

    def _remove(self, image: str) -> int:
        try:
            path = f"/images/{_quoted(image)}"
            return int(self._connection.json("DELETE", path, params={"index": self.name})["removed"])
        except ClientError as error:
            if error.status != 404:
                raise
            self.info()  # raises if it is the index that is unknown
            return 0

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
        return self._finished("/importance", body, progress or (lambda job: None))

    def optimize(self, *, say: Callable[[str], None] = lambda text: None, **options: Any) -> list[Trial]:
        """Switch to the fastest search structure that reaches a recall; see `factlearn.retrieval.folder.optimize`."""
        body = {"index": self.name, **options}
        job = self._finished("/optimize", body, lambda job: say(str(job["what"])))
        return [Trial(**trial) for trial in job["result"]["trials"]]

    def verify(self) -> list[str]:
        """Check the index; one sentence per damaged part, none if all is well."""
        found = self._connection.json("POST", "/verify", params={"index": self.name})
        return list(found["problems"])

    def reload(self) -> None:
        """No-op: the service always answers from the newest state."""

    def _finished(self, path: str, body: dict[str, Any], progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """A job once it is over; `progress` is called with it until then."""
        job = self._connection.json("POST", path, json=body)
        while job["finished"] is None:
            progress(job)
            time.sleep(_PAUSE)
            job = self._connection.json("GET", f"/jobs/{job['id']}")
        if job["state"] != "done":
            raise FactlearnError(job["error"] or f"The job was {job['state']}.")
        return dict(job)

    def _get(self, path: str, **parameters: Any) -> Any:
        return self._connection.json("GET", path, params={"index": self.name, **parameters})

    def _upload(self, path: str, image: Path | bytes, **fields: Any) -> Any:
        try:
            name, content = ("image", image) if isinstance(image, bytes) else (image.name, image.read_bytes())
        except OSError as error:
            raise ImageError(f"The image {image!s} cannot be read ({error.strerror}).") from None
        data = {key: value for key, value in {"index": self.name, **fields}.items() if value is not None}
        return self._connection.json("POST", path, files={"image": (name, content)}, data=data)


def _quoted(image: str) -> str:
    return quote(image, safe="")


def _weights(weights: Sequence[float] | None) -> str | None:
    return None if weights is None else ",".join(map(str, weights))
