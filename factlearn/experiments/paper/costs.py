"""What remembering costs and how firmly to hold on: memory (Figure 6), ℓ2 against vector output, λ (Figure 8)."""

import time
from collections.abc import Callable
from statistics import mean
from typing import Any

from factlearn.errors import ModelError
from factlearn.experiments.cost_plots import draw_lambda
from factlearn.experiments.digits import METHODS, DigitsResult, learn_digits
from factlearn.experiments.naming import TITLES
from factlearn.experiments.paper.object_plots import memory_lines
from factlearn.experiments.paper.objects import EIGHT, eight
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.files import fingerprint, write_json
from factlearn.progress import progress

STRENGTHS = (0.001, 0.01, 0.0316, 0.1, 0.316, 1.0, 3.16, 10.0, 100.0)
KILOBYTE = 1024.0


def digits_cell(request: Request, method: str, seed: int, **settings: Any) -> DigitsResult:
    """A sequence of permuted digits, learned once and kept as JSON."""
    import json

    key = fingerprint(method, METHODS[method], seed, settings)
    path = request.out / "digits" / f"{method}-{seed}-{key}.json"
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
    else:
        started = time.monotonic()
        result = learn_digits(method, seed, **settings)
        kept = {
            "accuracy": result.accuracy,
            "training_bytes": result.training_bytes,
            "stored_bytes": result.stored_bytes,
            "seconds": time.monotonic() - started,
        }
        write_json(path, kept)
    request.other_seconds += kept.pop("seconds")
    request.other_runs += 1
    kept["accuracy"] = tuple(map(tuple, kept["accuracy"]))
    return DigitsResult(**kept)


def _swept(what: str, cells: list[Callable[[], DigitsResult]]) -> list[DigitsResult | None]:
    """Learn cells with one progress bar; None where learning diverged."""
    results: list[DigitsResult | None] = []
    with progress(what, len(cells)) as advance:
        for cell in cells:
            try:
                results.append(cell())
            except ModelError:
                results.append(None)
            advance(1)
    return results


@experiment("lambda", "Figure 8", "How the result depends on λ, five tasks of permuted digits", data=False)
def strength(request: Request, outcome: Outcome) -> None:
    """Average accuracy and forgetting of MAS over the strength of its penalty."""
    seeds = range(request.seeds)
    cells: list[Callable[[], DigitsResult]] = [
        lambda value=value, seed=seed: digits_cell(request, "mas", seed, **{"lambda": value})  # type: ignore[misc]
        for value in STRENGTHS
        for seed in seeds
    ]
    results = _swept("permuted digits over lambda", cells)
    rows: list[list[Any]] = []
    entries = []
    for place, value in enumerate(STRENGTHS):
        group = [result for result in results[place * len(seeds) : (place + 1) * len(seeds)] if result]
        averages, lost = [r.average for r in group], [r.forgetting for r in group]
        entries += [entry(f"λ = {value:g}", "average accuracy, %", None, averages)]
        entries += [entry(f"λ = {value:g}", "average forgetting, points", None, lost)]
        rows.append(["MAS", value, mean(averages), mean(lost)])
    outcome.tables.append(PaperTable("MAS on five permuted tasks", entries, digits=1))
    outcome.plots.append(draw_lambda(rows, ("average accuracy", "average forgetting"), "percent"))
    best = max(rows, key=lambda row: row[2])
    near = [row[2] for row in rows if best[1] / 3.5 <= row[1] <= best[1] * 3.5]
    around = [row[2] for row in rows if 0.3 <= row[1] <= 3.5]
    outcome.say("within half a decade of the best λ the average moves little (10 points at most)",
                max(near) - min(near) <= 10,
                f"best λ {best[1]:g} with {best[2]:.1f} %; {min(near):.1f} to {max(near):.1f} around it")  # fmt: skip
    outcome.say("around λ = 1 the average moves little (10 points at most)", max(around) - min(around) <= 10,
                f"{min(around):.1f} to {max(around):.1f} % from λ = 0.316 to 3.16")  # fmt: skip
    outcome.notes.append(f"The paper, on MNIST: {paper('figure-8', 'says')}")


