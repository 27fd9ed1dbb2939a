"""Images without labels of ours, for measuring importance and for indexing: in folders, in tars, in object storage."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from factlearn import places
from factlearn.data.samples import FactDataset, Sample
from factlearn.errors import DatasetError, FactlearnError
from factlearn.facts import Fact
from factlearn.images import find_images

_LONGEST = 1 << 20


def folder_dataset(folder: Path | str) -> FactDataset:
    """Every image below a folder, without facts unless it is in a tar that has them; its id is its path from there.

    Raises:
        DatasetError: if the folder is missing, unreadable, or holds no image.
    """
    folder = Path(folder)
    return FactDataset(folder.name or folder.resolve().name, samples_below(folder, find_images(folder)))


def tars_dataset(tars: Iterable[Path]) -> FactDataset:
    """The images of several tars, named by tar and member."""
    paths = [places.absolute(tar) for tar in tars]
    root = Path(*_common(paths))
    found = [sample for tar in paths for sample in samples_below(root, find_images(tar))]
    return FactDataset(root.name, tuple(found))


def _common(paths: list[Path]) -> tuple[str, ...]:
    """The parts that all folders of these files begin with."""
    first, *others = (path.parent.parts for path in paths)
    same = (len({*column}) == 1 for column in zip(first, *others, strict=False))
    return first[: next((number for number, alike in enumerate(same) if not alike), min(map(len, (first, *others))))]


def samples_below(root: Path, paths: Iterable[Path]) -> tuple[Sample, ...]:
    """Images as samples, named by their path from a folder; one in a tar with what the tar says of it."""
    return tuple(_described(Sample(path.relative_to(root).as_posix(), path)) for path in paths)


def _described(sample: Sample) -> Sample:
    """With the facts and the metadata of the JSON file of the same name beside it in its tar, if there is one.

    Raises:
        DatasetError: if that cannot be understood.
    """
    beside = sample.path.with_name(sample.path.name.partition(".")[0] + ".json")
    if not places.is_in_tar(beside):
        return sample
    try:
        with places.open_file(beside) as stream:
            raw = json.loads(stream.read(_LONGEST))
        if not isinstance(raw, dict):
            raise DatasetError("it is not an object")
        facts = [Fact.parse(text) for text in _texts(raw.pop("facts", None) or raw.pop("fact", None))]
        metadata = {str(key): _as_text(value) for key, value in raw.items() if value is not None}
    except (ValueError, RecursionError, FactlearnError) as error:
        raise DatasetError(f"{beside} does not say what its image shows: {str(error).rstrip('.')}.") from error
    described = Sample(sample.id, sample.path, metadata=metadata)
    return described.showing(dict.fromkeys(facts, metadata)) if facts else described


def _texts(value: Any) -> list[str]:
    found = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise DatasetError('its fact is not text such as "<person, riding, bike>"')
    return found


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
