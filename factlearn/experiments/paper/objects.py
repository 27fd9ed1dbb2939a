"""Object recognition (section 5.1): two tasks (Tables 1, 2), eight tasks (Table 6, Figure 5), one class to keep."""

from collections.abc import Mapping, Sequence
from statistics import mean

from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper.object_plots import accuracy_bars, drop_bars
from factlearn.experiments.paper.outcome import Entry, Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.learning.classes import test_predictions
from factlearn.lifelong.registry import METHODS

EIGHT = ("finetune", "lwf", "imm-mode", "si", "mas", "joint")
TWO = ("finetune", "lwf", "ebll", "imm-mode", "ewc", "si", "mas")
PAIRS = {
    "full": ("birds:scenes", "scenes:birds", "flowers:birds", "flowers:scenes"),
    "small": ("animals:travel", "travel:animals", "food:animals", "food:travel"),
}
"""The paper's four pairs, and those of emoji-8 that stand in for them, in the same order."""
CLASSES = {"full": ("passion flower",), "small": ("alien", "red heart", "smiling face with sunglasses")}
"""Classes of the first task whose memory is tested."""
PAPER_NAMES = {"imm-mode": "imm"}
PERCENT = 100.0


@experiment("objects-two-tasks", "Table 1", "Two object tasks: drop on the first, accuracy on the second", data=False)
def two_tasks(request: Request, outcome: Outcome) -> None:
    """Every method on four pairs of tasks."""
    outcome.setting = request.size(few_seeds(request))
    methods = request.chosen(TWO)
    learned = _pairs(request, {method: [f"strategy.name={method}"] for method in methods})
    outcome.tables += pair_tables(learned, "table-1", {method: PAPER_NAMES.get(method, method) for method in methods})
    drops = average_drops(learned)
    if {"mas", "finetune"} <= drops.keys():
        outcome.say("MAS forgets the least on average", min(drops, key=lambda m: drops[m]) == "mas",
                    ", ".join(f"{METHODS[m].title} {drop:.1f}" for m, drop in drops.items()) + " points")  # fmt: skip
        outcome.say("every method forgets less than FineTune", max(drops, key=lambda m: drops[m]) == "finetune",
                    f"FineTune {drops['finetune']:.1f} points, the others at most "
                    f"{max(d for m, d in drops.items() if m != 'finetune'):.1f}")  # fmt: skip
    outcome.notes.append(_tasks_note(request))


@experiment("objects-train-test", "Table 2", "Importance on training images, test images or both", data=False)
def train_test(request: Request, outcome: Outcome) -> None:
    """MAS and l-MAS on four pairs of tasks."""
    outcome.setting = request.size(few_seeds(request))
    rows = {
        f"{method} {source}": [f"strategy.name={method}", f"strategy.importance={source}"]
        for method in ("mas", "l-mas")
        for source in ("train", "test", "both")
    }
    learned = _pairs(request, rows)
    outcome.tables += pair_tables(learned, "table-2", {row: row for row in rows})
    drops = average_drops(learned)
    by_method = {
        method: [drops[row] for row in rows if row.startswith(f"{method} ") and row in drops]
        for method in ("mas", "l-mas")
    }
    for method, mine in by_method.items():
        if not mine:
            continue
        outcome.say(
            f"{METHODS[method].title}: it hardly matters which images importance is measured on (1 point at most)",
            max(mine) - min(mine) <= 1,
            ", ".join(f"{drop:.2f}" for drop in mine) + " points of drop",
        )
    if all(by_method.values()):
        whole, local = (mean(mine) for mine in by_method.values())
        figures = f"{local:.2f} and {whole:.2f} points; the paper 3 and 1"
        outcome.say("l-MAS forgets more than MAS", local > whole, figures)
    outcome.notes.append(_tasks_note(request))


