"""Commands that keep an index in sync with a folder of images: sync, watch, relocate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from factlearn.cli.common import JsonOption, show_json
from factlearn.cli.index_options import IndexArgument, ProcessesOption, RayOption, RunOption, StageOption

if TYPE_CHECKING:
    from factlearn.retrieval import FactIndex

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of images.")]


def sync(
    index: IndexArgument,
    folder: FolderArgument,
    run: RunOption = None,
    stage: StageOption = None,
    processes: ProcessesOption = 1,
    ray: RayOption = None,
    json: JsonOption = False,
) -> None:
    """Bring an index up to date with a folder: add new images, update changed ones, remove those that are gone.

    Renamed and moved files keep their vectors; copies are not indexed twice; unreadable files are named and skipped.
    """
    _sync(index, folder, run, stage, processes, ray, json)


def watch(
    index: IndexArgument,
    folder: FolderArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between syncs.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Sync once and stop, as `factlearn index sync` does.")] = False,
    run: RunOption = None,
    stage: StageOption = None,
    processes: ProcessesOption = 1,
    ray: RayOption = None,
    json: JsonOption = False,
) -> None:
    """Sync an index with a folder repeatedly, until Ctrl-C."""
    import time

    while True:
        _sync(index, folder, run, stage, processes, ray, json)
        if once:
            return
        time.sleep(every)


def _sync(
    index: str, folder: Path, run: Path | None, stage: int | None, processes: int, ray: str | None, json: bool
) -> None:
    from factlearn.cli.index_options import open_run
    from factlearn.retrieval import FactIndex

    opened, source = FactIndex.open(index), open_run(run)
    from factlearn.indexing.syncing import sync as sync_index

    done = sync_index(opened, folder, source, stage=stage, processes=processes, ray=ray)
    if json:
        show_json(done.to_json())
    else:
        print(f"{opened.path}: {done}", flush=True)


def relocate(
    index: IndexArgument,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder the images were in.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder they are in now.")],
) -> None:
    """Update paths after a folder of images was moved; only files with the same content are updated."""
    from factlearn.data.checking import listed
    from factlearn.progress import say
    from factlearn.retrieval import FactIndex

    opened = FactIndex.open(index)
    from factlearn.indexing.relocating import relocate as relocate_images

    done = relocate_images(opened, old, new)
    left = [f"{path} does not exist" for path in done.missing]
    left += [f"{path} has other content" for path in done.different]
    if left:
        say(f"{len(left)} images keep their old paths; `factlearn index sync` indexes what is there now:{listed(left)}")
    print(f"{opened.path}: {done.relocated} relocated, {len(done.missing)} missing, {len(done.different)} different")


def say_what_moved(index: "FactIndex") -> None:
    """Suggest `relocate` if every image of a folder is gone."""
    from factlearn.indexing.relocating import advice
    from factlearn.progress import say

    for sentence in advice(index):
        say(sentence)
