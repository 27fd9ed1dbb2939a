"""The paper's regime: pretrained convolutions that learn, beside the same network with them frozen.

Every method runs in both regimes, with the lambda that `factlearn tune --rule end` found for it in each; the configs in
`configs/learning` hold them, with the command that found them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from factlearn.config import shipped
from factlearn.evaluation.results import RunResult
from factlearn.experiments.comparison import gap_closed
from factlearn.experiments.paper.cells import Cell
from factlearn.experiments.paper.objects import average_drops, pair_tables
from factlearn.experiments.paper.outcome import Entry, Outcome, PaperTable, entry
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.learning.config import RunConfig, load_config
from factlearn.lifelong.registry import METHODS

EVERY = ("finetune", "lwf", "ebll", "imm-mean", "imm-mode", "ewc", "si", "l-mas", "mas", "ridge", "drift", "joint")
OURS = ("finetune", "mas", "ridge", "drift", "joint")
REGIMES = {"learning": "full", "frozen": "frozen"}
"""What the convolutions do, and the scale of the configs that stands for it."""
FROZEN_SEEDS = 1
"""Frozen convolutions are there for comparison; `objects-eight-tasks` has them at a larger scale with all seeds."""
PAIRS = {
    "emoji": ("animals:travel", "travel:animals", "food:animals", "food:travel"),
    "folder": ("cub:scenes", "scenes:cub", "flowers:cub", "flowers:scenes"),
}
RIVALS = ("si", "lwf", "ewc")
"""What the paper has MAS above."""
_PERCENT = 100.0
Learned = dict[str, dict[str, list[RunResult]]]


@experiment("learning-objects", "Table 6, its regime", "Object tasks with convolutions that learn", folder=True)
def objects(request: Request, outcome: Outcome) -> None:
    """Every method on the long sequence: emoji-8, or a folder of object tasks."""
    _objects(request, outcome, {"learning": request.seeds})


@experiment(
    "learning-frozen", "Table 6, two regimes", "Object tasks: convolutions that learn against frozen ones", folder=True
)
def objects_in_both_regimes(request: Request, outcome: Outcome) -> None:
    """The same beside the same network with its convolutions frozen, which is quick."""
    _objects(request, outcome, {"learning": request.seeds, "frozen": min(FROZEN_SEEDS, request.seeds)})


def _objects(request: Request, outcome: Outcome, regimes: Mapping[str, int]) -> None:
    outcome.setting = f"{_object_data(request)}, {request.size(request.seeds)}"
    methods, sets = request.chosen(EVERY), _object_sets(request)
    learned = _learn(request, _object_config(request), methods, sets, _object_data(request), regimes)
    outcome.tables.append(regime_table(learned, "Average accuracy at the end, percent", _PERCENT, 1))
    for regime, found in learned.items():
        statements(outcome, regime, found, _PERCENT)
    outcome.notes.append(f"Tasks: {', '.join(next(iter(learned['learning'].values()))[0].tasks)}.")


@experiment(
    "learning-pairs",
    "Table 1, its regime",
    "Two object tasks, convolutions learning: drop on the first",
    folder=True,
)
def pairs(request: Request, outcome: Outcome) -> None:
    """Every method on four pairs of tasks; one seed, since the pairs vary enough."""
    outcome.setting = f"{_object_data(request)}, {request.size(1)}"
    methods = [method for method in request.chosen(EVERY) if method != "joint"]
    group = request.out / "learning" / f"pairs-{_object_data(request)}"
    cells = {
        f"{method}/{pair}": [_cell(group, _object_config(request), method, "learning", 0, [*_root(request), tasks])]
        for method in methods
        for pair in PAIRS["emoji" if request.data == "emoji" else "folder"]
        for tasks in [f"data.tasks=[{pair.replace(':', ', ')}]"]
    }
    found = request.learn_groups(cells)
    learned: Learned = {method: {} for method in methods}
    for name, results in found.items():
        method, _, pair = name.partition("/")
        learned[method][pair] = results
    names = {method: {"imm-mode": "imm"}.get(method, method) for method in methods}
    outcome.tables += pair_tables(learned, "table-1", names)
    drops = average_drops(learned)
    rivals = {m: drop for m, drop in drops.items() if m not in ("mas", "ridge", "drift")}
    if "mas" in drops and rivals:
        least = min(rivals, key=lambda method: rivals[method])
        outcome.say("MAS forgets the least of the paper's methods", drops["mas"] <= rivals[least],
                    f"MAS {drops['mas']:.1f} points, next {METHODS[least].title} {rivals[least]:.1f}")  # fmt: skip


KINDS = {"random": "random tasks", "agglomerative": "tasks by meaning"}


@experiment("learning-facts", "Table 4, its regime", "Four random tasks of facts with convolutions that learn")
def facts(request: Request, outcome: Outcome) -> None:
    """Every method, facts read out by distance as in the paper."""
    _facts(request, outcome, "facts", ["random"], EVERY)


@experiment("learning-facts-meaning", "Table 4, its regime", "Four tasks of facts by meaning, convolutions learning")
def facts_by_meaning(request: Request, outcome: Outcome) -> None:
    """Every method, facts read out by distance as in the paper."""
    _facts(request, outcome, "facts", ["agglomerative"], EVERY)


@experiment("learning-vgg16", "Table 4, its network", "Four random tasks of facts, all of VGG-16 learning")
def facts_with_vgg16(request: Request, outcome: Outcome) -> None:
    """Every method on the paper's own network, every layer of which learns; few facts, since two cores must do."""
    _facts(request, outcome, "vgg16", ["random"], EVERY)


