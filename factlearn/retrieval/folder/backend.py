"""A fact index in a folder, as the index sees it."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from factlearn.errors import FactIndexError
from factlearn.facts import Fact
from factlearn.files import atomic_directory
from factlearn.language import LanguageSpace
from factlearn.retrieval.folder import files as folder
from factlearn.retrieval.folder.manifest import Manifest
from factlearn.retrieval.folder.rows import FolderStore
from factlearn.retrieval.folder.segments import Segment, items_table
from factlearn.retrieval.search import pack
from factlearn.retrieval.store import About, Images, Version


class FolderBackend(FolderStore):
    """Opens, makes and changes index folders."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """The state a folder is in."""
        path = Path(path)
        return folder.read_state(path, lambda _: cls._whole(path))

    @classmethod
    def _whole(cls, path: Path, opened: Sequence[Segment] = ()) -> Self:
        """All that answers need is opened at once: a writer may sweep it up later."""
        backend = cls(path, *folder.open_state(path, opened))
        backend.load_language()
        return backend

    @classmethod
    def create(
        cls,
        path: Path | str,
        images: Images,
        version: Version,
        facts: Sequence[Fact],
        language: LanguageSpace,
        *,
        overwrite: bool,
    ) -> Self:
        """Make an index folder, which appears whole."""
        path = Path(path)
        folder.check_place(path, overwrite=overwrite)
        rows, items = pack(images.vectors), items_table(images.columns(), images.more())
        manifest = Manifest(
            generation=0,
            dimension=language.dimension,
            language=language.fingerprint,
            facts=tuple(map(str, facts)),
            models={version.fingerprint: version.entry(0)},
        )
        with folder.locked(path) if path.exists() else nullcontext(), atomic_directory(path) as made:
            folder.start_index(made, manifest, language)
            writer = folder.Writer(made)
            writer.append(rows, items, version.fingerprint)
            writer.commit()
        return cls.open(path)

    @property
    def place(self) -> Path:
        """The folder."""
        return self.path

    @property
    def about(self) -> About:
        """What the index says of itself."""
        return _about(self.manifest)

    def load_language(self) -> LanguageSpace:
        """The language space saved with the index, as it was when the index was opened."""
        return self._language

    @cached_property
    def _language(self) -> LanguageSpace:
        return _saved_language(self.path, self.manifest)

    def reload(self) -> "FolderBackend":
        """The newest state; segments open already are used again."""
        return folder.read_state(self.path, lambda _: self._whole(self.path, self.segments))

    def add(self, images: Images, version: Version, facts: Iterable[Fact], language: LanguageSpace) -> None:
        """Store images, in place of those with the same ids."""
        rows, items = pack(images.vectors), items_table(images.columns(), images.more())
        with folder.locked(self.path):
            writer = folder.Writer(self.path)
            about = _about(writer.manifest)  # others may have written since this was opened
            if about.language != language.fingerprint:
                raise FactIndexError(f"{self.path} is now of the language space {about.language}; open it again.")
            about.check_version(self.path, version)
            language.learn_units(_saved_language(self.path, writer.manifest))
            writer.delete(lambda segment: _with_ids(segment, images.ids))
            writer.append(rows, items, version.fingerprint)
            writer.learn(version, tuple(map(str, sorted({*about.facts, *facts}))), language)
            writer.compact()
            writer.commit()

    def remove(self, ids: Collection[str]) -> int:
        """Forget images; how many there were."""
        with folder.locked(self.path):
            writer = folder.Writer(self.path)
            count = writer.delete(lambda segment: _with_ids(segment, ids))
            if count:
                if sum(entry.count - entry.removed for entry in writer.manifest.segments) == 0:
                    raise FactIndexError(f"{self.path} would be left without images; delete the folder instead.")
                writer.compact()
                writer.commit()
        return count

    def problems(self) -> list[FactIndexError]:
        """Every file whose content is not what was written."""
        return folder.damaged_files(self.path)


def _about(manifest: Manifest) -> About:
    models = dict(sorted(manifest.models.items(), key=lambda item: item[1].number))
    return About(manifest.dimension, manifest.language, tuple(map(Fact.parse, manifest.facts)), models)


def _saved_language(path: Path, manifest: Manifest) -> LanguageSpace:
    return LanguageSpace.load((path / next(iter(manifest.files))).parent)


def _with_ids(segment: Segment, ids: Collection[str]) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(list(ids), pa.string())
    return pc.is_in(segment.items.column("id"), wanted).to_numpy()  # type: ignore[no-any-return]
