"""The store of index folders: a snapshot of a folder's segments, one after the other, without removed images."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.files import atomic_directory
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import About, Version
from factlearn.retrieval.folder import files
from factlearn.retrieval.folder.lock import locked
from factlearn.retrieval.folder.manifest import Manifest
from factlearn.retrieval.folder.segments import BUILT_IN, Segment, items_table
from factlearn.retrieval.folder.structures import Structure, open_structure
from factlearn.retrieval.folder.sweep import best_of, candidates, chunks, merged
from factlearn.retrieval.folder.writer import Writer
from factlearn.retrieval.items import FACTS, METADATA, Images
from factlearn.retrieval.rows import Keys, Swept, pack, width_of
from factlearn.retrieval.stores import Item, Part, Store, store
from factlearn.retrieval.where import Filter, check_columns, matching

if TYPE_CHECKING:
    from factlearn.retrieval.trials import Trial

_FEW = 20_000  # up to this many rows, scoring all of them beats searching a structure


@store("folder", summary="A folder on this machine: snapshots, exact or optimized search.")
class FolderStore(Store):
    """A state of an index folder; a key is a position among the rows of all segments."""

    def __init__(self, path: Path, manifest: Manifest, segments: Sequence[Segment]) -> None:
        self.path = path
        self.manifest = manifest
        self.segments = segments
        self._starts = np.cumsum([0, *map(len, segments)])
        self._alive = self._not_deleted()
        self._passing = lru_cache(maxsize=8)(self._allowed)
        self._structure: Structure | None = None
        self._covered = 0
        if manifest.structure is not None:
            names = [segment.entry.name for segment in segments]
            covered = len(manifest.structure.segments)
            if tuple(names[:covered]) == manifest.structure.segments:
                self._structure = open_structure(path, manifest.structure)
                self._covered = covered

    def _not_deleted(self) -> NDArray[np.bool_] | None:
        if all(segment.deleted is None for segment in self.segments):
            return None
        parts = [np.ones(len(s), bool) if s.deleted is None else ~s.deleted for s in self.segments]
        return np.concatenate(parts)

    # Opening and making

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the present state of a folder."""
        path = Path(path)
        return files.read_state(path, lambda manifest: cls._opened(path, manifest))

    def reload(self) -> Self:
        """The newest state; segments that are already open are reused."""
        return files.read_state(self.path, lambda manifest: self._opened(self.path, manifest, self.segments))

    @classmethod
    def _opened(cls, path: Path, manifest: Manifest, before: Sequence[Segment] = ()) -> Self:
        state = cls(path, manifest, files.open_segments(path, manifest, before))
        state.load_language()  # now: a later writer may delete it
        return state

    @classmethod
    def create(
        cls, path: Path | str, about: About, language: LanguageSpace, parts: Iterable[Part], *, overwrite: bool
    ) -> Self:
        """Make an index folder, which appears in one step."""
        path = Path(path)
        files.check_place(path, overwrite=overwrite)
        manifest = Manifest(
            generation=0,
            dimension=about.dimension,
            language=about.language,
            facts=tuple(map(str, about.facts)),
            models=dict(about.models),
        )
        with locked(path) if path.exists() else nullcontext(), atomic_directory(path) as made:
            files.start_index(made, manifest, language)
            writer = Writer(made)
            for images, model in parts:
                writer.append(pack(images.vectors), items_table(images.columns), model)
            writer.compact()
            writer.commit()
        return cls.open(path)

    @classmethod
    def check_place(cls, path: Path | str, *, overwrite: bool) -> None:
        """Refuse a place that is taken."""
        files.check_place(Path(path), overwrite=overwrite)

    # What it holds

    @property
    def place(self) -> Path:
        """The folder."""
        return self.path

    @cached_property
    def about(self) -> About:
        """What the index says about itself."""
        return _about(self.manifest)

    def load_language(self) -> LanguageSpace:
        """The language space saved with the index, as it was when the index was opened."""
        return self._language

    @cached_property
    def _language(self) -> LanguageSpace:
        return files.saved_language(self.path, self.manifest)

    def describe(self) -> dict[str, Any]:
        """The number of commits and segments, sizes, filter columns, and how the index is searched."""
        structure = self.manifest.structure
        return {
            "generation": self.manifest.generation,
            "segments": len(self.manifest.segments),
            "removed": sum(segment.removed for segment in self.manifest.segments),
            "bytes": sum(file.bytes for file in self.manifest.all_files().values()),
            "columns": self.columns,
            "search": {"kind": "flat"} if structure is None else {**structure.settings, **structure.measured},
        }

    def __len__(self) -> int:
        return int(self._starts[-1]) - sum(segment.entry.removed for segment in self.segments)

    def keys(self, where: Filter | None = None) -> NDArray[np.int64]:
        """The keys of all images, or of those that pass a filter, in the order they were added."""
        allowed = self._passing(where)
        return np.arange(self._starts[-1]) if allowed is None else np.flatnonzero(allowed)

    def _allowed(self, where: Filter | None) -> NDArray[np.bool_] | None:
        if where is None:
            return self._alive
        check_columns(where, self.columns)
        passed = [matching(where, segment.column) for segment in self.segments]
        found: NDArray[np.bool_] = np.concatenate([np.zeros(0, bool), *passed])
        return found if self._alive is None else found & self._alive

    @property
    def columns(self) -> list[str]:
        """The names that filters may use."""
        names = {name for segment in self.segments for name in segment.items.column_names}
        keys = (name.removeprefix(METADATA) for name in names if name.startswith(METADATA))
        several = [FACTS] if FACTS in names else []
        return [*BUILT_IN, *several, "model", *sorted(keys)]

    def take(self, keys: Keys) -> NDArray[np.float32]:
        """Rows by key, each checked."""
        rows = np.empty((len(keys), width_of(self.manifest.dimension)), np.float32)
        for number, places, positions in self._by_segment(keys):
            rows[places] = self.segments[number].take(positions)
        return rows

    def names(self, keys: Keys) -> list[str]:
        """The images' ids."""
        return [item["id"] for item in self.items(keys, ("id",))]

    def items(self, keys: Keys, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Items by key, or some of their columns."""
        found: list[dict[str, Any]] = [{}] * len(keys)
        for number, places, positions in self._by_segment(keys):
            segment = self.segments[number]
            table = segment.items if columns is None else segment.items.select(columns)
            for place, item in zip(places.tolist(), table.take(positions).to_pylist(), strict=True):
                found[place] = {**item, "model": segment.entry.model}
        return found

    def _by_segment(self, keys: Keys) -> Iterable[tuple[int, NDArray[np.intp], NDArray[np.int64]]]:
        """Numbers of segments, the places in `keys` that belong to each, and their positions in it."""
        numbers = np.searchsorted(self._starts, keys, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            yield number, places, keys[places] - self._starts[number]

    # Searching

    @property
    def exact(self) -> bool:
        """Whether every row is swept."""
        return self._structure is None

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest squared norm of each unit."""
        return np.max([segment.entry.largest for segment in self.segments], axis=0)  # type: ignore[no-any-return]

    def sweep(self, queries: NDArray[np.float32], count: int, where: Filter | None) -> list[Swept]:
        """For each query the rows of highest inner product, best first."""
        allowed = self._passing(where)
        first, answers = 0, []
        if self._structure is not None and (allowed is None or allowed.sum() > _FEW):
            first = self._covered
            covered = None if allowed is None else allowed[: self._starts[first]]
            answers.append(candidates(self._structure, queries, count, int(self._starts[first]), covered))
        for number, segment in enumerate(self.segments[first:], first):
            start = int(self._starts[number])
            chosen = None if allowed is None else allowed[start : start + len(segment)]
            parts = best_of(segment, queries, count, chosen)
            answers += [(scores, np.where(keys < 0, -1, keys + start)) for scores, keys in parts]
        return merged(answers, len(queries), None if first else count)

    def above(self, query: NDArray[np.float32], least: float, where: Filter | None) -> Keys:
        """The rows whose float32 inner product is at least `least`."""
        allowed = self._passing(where)
        found = [np.empty(0, np.int64)]
        for segment, start in zip(self.segments, self._starts, strict=False):
            for at, rows in chunks(segment):
                good = rows @ query >= np.float64(least) if np.isfinite(least) else np.ones(len(rows), bool)
                if allowed is not None:
                    good &= allowed[start + at : start + at + len(rows)]
                found.append(np.flatnonzero(good) + start + at)
        return np.concatenate(found)

    # Changing and maintaining

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
        """Store images, replacing those with the same ids."""
        rows, items = pack(images.vectors), items_table(images.columns)
        with locked(self.path):
            writer = Writer(self.path)
            about = _about(writer.manifest)
            about.check_addition(self.path, version, language)
            language.learn_units(files.saved_language(self.path, writer.manifest))
            writer.delete(lambda segment: segment.has(images.ids))
            writer.append(rows, items, version.fingerprint)
            writer.learn(version, tuple(map(str, sorted({*about.facts, *facts}))), language)
            writer.compact()
            writer.commit()

    def remove(self, ids: Collection[str]) -> int:
        """Remove images; returns how many there were."""
        with locked(self.path):
            writer = Writer(self.path)
            count = writer.delete(lambda segment: segment.has(ids))
            if count:
                if sum(entry.count - entry.removed for entry in writer.manifest.segments) == 0:
                    raise FactIndexError(f"{self.path} would be left without images; delete the folder instead.")
                writer.compact()
                writer.commit()
        return count

    def rewrite(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Change columns of items by id, in one commit."""
        with locked(self.path):
            writer = Writer(self.path)
            if writer.rewrite(changes):
                writer.compact()
                writer.commit()

    def optimize(self, language: LanguageSpace, **options: Any) -> "list[Trial]":
        """Choose the fastest way to search that reaches a recall; see `folder/optimize.py`."""
        from factlearn.retrieval.folder.optimize import optimize

        return optimize(self.path, language, **options)

    def problems(self) -> list[FactIndexError]:
        """Every file whose content is not what was written."""
        return files.damaged_files(self.path)

    @classmethod
    def verify(cls, path: Path | str) -> list[FactIndexError]:
        """Every damaged file; if there is none, why the index cannot be opened."""
        if found := files.damaged_files(Path(path)):
            return found
        try:
            cls.open(path)
        except FactIndexError as error:
            return [error]
        return []

    @classmethod
    def restore(cls, path: Path | str, language: LanguageSpace | None = None) -> list[Item]:
        """Make a damaged index whole again; see `folder/repair.py`."""
        from factlearn.retrieval.folder.repair import restore

        return restore(Path(path), language)

    @classmethod
    def upgrade(cls, path: Path | str) -> bool:
        """Rewrite an index of version 1; see `folder/upgrade.py`."""
        from factlearn.retrieval.folder.upgrade import upgrade

        return upgrade(Path(path))


def _about(manifest: Manifest) -> About:
    return About.of(manifest.dimension, manifest.language, manifest.facts, manifest.models)
