"""What a run was made with, and whether it may continue with something else.

A resumed run is, bit for bit, one that was never interrupted only if config, code and libraries are the same. If they
are not, resuming is refused, or with `accept` the change is written to run.json under `changes`.
"""

import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from factlearn.errors import RunError
from factlearn.files import atomic_write, fingerprint, write_json
from factlearn.learning.config import RunConfig
from factlearn.learning.runs import Run

_PACKAGES = ("torch", "torchvision", "numpy", "gensim", "faiss-cpu", "scikit-learn", "lightning-fabric")
_SHAPING = ("data", "models", "lifelong", "learning")
"""The packages whose code decides what a run learns."""
_MAY_CHANGE = ("training", "evaluation", "device", "tensorboard")
"""The sections of a config that may change in the middle of a run; others would make it another run."""


def versions() -> dict[str, str]:
    """The versions that shape a result."""
    from factlearn import __version__

    return {
        "factlearn": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """A name for the code that decides what a run learns."""
    root = Path(__file__).parents[1]
    files = [*root.glob("*.py"), *(file for part in _SHAPING for file in (root / part).rglob("*.py"))]
    return fingerprint(*((file.relative_to(root).as_posix(), file.read_bytes()) for file in sorted(files)))


def check_unchanged(run: Run, config: RunConfig, *, how_to_add: str, accept: bool) -> Run:
    """The run, to be resumed with this config by this code.

    Args:
        how_to_add: the command that teaches the run something new, for the error message.
        accept: record what has changed, instead of refusing.

    Raises:
        RunError: if something has changed that may not, or is not accepted.
    """
    settings = _changed_settings(run.config, config)
    if settings and not accept:
        raise RunError(
            f"{run.folder} was started with another config ({', '.join(settings)}); resume it with its own "
            f"config.yaml, accept the new one with --accept-changes, or teach it something new with `{how_to_add}`."
        )
    fixed = [key for key in settings if key.split(".")[0] not in _MAY_CHANGE]
    if fixed:
        raise RunError(
            f"{', '.join(fixed)} cannot change in the middle of a run, only {', '.join(_MAY_CHANGE)} can; "
            "start a new run."
        )
    made_with = {} if _is_finished(run) else _changed_code(run.description())
    if made_with and not accept:
        raise RunError(
            f"{run.folder} was started with other code ({', '.join(made_with)}), so its result would differ from "
            "an uninterrupted run; go back to that code, or continue with --accept-changes, which records the change."
        )
    if settings or made_with:
        _record(run, config, {**settings, **made_with})
    return Run.open(run.folder)


def _is_finished(run: Run) -> bool:
    """Whether every task is learned, so that the code has nothing left to decide."""
    stages = run.finished_stages()
    return bool(stages) and len(run.stage(stages)["tasks"]) == len(run.task_names())


def _record(run: Run, config: RunConfig, changed: Mapping[str, Any]) -> None:
    description = run.description()
    entry = {"after_stage": run.finished_stages(), "changed": dict(changed)}
    now = {"versions": versions(), "code": code_fingerprint(), "changes": [*description.get("changes", ()), entry]}
    write_json(run.folder / "run.json", {**description, **now})
    with atomic_write(run.folder / "config.yaml") as stream:
        stream.write(config.to_yaml())


def _changed_settings(before: RunConfig, now: RunConfig) -> dict[str, Any]:
    """The keys of a config that differ, each with its value before and now."""
    one, other = (dict(_flat(config.model_dump(mode="json", by_alias=True))) for config in (before, now))
    return {key: [one.get(key), other.get(key)] for key in {**one, **other} if one.get(key) != other.get(key)}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Any:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _changed_code(description: Mapping[str, Any]) -> dict[str, Any]:
    """The versions that differ from those that a run records; the code itself where no version tells."""
    recorded = description.get("versions")
    recorded = recorded if isinstance(recorded, dict) else {}
    changed = {name: [recorded[name], now] for name, now in versions().items() if recorded.get(name, now) != now}
    if not changed and description.get("code", code_fingerprint()) != code_fingerprint():
        changed["factlearn's code"] = [description["code"], code_fingerprint()]
    return changed
