"""The packages that factlearn needs, as its own metadata lists them: which, for which extra, and their licences."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "factlearn"
_UNCLEAR = "not stated"


@dataclass(frozen=True)
class Package:
    """A package that is installed.

    Attributes:
        licence: as its metadata states it.
    """

    name: str
    version: str
    licence: str


def find(name: str) -> Distribution | None:
    """An installed package's metadata; None where it is not installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def extras() -> list[str]:
    """The names of factlearn's optional parts."""
    found = find(PROJECT)
    return sorted(found.metadata.get_all("Provides-Extra") or []) if found else []


def requirements(extra: str = "") -> list[Requirement]:
    """What factlearn itself needs, or one of its optional parts does."""
    found = find(PROJECT)
    wanted = [Requirement(line) for line in (found.requires or [] if found else [])]
    plain = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return plain
    return [each for each in wanted if each not in plain and each.marker and each.marker.evaluate({"extra": extra})]


def installed() -> list[Package]:
    """Every installed package that factlearn needs, directly or through another, sorted by name."""
    pending = [each for part in ("", *extras()) for each in requirements(part)]
    seen: dict[str, Package] = {}
    while pending:
        wanted = pending.pop()
        name = canonicalize_name(wanted.name)
        found = find(name)
        if found is None or name in seen:
            continue
        seen[name] = Package(name, found.version, licence_of(found))
        pending += _needed(found, wanted.extras)
    return [seen[name] for name in sorted(seen)]


def _needed(found: Distribution, chosen: set[str]) -> Iterator[Requirement]:
    for line in found.requires or []:
        each = Requirement(line)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *chosen)):
            yield each


def licence_of(found: Distribution) -> str:
    """A package's licence: the SPDX expression, else its classifiers, else the first line of its licence text."""
    metadata = found.metadata
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    names = [line.rsplit(" :: ", 1)[1] for line in classifiers if line.count(" :: ") > 1]
    if names:
        return ", ".join(names)
    lines = [line.strip() for line in "\n".join(metadata.get_all("License") or []).splitlines() if line.strip()]
    return lines[0] if lines and lines[0].upper() != "UNKNOWN" else _UNCLEAR
