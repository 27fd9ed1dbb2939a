"""Sports are protected (Figure 7): what `factlearn adapt` does, what the paper does, and no adaptation."""

from collections.abc import Mapping, Sequence
from statistics import mean

from factlearn.evaluation.facts import RuleResult
from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper.facts import IN_TURN, OURS, by_method, name_of
from factlearn.experiments.paper.outcome import Outcome, PaperTable, entry
from factlearn.experiments.paper.paper import paper
from factlearn.experiments.paper.registry import experiment
from factlearn.experiments.paper.request import Request
from factlearn.experiments.paper.subsets import SPORTS, sports_cells, sports_facts, sports_first
from factlearn.facts import Fact
from factlearn.learning.facts import evaluate_groups, test_vectors

ADAPTED, PAPERS, FIRM = "mas sports", "mas sports-only", "mas firm"
GALLERIES = ("among sports images", "among all images")
_SPORTS, _REST, _SINCE = "sports", "rest of the first task", "learned since"
Curves = Mapping[str, Sequence[Sequence[RuleResult]]]
"""By method: for each seed, the groups' MAP after each stage."""


@experiment("facts-sports", "Figure 7", "Sports protected, four tasks by meaning, in two galleries")
def sports(request: Request, outcome: Outcome) -> None:
    """MAP on the sports facts after each task, among sports images and among all; what it costs the rest."""
    name, split = tasks = sports_first(request)
    learned = by_method(request, name, request.chosen([*IN_TURN, OURS, "joint"]), split)
    first = next(iter(learned.values()))[0]
    facts = sports_facts(first)
    learned = {
        **request.learn_groups({f"mas {kind}": sports_cells(request, facts, kind, tasks) for kind in SPORTS}),
        **learned,
    }
    names = {
        **{method: name_of(method) for method in learned if method not in (ADAPTED, PAPERS, FIRM)},
        ADAPTED: "MAS, adapted to sports",
        PAPERS: "MAS, importance of sports alone",
        FIRM: f"MAS, floor {SPORTS['firm']['floor']:g}",
    }
    curves = {method: [_curve(result, facts) for result in results] for method, results in learned.items()}
    for gallery in GALLERIES:
        outcome.tables.append(_curves_table(curves, names, gallery, first.tasks, len(facts)))
    outcome.tables.append(_cost_table(curves, names))
    _statements(outcome, curves, names)
    outcome.notes.append("Sports facts: " + ", ".join(map(str, facts)))


def _curve(result: RunResult, facts: Sequence[Fact]) -> list[RuleResult]:
    """The sports facts, the rest of the first task and what came later, after each stage."""
    run = result.run
    first, *later = run.tasks().tasks
    groups = {
        _SPORTS: list(facts),
        _REST: [fact for fact in first.facts if fact not in set(facts)],
        _SINCE: [fact for task in later for fact in task.facts],
    }
    groups = {name: members for name, members in groups.items() if members}
    language = run.language()
    stages = range(1, len(result.learned) + 1)
    return [evaluate_groups(run.data, language, groups, test_vectors(run, stage)).exact for stage in stages]


def _map(found: RuleResult, group: str, gallery: str) -> float:
    """MAP of a group's facts among its own images, or among all."""
    return (found.tasks if gallery == GALLERIES[0] else found.subsets)[group].map or 0.0


def _curves_table(
    curves: Curves, names: Mapping[str, str], gallery: str, tasks: Sequence[str], count: int
) -> PaperTable:
    reported: dict[str, float] = paper("figure-7", "end") if gallery == GALLERIES[0] else {}
    entries = []
    for method, seeds in curves.items():
        for place, name in enumerate(tasks):
            last = place == len(tasks) - 1
            values = [_map(stages[place], _SPORTS, gallery) for stages in seeds if len(stages) == len(tasks)]
            if method == "joint" and last:
                values = [_map(stages[-1], _SPORTS, gallery) for stages in seeds]
            entries.append(entry(names[method], f"after {name}", reported.get(method) if last else None, values))
    note = f"{count} sports facts of the first task; exact relevance"
    return PaperTable(f"MAP on the sports facts {gallery}", entries, note=note)


def _cost_table(curves: Curves, names: Mapping[str, str]) -> PaperTable:
    """What holding on to sports does to everything else."""
    entries = []
    for method, seeds in curves.items():
        for group in (_SPORTS, _REST, _SINCE):
            values = [_map(stages[-1], group, GALLERIES[1]) for stages in seeds if group in stages[-1].subsets]
            entries.append(entry(names[method], group, None, values))
        entries.append(entry(names[method], "all", None, [stages[-1].whole.map or 0.0 for stages in seeds]))
    return PaperTable("MAP at the end among all images", entries, note="exact relevance")


def _statements(outcome: Outcome, curves: Curves, names: Mapping[str, str]) -> None:
    for gallery in GALLERIES:
        end = {method: mean(_map(stages[-1], _SPORTS, gallery) for stages in seeds) for method, seeds in curves.items()}
        begin = {
            method: mean(_map(stages[0], _SPORTS, gallery) for stages in seeds) for method, seeds in curves.items()
        }
        for method in (ADAPTED, PAPERS):
            for other in ("mas", FIRM, "si", "finetune"):
                if method in end and other in end:
                    outcome.say(
                        f"{names[method]}: ends at or above {names[other]} {gallery}",
                        end[method] >= end[other],
                        f"{end[method]:.3f} and {end[other]:.3f}; keeps {end[method] / begin[method]:.2f} and "
                        f"{end[other] / begin[other]:.2f}",
                    )