@experiment("l2-vector", "Section 5.1, ℓ2 against vector output", "One backward pass or one an output", data=False)
def l2_vector(request: Request, outcome: Outcome) -> None:
    """What the first of two permuted tasks loses, with either importance; six sequences."""
    reported: dict[str, list[float]] = paper("l2-vector", "drop")
    seeds = range(2 * request.seeds)
    lost: dict[str, list[float]] = {}
    entries = []
    for method in ("mas", "mas-vector"):
        cells: list[Callable[[], DigitsResult]] = [
            lambda method=method, seed=seed: digits_cell(request, method, seed, tasks=2)  # type: ignore[misc]
            for seed in seeds
        ]
        results = [result for result in _swept(f"two permuted tasks, {method}", cells) if result]
        lost[method] = [result.forgetting for result in results]
        entries += [
            entry(TITLES[method], "drop of the first task, points", reported[method][0], lost[method]),
            entry(TITLES[method], "accuracy on the second, %", None, [result.accuracy[-1][1] for result in results]),
        ]
    outcome.tables.append(PaperTable("Two permuted tasks", entries, digits=2))
    gap = abs(mean(lost["mas"]) - mean(lost["mas-vector"]))
    outcome.say("the norm loses nothing against the whole vector (1 point at most)", gap <= 1,
                f"the drops differ by {gap:.2f} points; the norm needs 1 backward pass, the vector 10")  # fmt: skip


@experiment("memory", "Figure 6 and appendix", "Memory while training and between tasks, measured", data=False)
def memory(request: Request, outcome: Outcome) -> None:
    """Bytes that each method holds beside the network: eight object tasks step by step, and every method on digits."""
    objects = {m: group for m, group in eight(request, EIGHT).items() if m != "joint"}
    outcome.plots.append(memory_lines(objects))
    steps = []
    for method, group in objects.items():
        for step in (1, len(group[0].memory)):
            held = group[0].memory[step - 1]
            steps.append(entry(TITLES[method], f"training task {step}, MB", None, [held["training_bytes"] / 1e6]))
            steps.append(entry(TITLES[method], f"kept after task {step}, MB", None, [held["stored_bytes"] / 1e6]))
    network = next(iter(objects.values()))[0].memory[-1]["model_bytes"] / 1e6
    outcome.tables.append(PaperTable(f"Eight object tasks, beside the network's own {network:.0f} MB", steps, digits=1))
    cells: list[Callable[[], DigitsResult]] = [
        lambda method=method: digits_cell(request, method, 0)  # type: ignore[misc]
        for method in METHODS
        if method != "joint"
    ]
    names = [method for method in METHODS if method != "joint"]
    results = {m: r for m, r in zip(names, _swept("permuted digits", cells), strict=True) if r}
    entries = []
    for method, result in results.items():
        entries.append(entry(TITLES[method], "while training, KiB", None, [result.training_bytes / KILOBYTE]))
        entries.append(entry(TITLES[method], "between tasks, KiB", None, [result.stored_bytes / KILOBYTE]))
    outcome.tables.append(PaperTable("Beside the network's own 1,176 KiB, five permuted tasks", entries, digits=0))
    total = {method: result.training_bytes + result.stored_bytes for method, result in results.items()}
    least = min((method for method in total if method != "finetune"), key=lambda method: total[method])
    outcome.say(
        "after FineTune, MAS needs the least memory",
        least == "mas",
        f"least: {TITLES[least]} with {total[least] / KILOBYTE:.0f} KiB in all, MAS {total['mas'] / KILOBYTE:.0f} KiB",
    )
    si, mas = results["si"], results["mas"]
    outcome.say(
        "SI needs more than MAS while training and the same between tasks",
        si.training_bytes > mas.training_bytes and si.stored_bytes == mas.stored_bytes,
        f"{si.training_bytes / KILOBYTE:.0f} and {mas.training_bytes / KILOBYTE:.0f} KiB while training",
    )
    outcome.notes.append(f"The paper, on eight object tasks: {paper('figure-6', 'says')}")
    outcome.notes.append("IMM here keeps running sums instead of every model, so that its storage does not grow.")
