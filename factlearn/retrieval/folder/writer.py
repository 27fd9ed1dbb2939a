"""Changes to an index folder: one commit each, made by the process that holds the lock."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from factlearn.files import atomic_directory
from factlearn.language import LanguageSpace
from factlearn.retrieval.about import Version, with_version
from factlearn.retrieval.folder import segments as seg
from factlearn.retrieval.folder.files import language_files, open_segments, read_state, sweep_up
from factlearn.retrieval.folder.manifest import Manifest, SegmentEntry, write_manifest
from factlearn.retrieval.folder.segments import Segment
from factlearn.retrieval.rows import width_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1 << 18  # per segment
MOST_SEGMENTS = 16
_JOINED_AT_ONCE = 1 << 14


class Writer:
    """One change to an index, made within `locked`; nothing is visible before `commit`.

    Attributes:
        manifest: the state to be committed.
        segments: the segments of the state before.
        generation: the number of the commit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest, self.segments = read_state(path, lambda manifest: (manifest, open_segments(path, manifest)))
        self.generation = self.manifest.generation + 1
        self._named = 0

    def update(self, **changes: object) -> None:
        """Change parts of the state to be committed."""
        self.manifest = self.manifest.model_copy(update=changes)

    def new_name(self) -> str:
        """A name that no segment or structure has had before."""
        self._named += 1
        return f"{self.generation:06d}-{self._named}"

    def append(self, rows: NDArray[np.float32], items: "pa.Table", model: str) -> None:
        """Add images."""
        for start in range(0, len(rows), MOST_ROWS):
            part = rows[start : start + MOST_ROWS]
            chunk = items.slice(start, len(part)).combine_chunks()
            entry = seg.write_segment(self.path, self.new_name(), [part], chunk, rows.shape[1], model)
            self.update(segments=(*self.manifest.segments, entry))

    def delete(self, chosen: Callable[[Segment], NDArray[np.bool_]]) -> int:
        """Remove the images that `chosen` marks in each segment; returns how many there were."""
        entries, count = [], 0
        for segment in self.segments:
            before = np.zeros(len(segment), bool) if segment.deleted is None else segment.deleted
            now = chosen(segment) & ~before
            count += int(now.sum())
            if not now.any():
                entries.append(segment.entry)
            elif not (all_gone := before | now).all():
                entries.append(seg.write_deleted(self.path, segment.entry, all_gone, self.generation))
        added = self.manifest.segments[len(self.segments) :]
        self.update(segments=(*entries, *added))
        return count

    def rewrite(self, changes: Mapping[str, Mapping[str, str]]) -> bool:
        """Change columns of items by id, replacing images that have a new id; False if there is none to change.

        A segment of which most changes is written anew in its old order, so that a search structure stays valid;
        otherwise the changed images are removed from their segment and added to a new one.
        """
        taken = {*changes, *(change["id"] for change in changes.values() if "id" in change)}
        entries: list[SegmentEntry] = []
        new: list[SegmentEntry] = []
        renamed: dict[str, SegmentEntry] = {}
        for segment in self.segments:
            before = np.zeros(len(segment), bool) if segment.deleted is None else segment.deleted
            chosen = segment.has(changes) & ~before
            whole = 2 * chosen.sum() > len(segment)
            entry = segment.entry
            gone = before | (segment.has(taken) & ~chosen if whole else segment.has(taken))
            if chosen.any():
                made = self._rewritten(segment, None if whole else np.flatnonzero(chosen), changes)
                if whole:
                    renamed[segment.entry.name] = entry = made
                else:
                    new.append(made)
            if (gone != before).any() or (whole and gone.any()):
                entry = seg.write_deleted(self.path, entry, gone, self.generation)
            if not gone.all():
                entries.append(entry)
        self.update(segments=(*entries, *new))
        if self.manifest.structure:
            covered = tuple(renamed[n].name if n in renamed else n for n in self.manifest.structure.segments)
            self.update(structure=self.manifest.structure.model_copy(update={"segments": covered}))
        return bool(renamed or new)

    def _rewritten(
        self, segment: Segment, rows: NDArray[np.int64] | None, changes: Mapping[str, Mapping[str, str]]
    ) -> SegmentEntry:
        """A new segment with some rows of another, or all, and changed items."""
        items = (segment.items if rows is None else segment.items.take(rows)).to_pylist()
        items = [{**item, **changes.get(item["id"], {})} for item in items]
        names = dict.fromkeys(name for item in items for name in item)
        table = seg.items_table({name: [item.get(name) for item in items] for name in names})
        width = width_of(self.manifest.dimension)
        return seg.write_segment(self.path, self.new_name(), _parts(segment, rows), table, width, segment.entry.model)

    def learn(self, version: Version, facts: tuple[str, ...], language: LanguageSpace) -> None:
        """Add a model and facts; if there are new facts, the language space is saved again."""
        self.update(models=with_version(self.manifest.models, version))
        if facts != self.manifest.facts:
            name = f"language/{self.generation:06d}"
            with atomic_directory(self.path / name) as made:
                language.save(made)
            self.update(facts=facts, files=language_files(self.path, name))

    def join(self, members: Sequence[Segment]) -> SegmentEntry | None:
        """Write segments of one model as a new one, without removed images; None if nothing is left."""
        import pyarrow as pa

        kept = [np.flatnonzero(~segment.deleted) if segment.deleted is not None else None for segment in members]
        tables = [s.items if rows is None else s.items.take(rows) for s, rows in zip(members, kept, strict=True)]
        items = pa.concat_tables(tables, promote_options="default").combine_chunks()
        if not items.num_rows:
            return None
        width = width_of(self.manifest.dimension)
        parts = (part for segment, rows in zip(members, kept, strict=True) for part in _parts(segment, rows))
        return seg.write_segment(self.path, self.new_name(), parts, items, width, members[0].entry.model)

    def compact(self, *, whole: bool = False) -> bool:
        """Join small segments and rewrite those with removed images; True if anything changed.

        Args:
            whole: join all that can be joined, instead of only when there are many small segments or much was removed.
        """
        opened = [Segment(self.path, entry) for entry in self.manifest.segments]
        groups: list[list[Segment]] = []
        for segment in opened:
            fits = groups and groups[-1][0].entry.model == segment.entry.model
            if fits and sum(map(len, groups[-1])) + len(segment) <= MOST_ROWS:
                groups[-1].append(segment)
            else:
                groups.append([segment])
        crowded = whole or len(opened) > MOST_SEGMENTS
        entries: list[SegmentEntry] = []
        changed = False
        for group in groups:
            removed = sum(segment.entry.removed for segment in group)
            if (crowded and (len(group) > 1 or removed)) or removed > sum(map(len, group)) // 2:
                joined = self.join(group)
                entries += [joined] if joined else []
                changed = True
            else:
                entries += [segment.entry for segment in group]
        if changed:
            self.update(segments=tuple(entries))
        return changed

    def commit(self) -> Manifest:
        """Make the new state visible and delete files that it does not refer to."""
        names = {segment.name for segment in self.manifest.segments}
        structure = self.manifest.structure
        if structure and not set(structure.segments) <= names:
            self.update(structure=None)
        models = {segment.model for segment in self.manifest.segments}
        latest = max(self.manifest.models, key=lambda name: self.manifest.models[name].number)
        kept = {name: entry for name, entry in self.manifest.models.items() if name in models or name == latest}
        self.update(generation=self.generation, models=kept)
        write_manifest(self.path, self.manifest)
        sweep_up(self.path, self.manifest)
        return self.manifest


def _parts(segment: Segment, rows: NDArray[np.int64] | None) -> Iterator[NDArray[np.float32]]:
    if rows is None:
        rows = np.arange(len(segment))
    for start in range(0, len(rows), _JOINED_AT_ONCE):
        yield segment.take(rows[start : start + _JOINED_AT_ONCE])
