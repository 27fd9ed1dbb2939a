"""The fact index: images found by triplet text, with wildcards, weights, filters and negations."""

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.evaluation.scoring import unit_scores
from factlearn.facts import Fact, FactQuery, Vocabulary
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder.backend import FolderBackend
from factlearn.retrieval.folder.manifest import ModelEntry
from factlearn.retrieval.hits import Hit, ShownFact, make_hits
from factlearn.retrieval.negation import rivals_of, shows
from factlearn.retrieval.options import check_page, filter_of, weights_of
from factlearn.retrieval.search import Nearest, Question, nearest, nearest_to_all, unpack
from factlearn.retrieval.store import Backend, Images, Version

if TYPE_CHECKING:
    from factlearn.retrieval.folder.optimize import Trial

Asked = str | Fact | FactQuery


class FactIndex:
    """Image vectors that can be asked for facts; opened with `open`, made with `create`.

    An opened index is a snapshot: it answers the same whatever others write meanwhile, until `reload`.

    Example:
        >>> index = FactIndex.open("indexes/demo")  # doctest: +SKIP
        >>> [hit.path for hit in index.query("<person, *, bike>", k=5)]  # doctest: +SKIP
        >>> index.query("<*, riding>", without=["<*, *, horse>"], where="split = 'test'")  # doctest: +SKIP
    """

    def __init__(self, backend: Backend, language: LanguageSpace | None) -> None:
        self.backend = backend
        self._given = self._language = language

    @classmethod
    def create(
        cls,
        path: Path | str,
        vectors: NDArray,
        ids: Sequence[str],
        *,
        paths: Sequence[Path | str],
        language: LanguageSpace,
        model: str | Version,
        known_facts: Iterable[Fact] = (),
        facts: Sequence[Fact | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
        files: Sequence[Mapping[str, str]] = (),
        overwrite: bool = False,
    ) -> Self:
        """Write an index of image vectors and open it.

        Args:
            path: the folder to make, or `milvus:...` (see `factlearn.retrieval.milvus.backend`).
            vectors: float32 [N, 3, D].
            ids: N distinct ids, which order images of equal score.
            paths: where each image is.
            language: the space the vectors were trained to land in; saved inside the index.
            model: the model that made the vectors, or its fingerprint.
            known_facts: the facts the model knows; their units are those that plain-text queries may name.
            facts: the fact each image is known to show, None where unknown.
            metadata: more about each image.
            files: size, time and SHA-256 of each image's file, by which a changed image is known later.
            overwrite: replace an index already there.

        Raises:
            FactIndexError: if there is nothing to index, the arguments do not fit together, a vector is not
                finite, or the place is taken.
        """
        images = Images(vectors, ids, paths, facts, metadata, files)
        images.check(language.dimension)
        known = sorted(set(known_facts))
        language.embed(known)  # so that the units of known facts are saved with the space
        backend = _backend_of(path).create(path, images, _version(model), known, language, overwrite=overwrite)
        return cls(backend, language)

    @classmethod
    def open(cls, path: Path | str, language: LanguageSpace | None = None, *, verify: bool = False) -> Self:
        """Open an index; without a language space it uses the one it was built with.

        Sizes of all files and the content of small ones are checked at once, vectors before they are first used.

        Args:
            path: the index's folder, or `milvus:...`.
            language: the space that turns query text into vectors; must be the one the index was built with.
            verify: check the content of every file now.

        Raises:
            FactIndexError: if there is no index, a file is damaged, or the language space is another one.
        """
        backend = _backend_of(path).open(path)
        if verify and (problems := backend.problems()):
            raise problems[0]
        index = cls(backend, language)
        index.check_language(language)
        return index

    def check_language(self, language: LanguageSpace | None) -> None:
        """Refuse a language space other than the index's.

        Raises:
            FactIndexError: if the fingerprints differ.
        """
        expected = self.backend.about.language
        if language is not None and language.fingerprint != expected:
            raise FactIndexError(
                f"{self.path} was built in the language space {expected}, not {language.fingerprint}; "
                "distances between them mean nothing: open it without a space, or build it again in this one."
            )

    # What it holds

    @property
    def path(self) -> Path | str:
        """The folder or address of the index."""
        return self.backend.place

    def __len__(self) -> int:
        return len(self.backend)

    @property
    def dimension(self) -> int:
        """The length of a unit's vector."""
        return self.backend.about.dimension

    @property
    def models(self) -> Mapping[str, ModelEntry]:
        """The versions of the model that made vectors, by fingerprint, oldest first."""
        return self.backend.about.models

    @property
    def model(self) -> str:
        """The fingerprint of the newest version."""
        return list(self.models)[-1]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts known, sorted."""
        return self.backend.about.facts

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The image vectors [N, 3, D], in the order of `ids`."""
        return unpack(self.backend.take(self.backend.keys()))

    @property
    def ids(self) -> list[str]:
        """The ids of all images."""
        return [item["id"] for item in self.items()]

    @property
    def paths(self) -> list[Path]:
        """Where the images were when they were indexed, in the order of `ids`."""
        return [Path(item["path"]) for item in self.items()]

    def items(self, where: str | None = None) -> Sequence[Mapping[str, Any]]:
        """What is stored of all images, or of those that pass a filter, beside their vectors."""
        return self.backend.items(self.backend.keys(filter_of(where)))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The units plain-text queries may name."""
        return Vocabulary.of(self.facts)

    @property
    def language(self) -> LanguageSpace:
        """The language space of the index; loaded from it when first needed."""
        if self._language is None:
            self._language = self.backend.load_language()
        return self._language

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
    ) -> list[Hit]:
        """The k images that answer a query best; all of them if there are fewer.

        Args:
            query: the fact to show.
            k: how many images.
            also: more facts that the same image must show; its worst score counts.
            without: facts it must not show: an image is left out if, on the units such a fact names, that fact is
                nearer than any other the index knows.
            weights: of subject, predicate and object; 1 each if not given.
            where: a filter on what is known of the images, such as "split = 'test'".
            offset: how many of the best to leave out, for pages.
            threshold: leave out images of lower score.

        Raises:
            FactIndexError: if k, offset, weights or the filter make no sense.
            FactError: if the text is no query.
            LanguageError: if a unit has no vector.
        """
        asked = [self.parse(each) for each in (query, *also)]
        questions = self._questions(asked, weights)
        kept = filter_of(where)
        one = questions[0] if len(questions) == 1 else None

        def best(count: int) -> Nearest:
            if one:
                return nearest(self.backend, [one], count, kept)[0]
            return nearest_to_all(self.backend, questions, count, kept)

        return self._page(best, k, offset, threshold, [self.parse(each) for each in without])

    def query_many(self, queries: Sequence[Asked], k: int = 10, **options: Any) -> list[list[Hit]]:
        """The k best images for each of several queries, in one sweep where no option needs more; see `query`."""
        if any(options.get(name) for name in ("also", "without", "offset")) or options.get("threshold") is not None:
            return [self.query(query, k, **options) for query in queries]
        check_page(k, 0)
        questions = self._questions([self.parse(query) for query in queries], options.get("weights"))
        if not questions:
            return []
        answers = nearest(self.backend, questions, min(k, len(self)), filter_of(options.get("where")))
        return [self._hits(answer) for answer in answers]

    def similar(
        self,
        vector: NDArray,
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        where: str | None = None,
        offset: int = 0,
        threshold: float | None = None,
        without: Sequence[Asked] = (),
    ) -> list[Hit]:
        """The images whose vectors are nearest to an image's [3, D]; options as of `query`."""
        question = Question(self._checked(vector), weights_of(weights))
        kept = filter_of(where)
        return self._page(
            lambda count: nearest(self.backend, [question], count, kept)[0],
            k,
            offset,
            threshold,
            [self.parse(each) for each in without],
        )

    def facts_of(self, vector: NDArray, k: int = 10) -> list[ShownFact]:
        """The facts that an image's vector [3, D] shows, best first; equal ones in the order of facts."""
        check_page(k, 0)
        targets, mask = self.language.embed(self.facts)
        scores = (unit_scores(targets, self._checked(vector)) * mask).sum(axis=1) / mask.sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:k]
        return [ShownFact(self.facts[place], float(scores[place])) for place in order]

    def parse(self, query: Asked) -> FactQuery:
        """Read a query; plain words are read as units the index knows."""
        if isinstance(query, str):
            return FactQuery.parse(query, self.vocabulary)
        return FactQuery.of(query) if isinstance(query, Fact) else query

    def _questions(self, asked: Sequence[FactQuery], weights: Sequence[float] | None) -> list[Question]:
        targets, mask = self.language.embed(asked)
        each = weights_of(weights)
        for query, named in zip(asked, mask, strict=True):
            if not (named * each).any():
                raise FactIndexError(
                    f"The weights leave nothing of {query} to compare; give a unit it names more than 0."
                )
        return [Question(target, named * each) for target, named in zip(targets, mask, strict=True)]

    def _checked(self, vector: NDArray) -> NDArray[np.float32]:
        vector = np.asarray(vector, np.float32)
        if vector.shape != (3, self.dimension) or not np.isfinite(vector).all():
            raise FactIndexError(f"An image's vector must be 3 x {self.dimension} finite numbers, not {vector.shape}.")
        return vector

    def _page(
        self,
        best: Any,
        k: int,
        offset: int,
        threshold: float | None,
        without: Sequence[FactQuery],
    ) -> list[Hit]:
        """The hits from `offset` on, of a ranking that `best` gives the beginning of."""
        check_page(k, offset)
        wanted = offset + k
        count = min(wanted, len(self))
        while True:
            answer: Nearest = best(max(count, 1))
            kept = self._showing_none_of(answer, without)
            if kept.sum() >= wanted or len(answer) < count or count >= len(self):
                break
            count = min(2 * count, len(self))
        if threshold is not None:
            kept &= answer.scores >= threshold
        places = np.flatnonzero(kept)[offset:wanted]
        return self._hits(Nearest(answer.keys[places], answer.scores[places], answer.by_unit[places]))

    def _showing_none_of(self, answer: Nearest, without: Sequence[FactQuery]) -> NDArray[np.bool_]:
        kept = np.ones(len(answer), bool)
        if not without or not len(answer):
            return kept
        vectors = unpack(self.backend.take(answer.keys))
        known = self.language.embed(self.facts)
        for query in without:
            (target,), (mask,) = self.language.embed([query])
            rivals = rivals_of(target, mask, *known)
            if not len(rivals):
                raise FactIndexError(f"{self.path} knows no fact to tell {query} from; leave it out of the query.")
            kept &= ~shows(vectors, target, mask, rivals)
        return kept

    def _hits(self, answer: Nearest) -> list[Hit]:
        return make_hits(answer, self.backend.items(answer.keys))

    # Changes

    def add(
        self,
        vectors: NDArray,
        ids: Sequence[str],
        *,
        paths: Sequence[Path | str],
        model: str | Version,
        known_facts: Iterable[Fact] = (),
        facts: Sequence[Fact | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
        files: Sequence[Mapping[str, str]] = (),
        language: LanguageSpace | None = None,
    ) -> None:
        """Add images, in place of those with the same ids, in one step; arguments as of `create`.

        Raises:
            FactIndexError: if the arguments do not fit, the model or the language space is foreign, or another
                process writes.
        """
        images = Images(vectors, ids, paths, facts, metadata, files)
        images.check(self.dimension)
        self.check_language(language)
        version = _version(model, self.models)
        self.backend.about.check_version(self.path, version)
        known = sorted({*self.facts, *known_facts})
        space = language or self.language
        space.embed(known)
        self.backend.add(images, version, known, space)
        self.reload()

    def remove(self, ids: Collection[str] = (), *, pattern: str | None = None, where: str | None = None) -> int:
        """Remove images by id, by a pattern of ids such as "holiday/*", or by a filter; how many there were."""
        chosen = set(ids)
        if pattern is not None or where is not None:
            found = self.items(where)
            chosen |= {item["id"] for item in found if pattern is None or fnmatch.fnmatchcase(item["id"], pattern)}
        count = self.backend.remove(chosen) if chosen else 0
        self.reload()
        return count

    def reload(self) -> None:
        """See the newest state."""
        self.backend = self.backend.reload()
        self._language = self._given
        self.__dict__.pop("vocabulary", None)

    def optimize(self, **options: Any) -> "list[Trial]":
        """Choose the fastest way to search that reaches a recall; see `factlearn.retrieval.folder.optimize`."""
        from factlearn.retrieval.folder.optimize import optimize

        if not isinstance(self.backend, FolderBackend):
            raise FactIndexError(f"{self.path} is searched by its server; only index folders can be optimized here.")
        trials = optimize(self.backend.path, self.language, **options)
        self.reload()
        return trials

    def verify(self) -> list[str]:
        """A sentence for every file that is not as it was written; none if all is well."""
        return [str(problem) for problem in self.backend.problems()]


def _backend_of(path: Path | str) -> Any:
    if str(path).startswith("milvus:"):
        from factlearn.retrieval.milvus.backend import MilvusBackend

        return MilvusBackend
    return FolderBackend


def _version(model: str | Version, known: Mapping[str, ModelEntry] | None = None) -> Version:
    """A bare fingerprint is a model of its own, or of the line of the index it is added to."""
    if isinstance(model, Version):
        return model
    lineage = next(iter(known.values())).lineage if known else model
    return Version(model, lineage)
