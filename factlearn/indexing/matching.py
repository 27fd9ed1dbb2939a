"""Matching image files with what an index holds: by path, then by content.

Same content is the same image: a file that was renamed or moved keeps its vector and its labels, and a copy of an
indexed image is not indexed twice. A file's content is read only if its size or time differ from what was indexed.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from factlearn import places
from factlearn.data.samples import Sample
from factlearn.errors import DatasetError
from factlearn.retrieval.items import facts_of, labels_of, metadata_of

Item = Mapping[str, Any]
FileFacts = dict[str, str]


def file_facts(path: Path) -> FileFacts:
    """Size, mtime and hash, to detect changes."""
    return {**_times(path), "sha256": places.content_key(path)}


def _times(path: Path) -> FileFacts:
    status = places.status(path)
    return {"bytes": str(status.size), "modified": str(status.modified)}


def sample_of(item: Item) -> Sample:
    """An image of an index, to be embedded again."""
    metadata = metadata_of(item)
    split = metadata.pop("split", "")
    sample = Sample(item["id"], Path(item["path"]), None, split, metadata)
    return sample.showing(dict.fromkeys(facts_of(item), metadata)) if item["fact"] else sample


def place_of(item: Item) -> str:
    """The normalised path of an indexed image."""
    return os.path.normpath(str(item["path"]))


def is_gone(item: Item) -> bool:
    """Whether an indexed image is no longer where it was."""
    return places.is_gone(item["path"])


@dataclass
class Matched:
    """What has to be done so that an index knows these files.

    Attributes:
        unchanged: images that the index holds as they are.
        new, changed: images to embed, under the ids they are to have.
        moved: images whose vector is known under another path.
        duplicates: images whose content the index holds under another path.
        failed: files that could not be read at all, with the reason.
        rewrites: new values of items by id, for what moved, and for files that have a new time only.
        outdated: ids of items whose file now has other content, or none.
        files: size, mtime and hash of every file to embed.
    """

    unchanged: list[Sample] = field(default_factory=list)
    new: list[Sample] = field(default_factory=list)
    changed: list[Sample] = field(default_factory=list)
    moved: list[Sample] = field(default_factory=list)
    duplicates: list[Sample] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    rewrites: dict[str, dict[str, str]] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)
    files: dict[Path, FileFacts] = field(default_factory=dict)

    @property
    def fresh(self) -> list[Sample]:
        """The images to embed."""
        return self.new + self.changed

    def copies(self, paths: Iterable[Path]) -> set[Path]:
        """The duplicates of these files."""
        contents = {self.files[path]["sha256"] for path in paths}
        return {copy.path for copy in self.duplicates if self.files[copy.path]["sha256"] in contents}


def match(items: Sequence[Item], samples: Iterable[Sample], source: str, *, allow_duplicates: bool = False) -> Matched:
    """Match files with the items of an index.

    Args:
        items: of the index.
        samples: images; those without a fact keep the facts that the index knows of them.
        source: the name of their folder, for ids that are taken.
        allow_duplicates: index a copy of an indexed image, too.
    """
    return _Matching(items, source, allow_duplicates).run(samples)


class _Matching:
    def __init__(self, items: Sequence[Item], source: str, allow_duplicates: bool) -> None:
        self.items = items
        self.source = source
        self.allow_duplicates = allow_duplicates
        self.found = Matched()
        self.at: dict[str, list[Item]] = {}
        self.with_content: dict[str, list[Item]] = {}
        for item in items:
            self.at.setdefault(place_of(item), []).append(item)
            if item.get("sha256"):
                self.with_content.setdefault(item["sha256"], []).append(item)
        self.used: set[str] = set()  # ids of items that have moved
        self.taken: set[str] = set()  # ids that are not free
        self.seen: dict[str, list[Sample]] = {}  # what is to be embedded, by content

    def run(self, samples: Iterable[Sample]) -> Matched:
        """First by path; what is left over by content, once it is known which items still stand."""
        left: list[tuple[Sample, Item | None]] = []
        for sample in samples:
            here = self.at.get(os.path.normpath(places.written(sample.path)), [])
            if self._read(sample.path, here):
                for each, item in _labelled(sample, here):
                    if item is not None and self._stands(each, item):
                        continue
                    left.append((each, item))
        left.sort(key=lambda each: each[1] is None)  # an image that has labels before its unlabelled copies
        unknown = [(sample, item) for sample, item in left if not self._by_content(sample, item)]
        self.taken = {item["id"] for item in self.items} - self.found.outdated - self.used
        self._name_moved()
        for sample, item in unknown:
            self._embed(sample, item)
        return self.found

    def _read(self, path: Path, here: Sequence[Item]) -> bool:
        """Note what the file is like now."""
        found = self.found
        if path in found.files:
            return True
        try:
            str(path).encode()
            times = _times(path)
            same = next((item for item in here if item["sha256"] and times.items() <= item.items()), None)
            found.files[path] = {**times, "sha256": same["sha256"] if same else places.content_key(path)}
        except UnicodeEncodeError:
            found.failed[path] = "its name is not Unicode text; rename it"
            return False
        except DatasetError as error:  # the tar that it is in
            found.failed[path] = str(error).rstrip(".")
            return False
        except OSError as error:
            found.failed[path] = error.strerror or str(error)
            if isinstance(error, FileNotFoundError):
                found.outdated |= {item["id"] for item in here}
            return False
        now = found.files[path]["sha256"]
        found.outdated |= {item["id"] for item in here if item["sha256"] != now}
        return True

    def _stands(self, sample: Sample, item: Item) -> bool:
        """Whether the item is as the file is now."""
        if item["id"] in self.found.outdated:
            return False
        file = self.found.files[sample.path]
        self.found.unchanged.append(sample)
        if item["modified"] != file["modified"]:
            self.found.rewrites[item["id"]] = dict(file)
        known = facts_of(item)
        if further := [fact for fact in sample.facts if fact not in known]:
            self.found.rewrites.setdefault(item["id"], {}).update(labels_of([*known, *further]))
        return True

    def _by_content(self, sample: Sample, here: Item | None) -> bool:
        """Whether an item elsewhere has the content: one that stands makes this a copy, any other has moved here."""
        known = self.with_content.get(self.found.files[sample.path]["sha256"], [])
        if sample.facts and here is None:  # a copy under other facts is another image
            known = [item for item in known if not set(sample.facts).isdisjoint(facts_of(item))]
        left = [item for item in known if self._left(item)]
        if len(left) < len(known) and not self.allow_duplicates:
            self.found.duplicates.append(sample)
            return True
        free = [item for item in left if item["id"] not in self.used]
        if not free:
            if left and not self.allow_duplicates:  # another file has taken them already
                self.found.duplicates.append(sample)
                return True
            return False
        old = place_of(free[0])
        for item in free:
            if place_of(item) == old:
                self.used.add(item["id"])
                self._move(sample, item)
        self.found.moved.append(sample)
        return True

    def _left(self, item: Item) -> bool:
        """Whether an item is no longer at its path."""
        if item["id"] not in self.found.outdated and is_gone(item):
            self.found.outdated.add(item["id"])
        return item["id"] in self.found.outdated

    def _move(self, sample: Sample, item: Item) -> None:
        _, mark, label = item["id"].partition("#<")  # how manifests name an image's further facts
        name = sample.id if mark in sample.id else sample.id + mark + label
        path = places.written(sample.path)
        self.found.rewrites[item["id"]] = {"id": name, "path": path, **self.found.files[sample.path]}

    def _name_moved(self) -> None:
        """Give what moved ids that nothing else has."""
        for change in self.found.rewrites.values():
            if "id" in change:
                change["id"] = self._free(change["id"], Path(change["path"]))

    def _embed(self, sample: Sample, item: Item | None) -> None:
        """Note an image to embed, unless another file to embed has the same content."""
        seen = self.seen.setdefault(self.found.files[sample.path]["sha256"], [])
        copies = [other for other in seen if other.path != sample.path and {*sample.facts} <= {*other.facts}]
        if copies and not self.allow_duplicates:
            self.found.duplicates.append(sample)
            return
        seen.append(sample)
        if item is None:
            self.found.new.append(replace(sample, id=self._free(sample.id, sample.path)))
        else:
            name = sample.id if item["id"] in self.used else item["id"]
            self.found.changed.append(replace(sample, id=self._free(name, sample.path)))

    def _free(self, name: str, path: Path) -> str:
        """The image's own id, or with its folder's name, or its whole path, where another image has it."""
        place = places.written(path)
        choices = (name, f"{self.source}/{name}", place, f"{place}#{len(self.taken)}")
        chosen = next(choice for choice in choices if choice not in self.taken)
        self.taken.add(chosen)
        return chosen


def _labelled(sample: Sample, here: Sequence[Item]) -> list[tuple[Sample, Item | None]]:
    """A sample with the item at its path, which learns facts that are new to it.

    One without facts stands for all items at its path, with their facts; so does one whose facts are spread over
    several items, as indexes once had them.
    """
    if not sample.facts and here:
        return [(replace(sample_of(item), path=sample.path), item) for item in here]
    shares = [{fact: label for fact, label in sample.labels.items() if fact in facts_of(item)} for item in here]
    if {fact for share in shares for fact in share} == {*sample.facts}:
        return [(sample.showing(share), item) for share, item in zip(shares, here, strict=True) if share] or [
            (sample, None)
        ]
    return [(sample, next(iter(here), None))]
