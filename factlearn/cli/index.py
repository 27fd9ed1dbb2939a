"""Commands that build indexes, change them and look after them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from factlearn.cli.collection import relocate, say_what_moved, sync, watch
from factlearn.cli.common import JsonOption, RunArgument, show, show_json
from factlearn.cli.index_options import (
    EachOption,
    IndexArgument,
    ProcessesOption,
    RayOption,
    RunOption,
    SkipOption,
    StageOption,
    open_run,
)

__all__ = ["IndexArgument", "RunOption", "app"]

app = typer.Typer(help="Build and maintain the image indexes that `factlearn query` searches.", no_args_is_help=True)

_run = open_run
app.command()(sync)
app.command()(watch)
app.command()(relocate)


@app.command()
def build(
    run: RunArgument,
    out: Annotated[str, typer.Option(help="The index to create, such as indexes/photos or milvus://host:port/photos.")],
    images: Annotated[
        str, typer.Option(help="A folder, a tar, s3://…, a manifest, or the run's own images: test, train or all.")
    ] = "test",
    stage: StageOption = None,
    skip_unreadable: SkipOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing index.")] = False,
    processes: ProcessesOption = 1,
    ray: RayOption = None,
    learn_importance: Annotated[
        bool,
        typer.Option(
            "--learn-importance",
            help="Add these images' importance to the run, for `factlearn adapt --used`.",
        ),
    ] = False,
) -> None:
    """Embed images with a run's model and index them."""
    from factlearn.learning.runs import Run

    opened = Run.of_facts(run)
    from factlearn.indexing.building import build_index

    index = build_index(
        opened,
        images,
        out,
        stage=stage,
        skip_unreadable=skip_unreadable,
        overwrite=overwrite,
        processes=processes,
        ray=ray,
    )
    if learn_importance:
        _learn_importance(opened, index.paths)
    print(f'{index.path}: {len(index)} images; try: factlearn query {index.path} "<person, riding, *>"')


@app.command()
def add(
    index: IndexArgument,
    images: Annotated[
        str, typer.Argument(help="A folder, tar, s3://…, manifest, image, or the run's test, train or all.")
    ],
    run: RunOption = None,
    stage: StageOption = None,
    skip_unreadable: SkipOption = False,
    processes: ProcessesOption = 1,
    ray: RayOption = None,
    learn_importance: Annotated[
        bool,
        typer.Option(
            "--learn-importance", help="Add the new images' importance to the run, for `factlearn adapt --used`."
        ),
    ] = False,
) -> None:
    """Add images to an index; embeds only new or changed ones."""
    from factlearn.retrieval import FactIndex

    opened, source = FactIndex.open(index), _run(run)
    from factlearn.indexing.building import add_images, run_of

    report = add_images(
        opened, images, source, stage=stage, skip_unreadable=skip_unreadable, processes=processes, ray=ray
    )
    if learn_importance:
        fresh = {*report.new, *report.changed}
        _learn_importance(run_of(opened, source), [Path(i["path"]) for i in opened.items() if i["id"] in fresh])
    print(
        f"{opened.path}: {len(report.new)} new, {len(report.changed)} changed, {report.unchanged} unchanged, "
        f"{report.moved} moved, {report.duplicates} duplicates, {report.skipped} skipped; {len(opened)} images"
    )
    say_what_moved(opened)


@app.command()
def remove(
    index: IndexArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of images to remove.")] = None,
    pattern: Annotated[str | None, typer.Option(help='Remove ids that match, such as "holiday/*".')] = None,
    where: Annotated[
        str | None, typer.Option(help="Remove images that match a filter, such as \"split = 'test'\".")
    ] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Remove images whose files are gone.")] = False,
) -> None:
    """Remove images from an index."""
    from factlearn import places
    from factlearn.errors import FactIndexError
    from factlearn.retrieval import FactIndex

    if not (ids or pattern or where or missing):
        raise FactIndexError("Say which images to remove: ids, --pattern, --where or --missing.")
    opened = FactIndex.open(index)
    chosen = set(ids or ())
    unknown = sorted(chosen - set(opened.ids))
    if unknown:
        raise FactIndexError(f"{opened.path} holds no image {unknown[0]!r}.")
    if missing:
        chosen |= {item["id"] for item in opened.items() if places.is_gone(item["path"])}
    count = opened.remove(chosen, pattern=pattern, where=where)
    print(f"{opened.path}: {count} removed, {len(opened)} images left")


@app.command()
def info(index: IndexArgument, json: JsonOption = False) -> None:
    """Show an index's contents, the models that embedded it, and how it is searched."""
    from factlearn.cli.tables.index import index_info, index_table
    from factlearn.retrieval import FactIndex

    about = index_info(FactIndex.open(index))
    if json:
        show_json(about)
    else:
        show(index_table(about))


