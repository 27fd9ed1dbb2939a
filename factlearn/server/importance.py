"""Importance jobs: adapt a run to what a user cares about, and tell what that changed."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factlearn import places
from factlearn.errors import RunError
from factlearn.facts import Fact
from factlearn.files import atomic_directory
from factlearn.progress import progress

if TYPE_CHECKING:
    from torch import Tensor

    from factlearn.learning.runs import Run

LINKS = ".images"
_REMEMBERS = "-remembers-"
_PER_FACT = 4


def remember(folder: Path, facts: Sequence[str], images: Sequence[Path]) -> dict[str, Any]:
    """Adapt a run to facts or images; the name of the new run, and how firmly each fact was and is held."""
    from factlearn.learning.adaptation import adapt
    from factlearn.learning.runs import Run

    run = Run.of_facts(folder)
    out = next(_free_places(folder))
    unseen = out.with_name(f".{out.name}.{os.getpid()}.tmp")  # appears when all is done
    adapted = adapt(run, list(facts) if facts else _linked(images, out.with_name(f"{out.name}{LINKS}")), unseen)
    held = firmness(run, [_omega(run), _omega(adapted)])
    os.rename(unseen, out)
    gained = sorted(held.items(), key=lambda each: (-each[1][1] / max(each[1][0], 1e-12), each[0]))
    return {"run": out.name, "facts": [{"fact": str(f), "before": b, "after": a} for f, (b, a) in gained]}


def clean_up(folder: Path, process: int) -> None:
    """Delete what a killed process left beside a run."""
    for left in folder.parent.glob(f".*.{process}*.tmp"):
        shutil.rmtree(left, ignore_errors=True)
    for links in folder.parent.glob(f"*{_REMEMBERS}*{LINKS}"):
        if not links.with_name(links.name.removesuffix(LINKS)).exists():
            shutil.rmtree(links, ignore_errors=True)


def _free_places(folder: Path) -> Iterator[Path]:
    number = 1
    while True:
        place = folder.with_name(f"{folder.name}{_REMEMBERS}{number}")
        if not place.exists():
            yield place
        number += 1


def _linked(images: Sequence[Path], folder: Path) -> Path:
    """A folder of links to the images, which later tasks of the new run are measured on as well."""
    missing = [path for path in images if places.is_gone(path)]
    if missing:
        raise RunError(f"The image {missing[0]} is no longer where it was indexed.")
    with atomic_directory(folder) as made:
        for number, path in enumerate(images):
            link = made / f"{number:05d}{path.suffix}"
            if path.is_file():
                link.symlink_to(path.absolute())
            else:  # in a tar or in object storage
                with places.open_file(path) as stream:
                    link.write_bytes(stream.read())
    return folder


def _omega(run: "Run") -> "dict[str, Tensor]":
    """The importance that a run's last stage left."""
    from factlearn.learning.runs import load_tensors
    from factlearn.lifelong.strategy import group_of

    return group_of(load_tensors(run.stage_folder(run.finished_stages()) / "strategy.safetensors"), "omega")


def firmness(run: "Run", omegas: "Sequence[Mapping[str, Tensor]]") -> dict[Fact, list[float]]:
    """How firmly each fact is held under each importance.

    The mean importance of the parameters, weighted by how much the fact's own images use them (their importance for
    those images alone), in units of the first importance's mean over all parameters: at first, 1 is no firmer than a
    parameter picked at random. Empty for methods that keep no importance per parameter.
    """
    if not all(omegas):
        return {}
    import torch

    from factlearn.learning.problem import problem_class
    from factlearn.learning.results import load_model
    from factlearn.lifelong.importance import Estimator
    from factlearn.lifelong.registry import make_strategy
    from factlearn.lifelong.strategy import Learner
    from factlearn.models.inputs import in_order, open_inputs

    model = load_model(run)
    bare = Learner(model.suffix, torch.optim.SGD(model.suffix.parameters(), lr=1.0), run.finished_stages() - 1)
    learner = problem_class(run.config).of_run(run, model).importance_learner(bare, None)
    measure = make_strategy(run.config.strategy).use_measure(learner.output)
    chosen = _pictures_of(run)
    first = omegas[0]
    mean = sum(float(each.sum()) for each in first.values()) / sum(each.numel() for each in first.values()) or 1.0
    found: dict[Fact, list[float]] = {}
    with progress("how firmly facts are held", len(chosen)) as advance:
        for fact, paths in chosen.items():
            estimator = Estimator(learner.measured or learner.module, measure)
            for batch in in_order(open_inputs(model, paths), len(paths)):
                estimator.update(batch)
            used = {name: each for name, each in estimator.importance.mean().items() if name in first}
            total = sum(float(each.sum()) for each in used.values()) or 1.0
            found[fact] = [
                sum(float((used[name] * omega[name].to(used[name])).sum()) for name in used) / total / mean
                for omega in omegas
            ]
            advance(1)
    return found


def _pictures_of(run: "Run") -> dict[Fact, list[Path]]:
    """A few training images of each fact that are still there."""
    found: dict[Fact, list[Path]] = {}
    for sample in run.data.of_split("train").samples:
        kept = [] if sample.fact is None else found.setdefault(sample.fact, [])
        if sample.fact is not None and len(kept) < _PER_FACT and places.is_file(sample.path):
            kept.append(sample.path)
    return {fact: paths for fact, paths in sorted(found.items()) if paths}
