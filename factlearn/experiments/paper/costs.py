"""What remembering costs and how firmly to hold on: memory (Figure 6), ℓ2 against vector output, λ (Figure 8)."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

from factlearn.evaluation.results import RunResult
from factlearn.experiments.cost_plots import draw_lambda
from factlearn.experiments.paper.object_plots import memory_lines
from factlearn.experiments.paper.objects import EIGHT, eight
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.lifelong.registry import METHODS

STRENGTHS = (0.001, 0.01, 0.0316, 0.1, 0.316, 1.0, 3.16, 10.0, 100.0)
PERCENT, KIBIBYTE = 100.0, 1024.0


def _lost(results: list[RunResult]) -> list[float]:
    return [PERCENT * found.average for result in results if (found := result.forgetting())]


@experiment("lambda", "Figure 8", "How the result depends on λ, five tasks of permuted digits", data=False)
def strength(request: Request, outcome: Outcome) -> None:
    """Average accuracy and forgetting of MAS over the strength of its penalty."""
    rows: list[list[Any]] = []
    entries = []
    sweep = {f"{value:g}": ["strategy.name=mas", f"strategy.lambda={value:g}"] for value in STRENGTHS}
    for value, results in request.learn_objects("permuted", sweep, request.seeds).items():
        averages, lost = [PERCENT * result.final.average for result in results], _lost(results)
        entries += [entry(f"λ = {value}", "average accuracy, %", None, averages)]
        entries += [entry(f"λ = {value}", "average forgetting, points", None, lost)]
        rows.append(["MAS", float(value), mean(averages), mean(lost)])
    outcome.tables.append(PaperTable("MAS on five permuted tasks", entries, digits=1))
    outcome.plots.append(draw_lambda(rows, ("average accuracy", "average forgetting"), "percent"))
    best = max(rows, key=lambda row: row[2])
    near = [row[2] for row in rows if best[1] / 3.5 <= row[1] <= best[1] * 3.5]
    around = [row[2] for row in rows if 0.3 <= row[1] <= 3.5]
    outcome.say("within half a decade of the best λ the average moves little (10 points at most)",
                max(near) - min(near) <= 10,
                f"best λ {best[1]:g} with {best[2]:.1f} %; {min(near):.1f} to {max(near):.1f} around it")  # fmt: skip
    if around:
        outcome.say("around λ = 1 the average moves little (10 points at most)", max(around) - min(around) <= 10,
                    f"{min(around):.1f} to {max(around):.1f} % from λ = 0.316 to 3.16")  # fmt: skip
    outcome.notes.append(f"The paper, on MNIST: {paper('figure-8', 'says')}")


@experiment("l2-vector", "Section 5.1, ℓ2 against vector output", "One backward pass, or one per output", data=False)
def l2_vector(request: Request, outcome: Outcome) -> None:
    """What the first of two permuted tasks loses, with either importance; six sequences."""
    reported: dict[str, list[float]] = paper("l2-vector", "drop")
    lost: dict[str, list[float]] = {}
    entries = []
    rows = {method: [f"strategy.name={method}", "data.count=2"] for method in ("mas", "mas-vector")}
    for method, results in request.learn_objects("permuted", rows, 2 * request.seeds).items():
        lost[method] = _lost(results)
        second = [PERCENT * (result.matrix()[-1][1] or 0.0) for result in results]
        entries += [
            entry(METHODS[method].title, "drop of the first task, points", reported[method][0], lost[method]),
            entry(METHODS[method].title, "accuracy on the second, %", None, second),
        ]
    outcome.tables.append(PaperTable("Two permuted tasks", entries, digits=2))
    if len(lost) == len(rows):
        gap = abs(mean(lost["mas"]) - mean(lost["mas-vector"]))
        outcome.say("the norm loses nothing against the whole vector (1 point at most)", gap <= 1,
                    f"the drops differ by {gap:.2f} points; the norm needs 1 backward pass, the vector 10")  # fmt: skip


@experiment("memory", "Figure 6 and appendix", "Memory while training and between tasks, measured", data=False)
def memory(request: Request, outcome: Outcome) -> None:
    """Bytes that each method holds, excluding the network: eight object tasks step by step, every method on digits."""
    objects = {m: group for m, group in eight(request, EIGHT).items() if m != "joint"}
    outcome.plots.append(memory_lines(objects))
    steps = [
        entry(METHODS[method].title, f"{words} {step}, MB", None, [group[0].memory[step - 1][key] / 1e6])
        for method, group in objects.items()
        for step in (1, len(group[0].memory))
        for key, words in (("training_bytes", "training task"), ("stored_bytes", "kept after task"))
    ]
    network = next(iter(objects.values()))[0].memory[-1]["model_bytes"] / 1e6
    outcome.tables.append(
        PaperTable(f"Eight object tasks, excluding the network's own {network:.0f} MB", steps, digits=1)
    )
    every = {name: [f"strategy.name={name}"] for name, each in METHODS.items() if "classes" in each.problems}
    every.pop("joint")
    held = {method: group[0].memory[-1] for method, group in request.learn_objects("permuted", every, 1).items()}
    entries = [
        entry(METHODS[method].title, words, None, [each[key] / KIBIBYTE])
        for method, each in held.items()
        for key, words in (("training_bytes", "while training, KiB"), ("stored_bytes", "between tasks, KiB"))
    ]
    own = next(iter(held.values()))["model_bytes"] / KIBIBYTE
    outcome.tables.append(
        PaperTable(f"Five permuted tasks, excluding the network's own {own:,.0f} KiB", entries, digits=0)
    )
    if {"mas", "si"} <= held.keys():
        _memory_statements(outcome, held)
    outcome.notes.append(f"The paper, on eight object tasks: {paper('figure-6', 'says')}")
    outcome.notes.append("IMM here keeps running sums instead of every model, so that its storage does not grow.")


def _memory_statements(outcome: Outcome, held: Mapping[str, Mapping[str, int]]) -> None:
    total = {method: each["training_bytes"] + each["stored_bytes"] for method, each in held.items()}
    least = min((method for method in total if method != "finetune"), key=lambda method: total[method])
    outcome.say(
        "after FineTune, MAS needs the least memory",
        least == "mas",
        f"{METHODS[least].title} with {total[least] / KIBIBYTE:.0f} KiB in all, MAS {total['mas'] / KIBIBYTE:.0f} KiB",
    )
    si, mas = held["si"], held["mas"]
    outcome.say(
        "SI needs more than MAS while training and the same between tasks",
        si["training_bytes"] > mas["training_bytes"] and si["stored_bytes"] == mas["stored_bytes"],
        f"{si['training_bytes'] / KIBIBYTE:.0f} and {mas['training_bytes'] / KIBIBYTE:.0f} KiB while training",
    )