def _pairs(request: Request, rows: Mapping[str, list[str]]) -> dict[str, dict[str, list[RunResult]]]:
    """By row and pair of tasks; empty where it diverged."""
    pairs = PAIRS[request.scale]
    overrides = {
        f"{row}/{pair}": [*sets, f"data.tasks=[{pair.replace(':', ', ')}]"]
        for row, sets in rows.items()
        for pair in pairs
    }
    learned = request.learn_objects("pairs", overrides, few_seeds(request))
    return {row: {pair: learned.get(f"{row}/{pair}", []) for pair in pairs} for row in rows}


def pair_tables(
    learned: Mapping[str, Mapping[str, Sequence[RunResult]]], table: str, names: Mapping[str, str]
) -> list[PaperTable]:
    """The first task's drop and the second task's accuracy, beside the paper's pairs in their order."""
    drops, accuracy = paper(table, "drop"), paper(table, "accuracy")
    lost: list[Entry] = []
    new: list[Entry] = []
    for row, pairs in learned.items():
        of_paper = names[row]
        method, _, images = row.partition(" ")
        title = f"{METHODS[method].title} {images}".strip()
        for place, (pair, group) in enumerate(pairs.items()):
            column = pair.replace(":", " → ")
            reported = drops[of_paper][place] if of_paper in drops else None
            second = accuracy[of_paper][place][1] if of_paper in accuracy else None
            lost.append(entry(title, column, reported, [_drop(result) for result in group]))
            new.append(entry(title, column, second, [_last(result) for result in group]))
        average = mean(drops[of_paper]) if of_paper in drops else None
        lost.append(entry(title, "average", average, [average_drops({row: pairs}).get(row)]))
    sequences = "; ".join(paper(table, "sequences"))
    note = f"the paper's four pairs: {sequences}"
    return [
        PaperTable("Drop of the first task, points", lost, digits=1, note=note),
        PaperTable("Accuracy on the second task, percent", new, digits=1, note=note),
    ]


def average_drops(learned: Mapping[str, Mapping[str, Sequence[RunResult]]]) -> dict[str, float]:
    """What the first task lost on average over the pairs, by row; of rows in which no pair diverged."""
    return {
        row: mean(_drop(each) for group in pairs.values() for each in group)
        for row, pairs in learned.items()
        if all(pairs.values())
    }


def _drop(result: RunResult) -> float:
    """What the first task lost, in points."""
    lost = result.forgetting()
    return PERCENT * lost.average if lost else 0.0


def _last(result: RunResult) -> float:
    return PERCENT * (result.matrix()[-1][-1] or 0.0)


@experiment(
    "objects-eight-tasks", "Table 6 and Figure 5", "Eight object tasks: final accuracy and drop of each", data=False
)
def eight_tasks(request: Request, outcome: Outcome) -> None:
    """Every method on the whole sequence."""
    learned = eight(request, request.chosen(EIGHT))
    accuracy, average = paper("table-6", "accuracy"), paper("table-6", "average")
    tasks = next(iter(learned.values()))[0].tasks
    entries = []
    for method, group in learned.items():
        name = PAPER_NAMES.get(method, method)
        for place, task in enumerate(tasks):
            reported = accuracy[name][place] if name in accuracy and len(tasks) == 8 else None
            values = [PERCENT * (result.matrix()[-1][place] or 0.0) for result in group]
            entries.append(entry(METHODS[method].title, task, reported, values))
        ends = [PERCENT * result.final.average for result in group]
        entries.append(entry(METHODS[method].title, "average", average.get(name), ends))
        lost = [PERCENT * found.average for result in group if (found := result.forgetting())]
        text = paper("table-6", "text")["average forgetting mas"] if method == "mas" else None
        entries.append(entry(METHODS[method].title, "forgetting", text, lost))
    note = "the paper's tasks: " + ", ".join(paper("table-6", "tasks"))
    outcome.tables.append(PaperTable("Accuracy at the end, percent", entries, digits=1, note=note))
    in_turn = {method: group for method, group in learned.items() if not group[0].at_once}
    outcome.plots += [accuracy_bars(learned), *([drop_bars(in_turn)] if in_turn else [])]
    means = {method: PERCENT * mean(result.final.average for result in group) for method, group in learned.items()}
    if {"mas", "si", "finetune"} <= means.keys():
        rivals = {m: v for m, v in means.items() if m not in ("mas", "joint")}
        best = max(rivals, key=lambda method: rivals[method])
        outcome.say("MAS has the best average of those that learn one by one", means["mas"] >= rivals[best],
                    f"MAS {means['mas']:.1f} %, next {METHODS[best].title} {rivals[best]:.1f} %")  # fmt: skip
        outcome.say("MAS is about 2 points above SI", means["mas"] > means["si"],
                    f"{means['mas']:.1f} and {means['si']:.1f} %; the paper 52.7 and 50.5")  # fmt: skip


