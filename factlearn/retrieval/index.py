"""The fact index: images found by triplet text, with wildcards, weights, filters and negations."""

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact, FactQuery
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import About, ModelEntry, Version, with_version
from factlearn.retrieval.anywhere import anywhere as placed_anywhere
from factlearn.retrieval.anywhere import by_evidence, comparable
from factlearn.retrieval.composing import Composition
from factlearn.retrieval.contents import Contents
from factlearn.retrieval.hits import Hit, ShownFact, best_of, make_hits
from factlearn.retrieval.items import Images
from factlearn.retrieval.negation import MARGIN, showing_any
from factlearn.retrieval.options import check_margin, check_page, filter_of, weights_of
from factlearn.retrieval.rows import unpack
from factlearn.retrieval.search import Nearest, Question, nearest, nearest_to_all
from factlearn.retrieval.sentences import Reading, read, single
from factlearn.retrieval.stores import store_at
from factlearn.retrieval.where import Filter

if TYPE_CHECKING:
    from factlearn.retrieval.trials import Trial

Asked = str | Fact | FactQuery | Reading


class FactIndex(Contents):
    """An index of image vectors, searched by fact; `create` makes one, `open` opens one.

    An opened index folder is a snapshot: its answers stay the same, whatever others write, until `reload`.

    Example:
        >>> index = FactIndex.open("indexes/demo")  # doctest: +SKIP
        >>> [hit.path for hit in index.query("<person, *, bike>", k=5)]  # doctest: +SKIP
        >>> index.query("<*, riding>", without=["<*, *, horse>"], where="split = 'test'")  # doctest: +SKIP
    """

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
        facts: Sequence[Fact | Sequence[Fact] | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
        files: Sequence[Mapping[str, str]] = (),
        overwrite: bool = False,
    ) -> Self:
        """Write an index of image vectors and open it.

        Args:
            path: the folder to make, or the address of another store (see `factlearn.retrieval.stores`).
            vectors: float32 [N, 3, D].
            ids: N distinct ids; images of equal score are ordered by id.
            paths: of the image files.
            language: the space the vectors were trained to land in; saved inside the index.
            model: the model that made the vectors, or its fingerprint.
            known_facts: the facts the model knows; plain-text queries may use the words of their units.
            facts: the fact each image is known to show, or several, None where unknown.
            metadata: of each image.
            files: size, mtime and SHA-256 of each image file, to detect changes.
            overwrite: replace an existing index.

        Raises:
            FactIndexError: if there is nothing to index, the arguments do not fit together, a vector is not
                finite, or the place is taken.
        """
        images = Images(vectors, ids, paths, facts, metadata, files)
        images.check(language.dimension)
        known = sorted(set(known_facts))
        language.embed(known)  # so that their units are saved with it
        version = _version(model)
        about = About(language.dimension, language.fingerprint, tuple(known), with_version({}, version))
        parts = [(images, version.fingerprint)]
        store = store_at(path).create(path, about, language, parts, overwrite=overwrite)
        return cls(store, language)

    @classmethod
    def open(cls, path: Path | str, language: LanguageSpace | None = None, *, verify: bool = False) -> Self:
        """Open an index.

        File sizes and small files are checked at once, vectors before they are first used.

        Args:
            path: the index's folder, or the address of another store.
            language: the space that turns query text into vectors; the one saved with the index if not given.
            verify: check everything now.

        Raises:
            FactIndexError: if there is no index, a file is damaged, or the language space is not the index's.
        """
        store = store_at(path).open(path)
        if verify and (problems := store.problems()):
            raise problems[0]
        index = cls(store, language)
        index.check_language(language)
        return index

    def check_language(self, language: LanguageSpace | None) -> None:
        """Refuse a language space other than the index's.

        Raises:
            FactIndexError: if the fingerprints differ.
        """
        expected = self.store.about.language
        if language is not None and language.fingerprint != expected:
            raise FactIndexError(
                f"{self.path} was built in the language space {expected}, not {language.fingerprint}; "
                "distances between them mean nothing: open it without a space, or build it again in this one."
            )

    def check_version(self, version: Version) -> None:
        """Refuse a model that does not descend from the same first task as those of the index.

        Raises:
            FactIndexError: naming both lineages.
        """
        self.store.about.check_version(self.path, version)

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
        margin: float = MARGIN,
        anywhere: bool = False,
    ) -> list[Hit]:
        """The k best images for a query; all of them if there are fewer.

        Args:
            query: the fact to show, as `<person, riding, bike>`, in plain words (see `read`) or already parsed.
            k: the number of images.
            also: more facts that the same image must show; its worst score counts.
            without: facts that the image must not show.
            any_of: facts that may be shown instead of `query`; an image counts for the one it shows best, by the score
                per unit that is compared.
            weights: of subject, predicate and object; 1 each if not given.
            where: a filter, such as "split = 'test'" (see `factlearn.retrieval.where`).
            offset: skip the first N hits.
            threshold: the lowest score to include.
            margin: how firmly `without` excludes, from 0 to 1 (see `factlearn.retrieval.negation`).
            anywhere: match units of `query` in any position, so that `<bicycle>` also finds `<person, riding, bike>`;
                scores are then evidence, above 0 where it speaks for the fact (see `factlearn.retrieval.anywhere`).

        Raises:
            FactIndexError: if k, offset, weights, margin or the filter make no sense.
            FactError: if a text is not a query.
            LanguageError: if a unit has no vector.
        """
        asked = self.read(query)
        asked = replace(
            asked,
            also=(*asked.also, *map(self.parse, also)),
            without=(*asked.without, *map(self.parse, without)),
            any_of=(*asked.any_of, *map(self.parse, any_of)),
        )
        if anywhere:
            asked = placed_anywhere(asked, self.vocabulary)
        alternatives = [[one, *asked.also] for one in (asked.query, *asked.any_of)]
        questions = [self._questions(one, weights) for one in alternatives]
        if len(alternatives) == 1 and not anywhere:
            composed = None if asked.also else self.confidence.composition(asked.query, weights_of(weights))
            if composed is not None:
                return self._page(composed, k, where, offset, threshold, asked.without, margin)
            return self._page(questions[0], k, where, offset, threshold, asked.without, margin, alternatives[0])
        check_page(k, offset)
        if anywhere:
            questions = [comparable(each, self.fitting) for each in questions]
        pages = [
            self._page(each, k + offset, where, 0, None if anywhere else threshold, asked.without, margin, one)
            for each, one in zip(questions, alternatives, strict=True)
        ]
        if not anywhere:
            return best_of(pages, weights_of(weights))[offset : offset + k]
        hits = by_evidence(pages, self.fitting, weights_of(weights))
        return [hit for hit in hits if threshold is None or hit.score >= threshold][offset : offset + k]

    def query_many(self, queries: Sequence[Asked], k: int = 10, **options: Any) -> list[list[Hit]]:
        """The k best images for each of several queries, in one scan if the options allow; see `query`."""
        if (
            any(options.get(name) for name in ("also", "without", "any_of", "offset", "anywhere"))
            or options.get("threshold") is not None
        ):
            return [self.query(query, k, **options) for query in queries]
        asked = [self.read(query) for query in queries]
        check_page(k, 0)
        weights = weights_of(options.get("weights"))
        together = [
            place
            for place, each in enumerate(asked)
            if each.is_single and self.confidence.composition(each.query, weights) is None
        ]
        found = {place: self.query(asked[place], k, **options) for place in {*range(len(asked))} - {*together}}
        if questions := self._questions([asked[place].query for place in together], options.get("weights")):
            answers = nearest(self.store, questions, min(k, len(self)), filter_of(options.get("where")))
            for place, answer in zip(together, answers, strict=True):
                found[place] = self._hits(answer, [asked[place].query])
        return [found[place] for place in range(len(asked))]

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
        margin: float = MARGIN,
    ) -> list[Hit]:
        """The images whose vectors are closest to that of an image [3, D]; options as in `query`."""
        question = Question(self._checked(vector), weights_of(weights))
        return self._page([question], k, where, offset, threshold, [self.parse(each) for each in without], margin)

    def facts_of(self, vector: NDArray, k: int = 10) -> list[ShownFact]:
        """The known facts that an image's vector [3, D] shows, best first; ties in the order of facts.

        Facts of one, two and three units compare fairly: see `factlearn.retrieval.fitting`.
        """
        check_page(k, 0)
        targets, mask = self.language.embed(self.facts)
        scores = self.fitting.scores(self._checked(vector), targets, mask)
        order = np.argsort(-scores, kind="stable")[:k]
        shown = [self.facts[place] for place in order]
        chances = self.confidence.of_facts(self._checked(vector), shown)
        return [ShownFact(fact, float(scores[p]), c) for fact, p, c in zip(shown, order, chances, strict=True)]

    def read(self, query: Asked) -> Reading:
        """Parse a query; plain words are matched to the units the index knows."""
        if isinstance(query, Reading):
            return query
        if isinstance(query, str):
            return read(query, self.vocabulary, self.language)
        query = FactQuery.of(query) if isinstance(query, Fact) else query
        return Reading(str(query), query)

    def parse(self, query: Asked) -> FactQuery:
        """Parse a query for a single fact; see `read`.

        Raises:
            FactError: if the text also says and, or, not.
        """
        return single(self.read(query))

    def _questions(self, asked: Sequence[FactQuery], weights: Sequence[float] | None) -> list[Question]:
        targets, mask = self.language.embed(asked)
        each = weights_of(weights)
        for query, named in zip(asked, mask, strict=True):
            if not (named * each).any():
                raise FactIndexError(
                    f"The weights leave nothing of {query} to compare; give a unit that it names a weight above 0."
                )
        return [Question(target, named * each) for target, named in zip(targets, mask, strict=True)]

    def _checked(self, vector: NDArray) -> NDArray[np.float32]:
        vector = np.asarray(vector, np.float32)
        if vector.shape != (3, self.dimension) or not np.isfinite(vector).all():
            raise FactIndexError(f"An image's vector must be 3 x {self.dimension} finite numbers, not {vector.shape}.")
        return vector

    def _page(
        self,
        questions: Sequence[Question] | Composition,
        k: int,
        where: str | None,
        offset: int,
        threshold: float | None,
        unwanted: Sequence[FactQuery],
        margin: float,
        asked: Sequence[FactQuery] = (),
    ) -> list[Hit]:
        """The hits from `offset` on; the ranking is extended until enough images show nothing unwanted."""
        check_page(k, offset)
        check_margin(margin)
        passing = filter_of(where)
        wanted = offset + k
        count = min(wanted, len(self))
        while True:
            best = self._best(questions, max(count, 1), passing)
            kept = np.ones(len(best), bool)
            if unwanted and len(best):
                vectors = unpack(self.store.take(best.keys))
                kept = ~showing_any(vectors, unwanted, self.facts, self.language, margin)
            if kept.sum() >= wanted or len(best) < count or count >= len(self):
                break
            count = min(2 * count, len(self))
        if threshold is not None:
            kept &= best.scores >= threshold
        places = np.flatnonzero(kept)[offset:wanted]
        return self._hits(Nearest(best.keys[places], best.scores[places], best.by_unit[places]), asked)

    def _best(self, questions: Sequence[Question] | Composition, count: int, where: Filter | None) -> Nearest:
        if isinstance(questions, Composition):
            return questions.nearest(self.store, count, where)
        if len(questions) == 1:
            return nearest(self.store, questions, count, where)[0]
        return nearest_to_all(self.store, questions, count, where)

    def _hits(self, answer: Nearest, asked: Sequence[FactQuery] = ()) -> list[Hit]:
        """The hits of an answer; with the probability that they show what was asked for, if facts were."""
        items = self.store.items(answer.keys)
        if not asked or not items or all(entry.calibration is None for entry in self.models.values()):
            return make_hits(answer, items)
        vectors = unpack(self.store.take(answer.keys))
        return make_hits(
            answer, items, self.confidence.probabilities(vectors, [item["model"] for item in items], asked)
        )

    # Changes

    def add(
        self,
        vectors: NDArray,
        ids: Sequence[str],
        *,
        paths: Sequence[Path | str],
        model: str | Version,
        known_facts: Iterable[Fact] = (),
        facts: Sequence[Fact | Sequence[Fact] | None] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
        files: Sequence[Mapping[str, str]] = (),
        language: LanguageSpace | None = None,
    ) -> None:
        """Add images, replacing those with the same ids, in one step; arguments as in `create`.

        Raises:
            FactIndexError: if the arguments do not fit together, the model or the language space is foreign, or
                another process is writing.
        """
        images = Images(vectors, ids, paths, facts, metadata, files)
        images.check(self.dimension)
        self.check_language(language)
        version = _version(model, self.models)
        self.check_version(version)
        known = sorted({*self.facts, *known_facts})
        space = language or self.language
        space.embed(known)
        self.store.add(images, version, known, space)
        self.reload()

    def remove(self, ids: Collection[str] = (), *, pattern: str | None = None, where: str | None = None) -> int:
        """Remove images by id, by a pattern of ids such as "holiday/*", or by a filter; returns how many there were."""
        chosen = set(ids)
        if pattern is not None or where is not None:
            found = self.items(where)
            chosen |= {item["id"] for item in found if pattern is None or fnmatch.fnmatchcase(item["id"], pattern)}
        count = self.store.remove(chosen) if chosen else 0
        self.reload()
        return count

    def optimize(self, **options: Any) -> "list[Trial]":
        """Switch to the fastest search structure that reaches a recall; see `factlearn.retrieval.folder.optimize`."""
        trials = self.store.optimize(self.language, **options)
        self.reload()
        return trials

    def verify(self) -> list[str]:
        """Check the index; one sentence per damaged part, none if all is well."""
        return [str(problem) for problem in self.store.problems()]


def _version(model: str | Version, known: Mapping[str, ModelEntry] | None = None) -> Version:
    """A bare fingerprint belongs to the lineage of the index it is added to; a new index starts its own."""
    if isinstance(model, Version):
        return model
    lineage = next(iter(known.values())).lineage if known else model
    return Version(model, lineage)
