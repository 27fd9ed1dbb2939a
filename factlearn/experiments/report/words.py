"""The result in words: who ended where, what was lost, which facts or classes were hit."""

from collections.abc import Mapping, Sequence

from factlearn.evaluation.results import RunResult
from factlearn.experiments.changes import Change
from factlearn.experiments.comparison import MethodScore, PairedTest, gap_closed, p_text

NOTICEABLE = 0.1
"""A fact or class counts as forgotten if it lost more than this much of its measure."""
MEASURES = {"facts": "average precision", "classes": "accuracy"}
"""What one fact or class is measured by."""


def summary(
    results: Mapping[str, RunResult],
    scores: Sequence[MethodScore],
    tests: Sequence[PairedTest],
    changes: Mapping[str, Sequence[Change]],
) -> list[str]:
    """A few sentences, the most important first."""
    kinds = next(iter(results.values())).run.config.learn
    sentences = [_ending(score, results[score.method]) for score in scores if score.method in results]
    best = _best_in_turn(scores, results)
    worst = max(changes, key=lambda m: _lost_share(changes[m]), default=None)
    if worst and _lost_share(changes[worst]) > 0:
        sentences.append(_hit(worst, changes[worst], kinds))
        if best and best != worst and best in changes:
            sentences.append(_kept(best, worst, changes))
    if best:
        in_turn = [s for s in scores if s.method in results and not results[s.method].at_once]
        if len(in_turn) > 1:
            sentences.append(f"Of the methods that learn one task after the other, {best} ends highest.")
        sentences += _gap(best, scores)
        sentences += [_tested(test, kinds) for test in tests if {best, worst} <= {test.one, test.other}][:1]
    return sentences


def forgotten_share(listed: Sequence[Change], kinds: str) -> str:
    """How many facts, or classes, lost noticeably, in words."""
    hit = sum(change.lost > NOTICEABLE for change in listed)
    lost = f"{NOTICEABLE:g} {MEASURES[kinds]}"
    return f"{hit} of the {len(listed)} {kinds} learned before the last task lost more than {lost}"


def _ending(score: MethodScore, result: RunResult) -> str:
    over = "over all test images" if result.measure == "MAP" else f"on average over {len(result.learned[-1])} tasks"
    text = f"{score.method} ends with {result.measure} {score.whole} {over}"
    lost = result.forgetting()
    if len(score.seeds) > 1:
        text += f" (mean of {len(score.seeds)} seeds)"
    if lost is None or not lost.per_task:
        return text + (
            "; it saw all tasks at once, so it is the bound for learning them in turn." if result.at_once else "."
        )
    average = score.forgetting.mean if score.forgetting else lost.average
    matrix = result.matrix()
    worst = result.followed()[max(range(len(lost.per_task)), key=lambda place: lost.per_task[place])]
    then, now = matrix[worst][worst], matrix[-1][worst]
    text += f"; on the tasks before the last it lost {average:.3f} {result.measure} on average"
    return f"{text}, most on “{result.tasks[worst]}” ({then:.2f} → {now:.2f})."


def _hit(method: str, listed: Sequence[Change], kinds: str) -> str:
    return f"With {method}, {forgotten_share(listed, kinds)}. Hit hardest: {_examples(listed)}."


def _examples(listed: Sequence[Change]) -> str:
    return ", ".join(f"{change.name} ({change.then:.2f} → {change.now:.2f})" for change in listed[:3])


def _kept(best: str, worst: str, changes: Mapping[str, Sequence[Change]]) -> str:
    lost = {change.name: change for change in changes[worst] if change.lost > NOTICEABLE}
    kept = [change for change in changes[best] if change.name in lost and change.lost <= NOTICEABLE]
    hit = sum(change.lost > NOTICEABLE for change in changes[best])
    return (
        f"With {best}, {hit} of them did; it kept {len(kept)} of the {len(lost)} that {worst} lost. "
        f"Hit hardest: {_examples(changes[best])}."
    )


def _gap(best: str, scores: Sequence[MethodScore]) -> list[str]:
    ends = {score.method: score.whole.mean for score in scores}
    if not {"FineTune", "Joint"} <= ends.keys() or best == "FineTune":
        return []
    share = gap_closed(ends[best], ends["FineTune"], ends["Joint"])
    return [] if share is None else [f"{best} closes {share:.0%} of the gap between FineTune and Joint."]


def _tested(test: PairedTest, kinds: str) -> str:
    each = "Fact by fact" if kinds == "facts" else "Class by class"
    return (
        f"{each}, {test.one} is ahead of {test.other} by {test.difference:.3f} {MEASURES[kinds]} "
        f"and better on {test.better:.0%} of {test.compared} {kinds} (paired randomisation test, p {_p(test.p)})."
    )


def _p(p: float) -> str:
    return p_text(p) if p < 0.001 else f"= {p_text(p)}"


def _best_in_turn(scores: Sequence[MethodScore], results: Mapping[str, RunResult]) -> str | None:
    """The method that ends highest among those that learn one task after the other."""
    in_turn = [s for s in scores if s.method in results and not results[s.method].at_once]
    return max(in_turn, key=lambda score: score.whole.mean).method if in_turn else None


def _lost_share(listed: Sequence[Change]) -> float:
    return sum(change.lost > NOTICEABLE for change in listed) / len(listed) if listed else 0.0