@app.command()
def verify(index: IndexArgument) -> None:
    """Check every file of an index against its checksum."""
    from factlearn.errors import FactIndexError
    from factlearn.retrieval import store_at

    store = store_at(index)
    problems = [str(problem) for problem in store.verify(index)]
    if problems:
        raise FactIndexError("\n".join(problems))
    print(f"{store.shown(index)}: no damage found")


@app.command()
def optimize(
    index: IndexArgument,
    target_recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the exact top ten that must be found, 0 to 1.")
    ] = 0.95,
    memory: Annotated[str | None, typer.Option(help="Memory limit for searching, such as 2GB.")] = None,
    kinds: Annotated[str, typer.Option(help="Search structures to try, comma-separated.")] = "flat,pq,ivf,hnsw",
) -> None:
    """Measure search structures and switch to the fastest one that reaches the target recall."""
    from factlearn.cli.tables.index import trials_table
    from factlearn.progress import say
    from factlearn.retrieval import FactIndex

    chosen = [kind.strip() for kind in kinds.split(",")]
    trials = FactIndex.open(index).optimize(target_recall=target_recall, memory=_bytes(memory), kinds=chosen, say=say)
    show(trials_table(trials))


@app.command()
def drift(
    index: IndexArgument,
    run: RunOption = None,
    stage: StageOption = None,
    sample: EachOption = 5,
    json: JsonOption = False,
) -> None:
    """Show how far vectors would move under a run's newest model, and how that changes MAP."""
    from factlearn.retrieval import FactIndex

    opened, source = FactIndex.open(index), _run(run)
    from factlearn.cli.tables.index import drift_table
    from factlearn.indexing.refreshing import measure

    found = measure(opened, source, stage=stage, each=sample)
    if json:
        show_json(found.to_json())
    else:
        show(drift_table(found))


@app.command()
def refresh(
    index: IndexArgument,
    run: RunOption = None,
    stage: StageOption = None,
    policy: Annotated[
        Literal["drift", "all", "repair"],
        typer.Option(help="What to re-embed: facts that a sample shows to gain, all older vectors, or only damage."),
    ] = "drift",
    sample: EachOption = 5,
) -> None:
    """Repair an index from its images, and re-embed what a run's newest model improves."""
    source = _run(run)
    from factlearn.indexing.refreshing import refresh as refresh_index
    from factlearn.retrieval import FactIndex, store_at

    done = refresh_index(index, source, policy=policy, stage=stage, each=sample)
    print(
        f"{store_at(index).shown(index)}: {done.repaired} repaired, {done.embedded} re-embedded, {done.kept} kept, "
        f"{len(done.missing)} missing"
    )
    if done.missing:
        say_what_moved(FactIndex.open(index))


@app.command()
def export(
    index: IndexArgument,
    out: Annotated[Path, typer.Argument(help="The file to write: .parquet or .faiss.")],
) -> None:
    """Export an index to one file, for other programs."""
    from factlearn.retrieval import FactIndex
    from factlearn.retrieval.export import export as export_index

    opened = FactIndex.open(index)
    export_index(opened, out)
    print(f"{out}: {len(opened)} images")


@app.command()
def upgrade(index: IndexArgument) -> None:
    """Convert an index in an older format to the current one."""
    from factlearn.retrieval import store_at

    store = store_at(index)
    print(f"{store.shown(index)}: {'brought' if store.upgrade(index) else 'is'} up to date")


@app.command()
def copy(
    source: IndexArgument,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The index to create: a folder, or milvus://host:port/collection.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing index.")] = False,
) -> None:
    """Copy an index to another place or store, such as from a folder to a Milvus server and back."""
    from factlearn.retrieval import FactIndex
    from factlearn.retrieval.copying import copy as copy_index

    made = copy_index(FactIndex.open(source), target, overwrite=overwrite)
    print(f"{made.path}: {len(made)} images")


def _learn_importance(run, paths: list[Path]) -> None:  # type: ignore[no-untyped-def]
    from factlearn.learning.adaptation import learn_from_use

    learned = learn_from_use(run, paths)
    print(f"{run.folder}: importance gathered from {learned.count:.0f} images in use")


def _bytes(text: str | None) -> int | None:
    """A size such as 500MB or 2GiB in bytes."""
    import re

    from factlearn.errors import FactIndexError

    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if not found:
        raise FactIndexError(f"{text!r} is not a size; write for example 500MB or 2GB.")
    base = 1024 if found[3] else 1000
    power = " kmgt".index(found[2].lower() or " ")
    return int(float(found[1]) * base**power)