@experiment(
    "learning-posterior", "Table 4, our readout", "Four tasks of facts, posterior readout, convolutions learning"
)
def posterior(request: Request, outcome: Outcome) -> None:
    """What closes the gap between FineTune and Joint where facts are read out by their posterior."""
    _facts(request, outcome, "posterior", list(KINDS), OURS)


def _facts(request: Request, outcome: Outcome, name: str, kinds: Sequence[str], methods: Sequence[str]) -> None:
    config = load_config(shipped(f"learning/{name}.yaml"))
    for kind in kinds:
        sets = [*_own_facts(request, config.data), f"tasks.method={kind}"]
        group = f"{name}-{request.data_name}-{kind}"
        learned = _learn(request, name, request.chosen(methods), sets, group, {"learning": request.seeds})
        outcome.tables.append(regime_table(learned, f"Four {KINDS[kind]}, MAP at the end", 1.0, 3))
        statements(outcome, KINDS[kind], learned["learning"], 1.0)
    outcome.notes.append(
        f"{config.data.facts} of the facts, at most {config.data.images} training images each, "
        f"{config.model.network.title} at {config.model.image_size} pixels."
    )


def _own_facts(request: Request, data: Any) -> list[str]:
    """The data, if it is a manifest: as many facts and images as the config asks for."""
    if request.data == "emoji":
        return []
    path = Path(request.data).resolve()
    size = f"facts: {data.facts}, images: {data.images}"
    return [f"data={{source: manifest, manifest: '{path}', {size}}}", "model.fit=crop"]


def _learn(
    request: Request,
    name: str,
    methods: Sequence[str],
    sets: Sequence[str],
    group: str,
    regimes: Mapping[str, int],
) -> Learned:
    """By regime and method, over the seeds."""
    folder = request.out / "learning" / group
    cells = {
        f"{regime}/{method}": [_cell(folder, name, method, regime, seed, sets) for seed in range(seeds)]
        for regime, seeds in regimes.items()
        for method in methods
    }
    learned: Learned = {regime: {} for regime in regimes}
    for key, results in request.learn_groups(cells).items():
        regime, _, method = key.partition("/")
        learned[regime][method] = results
    return learned


def _cell(folder: Path, name: str, method: str, regime: str, seed: int, sets: Sequence[str]) -> Cell:
    scale = [f"scale={REGIMES[regime]}"] if regime != "learning" else []
    path = shipped(f"learning/{name}.yaml")
    config: RunConfig = load_config(path, [*scale, f"strategy.name={method}", f"seed={seed}", *sets])
    return Cell.named(folder / regime, config)


def _object_config(request: Request) -> str:
    return "emoji8" if request.data == "emoji" else "objects"


def _object_data(request: Request) -> str:
    return "emoji-8" if request.data == "emoji" else Path(request.data).absolute().name


def _root(request: Request) -> list[str]:
    return [] if request.data == "emoji" else [f"data.root={Path(request.data).resolve()}"]


def _object_sets(request: Request) -> list[str]:
    """Where the tasks are; all of a folder's, if it lacks one that the config names."""
    root = _root(request)
    if not root:
        return []
    named = load_config(shipped("learning/objects.yaml"), root).data.tasks or ()
    there = all((Path(request.data) / name).is_dir() for name in named)
    return root if there else [*root, "data.tasks=null"]


def regime_table(learned: Learned, title: str, scale: float, digits: int) -> PaperTable:
    """Each method's end, share of the FineTune–Joint gap and forgetting, in each regime side by side."""
    entries: list[Entry] = []
    for method in dict.fromkeys(method for methods in learned.values() for method in methods):
        for regime, methods in learned.items():
            results = methods.get(method, [])
            row = METHODS[method].title
            entries.append(entry(row, regime, None, [scale * (result.whole()[-1] or 0.0) for result in results]))
            if results and {"finetune", "joint"} <= methods.keys():
                low, high = (mean(_ends(methods[each])) for each in ("finetune", "joint"))
                share = gap_closed(mean(_ends(results)), low, high)
                gap = None if share is None else scale * share
                entries.append(Entry(row, f"{regime}: gap closed{', %' if scale == _PERCENT else ''}", None, gap))
            lost = [scale * found.average for result in results if (found := result.forgetting())]
            entries.append(entry(row, f"{regime}: forgetting", None, lost))
    return PaperTable(title, entries, digits=digits, note="mean ± deviation over seeds")


def _ends(results: Sequence[RunResult]) -> list[float]:
    return [result.whole()[-1] or 0.0 for result in results]


def statements(outcome: Outcome, where: str, methods: Mapping[str, Sequence[RunResult]], scale: float) -> None:
    """What the paper orders, with deviations; not said where the means differ by less than theirs."""
    ends = {method: [scale * end for end in _ends(results)] for method, results in methods.items()}
    digits = 1 if scale == _PERCENT else 3
    for one, other in [*(("mas", rival) for rival in (*RIVALS, "finetune")), ("drift", "mas"), ("drift", "ridge")]:
        if {one, other} <= ends.keys():
            text = " and ".join(_spread(ends[each], digits) for each in (one, other))
            outcome.say(f"{where}: {METHODS[one].title} above {METHODS[other].title}",
                        clearly_above(ends[one], ends[other]), text)  # fmt: skip


def clearly_above(one: Sequence[float], other: Sequence[float]) -> bool | None:
    """Whether one mean is above the other; None if they differ by less than the larger deviation, or for one seed."""
    if min(len(one), len(other)) < 2:
        return None
    difference = mean(one) - mean(other)
    return None if abs(difference) <= max(stdev(one), stdev(other)) else difference > 0


def _spread(values: Sequence[float], digits: int) -> str:
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"