def eight(request: Request, methods: Sequence[str]) -> dict[str, list[RunResult]]:
    """The eight tasks with every method, over the seeds; those that diverged are left out."""
    name = "emoji8" if request.scale == "small" else "eight"
    return request.learn_objects(name, {m: [f"strategy.name={m}"] for m in methods}, request.seeds)


@experiment(
    "objects-adaptation",
    "Section 5.1, adaptation test",
    "Importance on one class only, eight tasks",
    data=False,
)
def adaptation(request: Request, outcome: Outcome) -> None:
    """What the class and its task lose, and what the last task gains."""
    seeds = few_seeds(request)
    outcome.setting = request.size(seeds)
    rows = {name: ["strategy.name=mas", f'strategy.importance=["{name}"]'] for name in CLASSES[request.scale]}
    whole = {"whole": ["strategy.name=mas", "strategy.importance=train"]}
    learned = request.learn_objects("one_class", {**whole, **rows}, seeds)
    plain = {result.run.config.seed: _last(result) for result in learned.pop("whole", [])}
    entries: list[Entry] = []
    gains, kept, task = [], [], []
    for name, adapted in learned.items():
        lost_class = [PERCENT * _class_drop(result, name) for result in adapted]
        matrices = [result.matrix() for result in adapted]
        lost_task = [PERCENT * ((matrix[0][0] or 0.0) - (matrix[-1][0] or 0.0)) for matrix in matrices]
        last = {result.run.config.seed: _last(result) for result in adapted}
        reported = (paper("objects-adaptation", "forgetting"), paper("objects-adaptation", "last task"))
        entries += [
            entry(name, "the class lost, points", reported[0]["subset"], lost_class),
            entry(name, "its task lost, points", reported[0]["task"], lost_task),
            entry(name, "last task, percent", reported[1]["adapted"], list(last.values())),
            entry(name, "last task without adaptation, percent", reported[1]["not adapted"], list(plain.values())),
        ]
        kept += lost_class
        task += lost_task
        gains += [last[seed] - plain[seed] for seed in last.keys() & plain.keys()]
    outcome.tables.append(PaperTable("MAS with importance on one class", entries, digits=1))
    if gains:
        outcome.say("the class loses less than its task", mean(kept) < mean(task),
                    f"{mean(kept):.1f} and {mean(task):.1f} points; the paper 2 and 8")  # fmt: skip
        outcome.say("the last task is learned better than without adaptation", mean(gains) > 0,
                    f"by {mean(gains):.1f} points; the paper by 15")  # fmt: skip


def _class_drop(result: RunResult, name: str) -> float:
    """What one class's accuracy lost since its task was just learned."""
    place, label = result.run.data.find_class(name)
    labels = result.run.data.tasks[place].test.labels
    stages = (place + 1, len(result.learned))
    then, now = (test_predictions(result.run, stage)[place].class_accuracy(label, labels) for stage in stages)
    return float(then - now)


def few_seeds(request: Request) -> int:
    """One seed at small scale, where four pairs or three classes vary enough."""
    return 1 if request.scale == "small" else request.seeds


def _tasks_note(request: Request) -> str:
    pairs = ", ".join(pair.replace(":", " → ") for pair in PAIRS[request.scale])
    return f"Our pairs stand in for the paper's four in its order: {pairs}."
