"""Inside the network: how importance is spread, how two importances agree, where images move (appendices)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.results import RunResult
from factlearn.experiments.importance_plots import agreement, choose_layer, histogram, load_omega, scatter
from factlearn.experiments.paper.facts import by_method
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.experiments.paper.subsets import half_cells, sports_cells, sports_facts, two_task_cell
from factlearn.experiments.projection import drift, facts_to_project, project


@experiment("omega-histogram", "Appendix, histogram of Ω", "Distribution of importance over the parameters")
def omega_histogram(request: Request, outcome: Outcome) -> None:
    """Importance of the last layer that subject, predicate and object share, after the first of two tasks."""
    (result,) = request.learn([two_task_cell(request, "mas", 0)])
    omega = load_omega(result.run, 1)
    layer = last_shared(omega)
    values = choose_layer(omega, layer)
    outcome.plots.append(histogram(values, f"MAS after the first of two tasks, {layer}"))
    ordered = np.sort(values.astype(np.float64))
    low = float((ordered < 0.01 * ordered[-1]).mean())
    top = float(ordered[-max(1, len(ordered) // 100) :].sum() / ordered.sum())
    tail = ordered[-1000:]
    outcome.say(
        "most parameters have an importance close to zero",
        low > 0.5,
        f"{low:.1%} of {len(ordered):,} lie below a hundredth of the largest; the top 1 % hold {top:.0%} of the sum",
    )
    outcome.say("the 1000 most important form a long tail", bool(tail.mean() > np.median(tail)),
                f"mean {tail.mean():.3g}, median {np.median(tail):.3g}, largest {tail[-1]:.3g}")  # fmt: skip
    outcome.notes.append(f"The paper: {paper('omega-histogram', 'says')} It looks at the last shared convolution.")


@experiment("omega-correlation", "Appendix, correlation of Ω", "Importance on training or test images, on T11 or T12")
def omega_correlation(request: Request, outcome: Outcome) -> None:
    """Two importances of one network: the first task is learned the same way, only the images looked at differ."""
    train = request.learn([two_task_cell(request, "mas", seed) for seed in range(request.seeds)])
    test = request.learn([two_task_cell(request, "mas-test", seed) for seed in range(request.seeds)])
    one, other = (request.learn(half_cells(request, "mas", half)) for half in ("T11", "T12"))
    pairs = {"train against test": (train, test), "T11 against T12": (one, other)}
    entries, whole, shared = [], {}, {}
    for name, (left, right) in pairs.items():
        agreed = [
            agreement(_omega(a), _omega(b)) for a in left for b in right if a.run.config.seed == b.run.config.seed
        ]
        entries += [
            entry(name, "correlation, all", None, [a.correlation for a in agreed]),
            entry(name, "correlation, top 1000 of either", None, [a.top_correlation for a in agreed]),
            entry(name, "top 1000 in common", None, [a.overlap for a in agreed]),
        ]
        whole[name] = mean(a.correlation for a in agreed)
        shared[name] = mean(a.overlap for a in agreed)
        sides = (f"importance on {name.split()[0]}", f"importance on {name.split()[-1]}")
        outcome.plots.append(scatter(_omega(left[0]), _omega(right[0]), sides, f"scatter-{name.replace(' ', '-')}"))
    note = "weights of the last layer that all three outputs share, after the first task"
    outcome.tables.append(PaperTable("Agreement of two importances of one network", entries, note=note))
    close, apart = whole.values()
    outcome.say("training and test images agree better than two halves of the facts", close > apart,
                f"correlation {close:.3f} and {apart:.3f}; "
                f"{' and '.join(f'{share:.0%}' for share in shared.values())} of the top 1000 in common")  # fmt: skip
    outcome.notes.append(f"The paper: {paper('omega-correlation', 'says')}")


def last_shared(names: Iterable[str]) -> str:
    """The weights of the last layer that subject, predicate and object share."""
    weights = [name for name in sorted(names) if name.endswith("weight")]
    return ([name for name in weights if name.startswith("shared")] or weights)[-1]


def _omega(result: RunResult) -> NDArray[np.float32]:
    omega = load_omega(result.run, 1)
    return choose_layer(omega, last_shared(omega))


@experiment("facts-projection", "Appendix, 2-D projections", "2-D projection of the sports images after each task")
def projection(request: Request, outcome: Outcome) -> None:
    """Original, adaptive, non-adaptive and FineTune on the same two axes."""
    learned = by_method(request, "agglomerative", ("mas", "finetune"))
    facts = sports_facts(learned["mas"][0])
    adapted = request.learn(sports_cells(request, facts))
    shown = {"MAS, adaptive": adapted, "MAS, non-adaptive": learned["mas"], "FineTune": learned["finetune"]}
    seven = facts_to_project(adapted[0], [str(fact) for fact in facts])
    plot = project({name: results[0] for name, results in shown.items()}, seven)
    outcome.plots += [plot] if plot else []
    moved = {name: [drift(result, facts) for result in results] for name, results in shown.items()}
    tasks = adapted[0].tasks[1:]
    entries = [
        entry(name, f"after {task}", None, [values[place] for values in rows])
        for name, rows in moved.items()
        for place, task in enumerate(tasks)
    ]
    outcome.tables.append(PaperTable("How far the sports images have moved since the first task", entries))
    end = {name: mean(values[-1] for values in rows) for name, rows in moved.items()}
    ordered = _rising([end["MAS, adaptive"], end["MAS, non-adaptive"], end["FineTune"]])
    outcome.say("adaptive stays nearest to the original, then non-adaptive, then FineTune", ordered,
                ", ".join(f"{name} {value:.2f}" for name, value in end.items()))  # fmt: skip
    outcome.notes.append(f"The paper: {paper('projection', 'says')}")


def _rising(values: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(values))
