"""The language space: word vectors turned into the target vectors of facts.

A unit's vector is the mean of its words' vectors, or a sentence encoder's of the unit as a whole, minus an optional
centre, optionally scaled to length one. Every fact unit must have one: a word without a vector is an error, never a
zero.
"""

import difflib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from factlearn.config import Section, located_file
from factlearn.errors import LanguageError
from factlearn.facts import UNIT_NAMES, Fact, FactQuery
from factlearn.files import atomic_write, fingerprint, write_json

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

_EDGE_BYTES = 1 << 20
_LONGEST_HEADER = 100
_DEFLATE_RATIO = 1032
_SUFFIXES = (".bin", ".txt", ".vec", ".gz")
_MOST_ASKED = 4096  # units that only queries name; a service meets new ones for as long as it lives


@dataclass(frozen=True)
class WordVectorSource:
    """Where word vectors come from: the name of an asset, or a word2vec (.bin, .txt) or GloVe text file."""

    name: str
    content: str | None = None
    """The fingerprint the content must have, when it is known already."""

    @property
    def is_file(self) -> bool:
        """Whether the name is a path rather than an asset."""
        return "/" in self.name or Path(self.name).suffix in _SUFFIXES

    @property
    def fingerprint(self) -> str:
        """A name for the content: the asset's pinned checksum, or the file's size and both ends."""
        return self.content or self._measured

    @cached_property
    def _measured(self) -> str:
        if not self.is_file:
            from factlearn.assets import content_checksum

            return fingerprint(self.name, content_checksum(self.name))
        path = self._file()
        size = path.stat().st_size
        with open(path, "rb") as stream:
            head = stream.read(_EDGE_BYTES)
            stream.seek(max(0, size - _EDGE_BYTES))
            return fingerprint(size, head, stream.read())

    def _file(self) -> Path:
        path = Path(self.name).expanduser()
        if not path.is_file():
            raise LanguageError(f"The word vectors {self.name} do not exist; give a file or an asset's name.")
        return path

    def open(self) -> "KeyedVectors":
        """Load the vectors, fetching the asset if it is not in the cache yet."""
        if self.content not in (None, self._measured):
            raise LanguageError(
                f"The word vectors {self.name} have changed since they were first used; restore the old file."
            )
        if not self.is_file:
            return _open_asset(self.name)
        path = self._file()
        from gensim.models import KeyedVectors

        try:
            binary, header = ".bin" in path.suffixes, _header(path)
            if binary and header is None:
                raise ValueError("it does not begin with a count and a dimension")
            if header and header[0] * (2 + header[1] * (4 if binary else 2)) > _most_bytes(path):
                raise ValueError("it says that it holds more numbers than fit into it")
            return KeyedVectors.load_word2vec_format(str(path), binary=binary, no_header=not (header or binary))
        except (ValueError, TypeError, EOFError, OSError, IndexError, KeyError, OverflowError, zlib.error) as error:
            raise LanguageError(
                f"{path} is not readable as word2vec or GloVe vectors ({error}); check the file."
            ) from error


def _header(path: Path) -> tuple[int, int] | None:
    """The count and the dimension that word2vec files start with, and GloVe files lack."""
    import gzip

    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as stream:
        first = stream.readline(_LONGEST_HEADER).split()
    return (int(first[0]), int(first[1])) if len(first) == 2 and all(part.isdigit() for part in first) else None


def _most_bytes(path: Path) -> int:
    """The most that a file can hold once it is unpacked: gensim allocates what a header says before it reads on."""
    return path.stat().st_size * (_DEFLATE_RATIO if path.suffix == ".gz" else 1)


