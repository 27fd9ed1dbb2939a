"""Is this installation usable? One finding per thing a command may need, and how to fix what is not."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from factlearn import __version__
from factlearn.assets import ASSETS, Asset, cache_dir
from factlearn.assets.cache import asset_folder
from factlearn.errors import FactlearnError
from factlearn.models.precision import has_bfloat16
from factlearn.upkeep import packages

State = Literal["ok", "absent", "problem"]
_LITTLE_ROOM = 2 * 10**9
_MODULES = {
    "torch": "torch",
    "torchvision": "factlearn.models.vision",
    "faiss-cpu": "faiss",
    "gensim": "gensim.models",
    "pyarrow": "pyarrow",
    "scikit-learn": "sklearn.cluster",
    "lightning-fabric": "lightning_fabric",
    "pillow": "factlearn.images",
}
"""Packages whose compiled parts may fail to load although they are installed, and what loads them."""


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes:
        part: versions, machine, disk, assets or extras.
        state: `absent` is fine: something optional that is not installed or not fetched.
        remedy: what to do about it.
    """

    part: str
    name: str
    state: State
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def examine() -> list[Finding]:
    """Examine the installation, without changing anything or using the network."""
    return [*_versions(), *_machine(), *_disk(), *map(_asset, ASSETS.values()), *map(_extra, packages.extras())]


def usable(findings: Iterable[Finding]) -> bool:
    """Whether nothing that is needed is missing or broken."""
    return all(finding.state != "problem" for finding in findings)


def _versions() -> Iterator[Finding]:
    yield Finding("versions", "factlearn", "ok", __version__)
    yield Finding("versions", "python", "ok", f"{platform.python_version()}, {platform.platform()}")
    needed = packages.requirements()
    if not needed:
        yield Finding(
            "versions", "dependencies", "absent", "factlearn runs from its source and is not installed",
            "install it with `pip install -e .` to have its dependencies checked",
        )  # fmt: skip
    for each in needed:
        yield _package(each)


def _package(needed: Requirement) -> Finding:
    found = packages.find(needed.name)
    install = f"pip install '{needed.name}{needed.specifier}'"
    if found is None:
        return Finding("versions", needed.name, "problem", "not installed", install)
    if not needed.specifier.contains(found.version, prereleases=True):
        return Finding("versions", needed.name, "problem", f"{found.version}, needed is {needed.specifier}", install)
    try:
        import_module(_MODULES.get(needed.name, "factlearn"))
    except Exception as error:  # a broken binary fails in any way it likes
        what = f"{found.version} does not load: {' '.join(str(error).split())[:200]}"
        return Finding("versions", needed.name, "problem", what, f"{install} --force-reinstall")
    return Finding("versions", needed.name, "ok", found.version)


def _machine() -> Iterator[Finding]:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("machine", "cores", "ok", f"{allowed} of {os.cpu_count()} for this process")
    if (memory := _memory()) is not None:
        yield Finding("machine", "memory", "ok", f"{memory[1] / 1e9:.1f} of {memory[0] / 1e9:.1f} GB available")
    try:
        import torch
    except Exception:  # reported with the versions
        return
    chosen = os.environ.get("OMP_NUM_THREADS")
    source = f"OMP_NUM_THREADS={chosen}" if chosen else "set OMP_NUM_THREADS to change it"
    yield Finding("machine", "threads", "ok", f"torch uses {torch.get_num_threads()} ({source})")
    bfloat16 = has_bfloat16("cuda" if torch.cuda.is_available() else "cpu")
    meaning = "bfloat16" if bfloat16 else "float32, for want of bfloat16 instructions"
    yield Finding("machine", "arithmetic", "ok", f"precision: auto means {meaning}")
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    names += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    if names:
        yield Finding("machine", "devices", "ok", f"cpu, {', '.join(names)}")
    else:
        yield Finding("machine", "devices", "ok", "cpu; no GPU that this torch can use")


def _memory() -> tuple[int, int] | None:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _disk() -> Iterator[Finding]:
    try:
        yield _folder("cache", cache_dir(), "set FACTLEARN_CACHE to another folder")
    except FactlearnError as error:
        yield Finding("disk", "cache", "problem", str(error), "set FACTLEARN_CACHE to a folder")
    yield _folder("this folder", Path.cwd(), "change to a folder of yours: runs and indexes are written below it")


def _folder(name: str, folder: Path, remedy: str) -> Finding:
    there = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
    try:
        with tempfile.TemporaryFile(dir=there) as stream:
            stream.write(b"x")
            stream.flush()
            os.fsync(stream.fileno())
        free = shutil.disk_usage(there or folder).free
    except OSError as error:
        return Finding("disk", name, "problem", f"{folder} cannot be written ({error.strerror or error})", remedy)
    detail = f"{folder}, {free / 1e9:.1f} GB free"
    return Finding("disk", name, "ok", detail, remedy if free < _LITTLE_ROOM else "")


def _asset(asset: Asset) -> Finding:
    fetch = f"factlearn assets fetch {asset.name}"
    if not asset.cached:
        return Finding("assets", asset.name, "absent", f"not fetched, {asset.size / 1e6:,.0f} MB", fetch)
    folder = asset_folder(asset.name)
    try:
        for file in asset.files:
            _check_whole(folder / file)
    except Exception as error:  # whatever the libraries say of a damaged header
        what = f"{folder} is damaged ({' '.join(str(error).split())[:200]})"
        return Finding("assets", asset.name, "problem", what, f"remove {folder}, then {fetch}")
    return Finding("assets", asset.name, "ok", str(asset.path))


def _check_whole(file: Path) -> None:
    """Compare a file's size with what its header says; the content is not read."""
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, "numpy"):
            return
    if file.suffix == ".npy":
        import numpy as np

        np.load(file, mmap_mode="r", allow_pickle=False)
    elif not file.stat().st_size:
        raise OSError(f"{file.name} is empty")


def _extra(name: str) -> Finding:
    missing = []
    for each in packages.requirements(name):
        found = packages.find(each.name)
        if found is None or not each.specifier.contains(found.version, prereleases=True):
            missing.append(f"{each.name}{each.specifier}")
    if missing:
        return Finding("extras", name, "absent", f"lacks {', '.join(missing)}", f"pip install 'factlearn[{name}]'")
    return Finding("extras", name, "ok", "installed")