def _open_asset(name: str) -> "KeyedVectors":
    from gensim.models import KeyedVectors

    from factlearn.assets import fetch
    from factlearn.assets.sentences import WORDPIECES_FILE, SentenceVectors
    from factlearn.assets.subwords import PIECES_FILE, SubwordVectors

    folder = fetch(name)
    if (folder / PIECES_FILE).is_file():
        return SubwordVectors(folder)
    if (folder / WORDPIECES_FILE).is_file():
        return SentenceVectors(folder)
    if not (folder / "words.txt").is_file():
        raise LanguageError(f"The asset {name} holds no word vectors; choose one that `factlearn assets list` shows.")
    matrix = np.load(folder / "vectors.npy")
    vectors = KeyedVectors(matrix.shape[1])
    vectors.index_to_key = (folder / "words.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vectors.key_to_index = {word: row for row, word in enumerate(vectors.index_to_key)}
    vectors.vectors = matrix
    return vectors


class LanguageConfig(Section):
    """The `language` section of a config: the word vectors of the facts."""

    vectors: Annotated[str, located_file(*_SUFFIXES)] = "glove-6b-50d"
    """An asset's name, or a word2vec or GloVe file."""
    normalise: bool = True
    """Scale each unit's vector to unit length."""
    centre: bool = False
    """Subtract the mean of the dataset's units."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Words to use in place of a unit, in addition to the dataset's own aliases."""

    def open(self, facts: Sequence[Fact], aliases: Mapping[str, str]) -> "LanguageSpace":
        """The language space of a dataset's facts, each of which has a vector in it."""
        language = LanguageSpace.open(self.vectors, aliases={**aliases, **self.aliases}, normalise=self.normalise)
        if self.centre:
            language = language.centred_on(facts)
        language.embed(facts)
        return language


@dataclass
class LanguageSpace:
    """Word vectors with the choices that turn them into fact embeddings.

    Attributes:
        source: where the word vectors come from.
        aliases: words to use in place of a unit, for units whose own words have no vector.
        normalise: scale every unit's vector to length one.
        centre: subtracted from every unit's vector, before scaling.

    Example:
        >>> space = LanguageSpace.open("glove-6b-50d", normalise=True)  # doctest: +SKIP
        >>> vectors, mask = space.embed([Fact("person", "riding", "bike")])  # doctest: +SKIP
    """

    source: WordVectorSource
    aliases: Mapping[str, str] = field(default_factory=dict)
    normalise: bool = False
    centre: NDArray[np.float32] | None = None
    _units: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    _asked: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    _vectors: "KeyedVectors | None" = field(default=None, repr=False)

    @classmethod
    def open(cls, source: str, *, aliases: Mapping[str, str] | None = None, normalise: bool = False) -> Self:
        """A space over an asset's or a file's word vectors; they are loaded when first needed."""
        return cls(WordVectorSource(source), dict(aliases or {}), normalise)

    @classmethod
    def of_vectors(cls, vectors: "KeyedVectors", name: str = "vectors", **choices: Any) -> Self:
        """A space over vectors already in memory."""
        content = fingerprint(list(vectors.index_to_key), np.asarray(vectors.vectors).tobytes())
        return cls(WordVectorSource(name, content), _vectors=vectors, **choices)

    @property
    def words(self) -> "KeyedVectors":
        """The word vectors themselves (gensim)."""
        if self._vectors is None:
            self._vectors = self.source.open()
        return self._vectors

    @property
    def dimension(self) -> int:
        """The length of a unit's vector."""
        for vector in self._units.values():
            return len(vector)
        return int(self.words.vector_size)

    @property
    def fingerprint(self) -> str:
        """A name for the space: two spaces with the same name give the same vectors."""
        centre = b"" if self.centre is None else self.centre.tobytes()
        return fingerprint(self.source.fingerprint, dict(self.aliases), self.normalise, centre)

    def centred_on(self, facts: Iterable[Fact]) -> "LanguageSpace":
        """The same space with the mean of the facts' distinct units as its centre."""
        units = sorted({unit for fact in facts for unit in fact.units})
        if not units:
            raise LanguageError("Centring the language space needs facts; give at least one.")
        raw = LanguageSpace(self.source, self.aliases, _vectors=self._vectors)
        centre = np.stack([raw.unit(unit) for unit in units]).mean(axis=0, dtype=np.float64).astype(np.float32)
        return LanguageSpace(self.source, self.aliases, self.normalise, centre, _vectors=raw._vectors)

    def unit(self, unit: str, owner: Fact | FactQuery | None = None) -> NDArray[np.float32]:
        """The vector of one unit.

        Raises:
            LanguageError: if a word of the unit has no vector, naming the word, the fact and close spellings.
        """
        found = self._units.get(unit)
        if found is None:
            found = self._asked.get(unit)
        if found is None:
            found = self._embed_unit(unit, owner)
            if len(self._asked) >= _MOST_ASKED:
                self._asked = {}
            self._asked[unit] = found
        return found

    def _embed_unit(self, unit: str, owner: Fact | FactQuery | None) -> NDArray[np.float32]:
        from factlearn.assets.sentences import SentenceVectors

        words = self._words_of(unit)
        if any(word not in self.words.key_to_index for word in words):
            raise LanguageError(self._missing([unit], owner))
        texts = [" ".join(words)] if isinstance(self.words, SentenceVectors) else words
        vector: NDArray[np.float64] = np.stack([self.words[text] for text in texts]).mean(axis=0, dtype=np.float64)
        if self.centre is not None:
            vector -= self.centre
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0.0:
            raise LanguageError(
                f"The vector of {unit!r} in {self.source.name} has length {length}; map it to other words by an alias."
            )
        return (vector / length if self.normalise else vector).astype(np.float32)

    def _words_of(self, unit: str) -> list[str]:
        return self.aliases.get(unit, unit).replace("_", " ").split()

    def _missing(self, units: Iterable[str], owner: Fact | FactQuery | None) -> str:
        """One sentence about every word of some units that has no vector, with close spellings of each."""
        where = f" (in {owner})" if owner is not None else f" (in the unit {next(iter(units))!r})"
        missing = {word: unit for unit in units for word in self._words_of(unit) if word not in self.words.key_to_index}
        words = ", ".join(map(repr, missing))
        has = (
            f"The word {words}{where} has no vector"
            if len(missing) == 1
            else f"The words {words}{where} have no vectors"
        )
        spellings = [(word, self._close_spellings(word)) for word in missing]
        if len(missing) == 1:
            ((_, close),) = spellings
            hint = f"close spellings: {', '.join(close)}" if close else "no spelling is close"
        else:
            hint = "; ".join(f"for {word!r}: {', '.join(close) or 'no spelling is close'}" for word, close in spellings)
        remedy = f"correct it or alias the unit {next(iter(missing.values()))!r}"
        if len(missing) > 1:
            remedy = "correct them or alias the units"
        return f"{has} in {self.source.name}; {hint}; {remedy}."

    def _close_spellings(self, word: str) -> list[str]:
        """Words of the units in use first, then of all words with vectors."""
        used = sorted({part for unit in self._units for part in unit.split()})
        close = difflib.get_close_matches(word, used, n=3, cutoff=0.7)
        nearby = [w for w in self.words.index_to_key[:150_000] if w[:1] == word[:1] and abs(len(w) - len(word)) <= 2]
        further = difflib.get_close_matches(word, nearby, n=3, cutoff=0.7) if len(close) < 3 else []
        return list(dict.fromkeys([*close, *further]))[:3]

    def embed(self, facts: Sequence[Fact | FactQuery]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors [N, 3, D] of the facts' units and the mask [N, 3] of the units they have; open units are zero.

        The units of facts are kept and saved with the space; of those that only queries name, the last few thousand.
        """
        vectors = np.zeros((len(facts), len(UNIT_NAMES), self.dimension), np.float32)
        mask = np.zeros((len(facts), len(UNIT_NAMES)), bool)
        for row, fact in enumerate(facts):
            named = [unit for unit in fact.units if unit is not None]
            if any(not self._has(unit) for unit in named):
                raise LanguageError(self._missing(named, fact))
            for position, unit in enumerate(fact.units):
                if unit is not None:
                    vectors[row, position] = vector = self.unit(unit, fact)
                    mask[row, position] = True
                    if isinstance(fact, Fact):
                        self._units.setdefault(unit, vector)
        return vectors, mask

    def _has(self, unit: str) -> bool:
        known = unit in self._units or unit in self._asked
        return known or all(word in self.words.key_to_index for word in self._words_of(unit))

    def learn_units(self, other: "LanguageSpace") -> None:
        """Know the units that another copy of the same space was saved with."""
        for unit, vector in other._units.items():
            self._units.setdefault(unit, vector)

    def save(self, folder: Path) -> None:
        """Write the space's choices and the vectors of the facts met so far, so that those need no word vectors."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"unit:{unit}": vector for unit, vector in self._units.items()}
        if self.centre is not None:
            tensors["centre"] = self.centre
        with atomic_write(folder / "units.safetensors", "wb") as stream:  # save_file would make it readable to us alone
            stream.write(save(tensors))
        choices = {"source": self.source.name, "source_fingerprint": self.source.fingerprint}
        write_json(folder / "language.json", {**choices, "aliases": dict(self.aliases), "normalise": self.normalise})

    @classmethod
    def load(cls, folder: Path) -> "LanguageSpace":
        """Open a saved space; its word vectors are loaded only for a unit that was not saved with it."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            choices = json.loads((folder / "language.json").read_text(encoding="utf-8"))
            tensors = load_file(folder / "units.safetensors")
            source = WordVectorSource(choices["source"], choices["source_fingerprint"])
            aliases, normalise = dict(choices["aliases"]), bool(choices["normalise"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
            raise LanguageError(f"{folder} holds no readable language space ({error}); build it again.") from error
        centre = tensors.pop("centre", None)
        units = {name.removeprefix("unit:"): vector for name, vector in tensors.items()}
        return cls(source, aliases, normalise, centre, units)
