"""Finding lambda by decades on a tuning sequence, the same way for every method.

1. The first tasks of the config are learned from a part of their training images; a fifth of each fact or class is held
   out. Test images are never looked at. Give a seed that no table reports.
2. The config's own lambda is tried, a tenth of it and ten times it. While the best is at either end, one decade more is
   tried there, up to `TRIES` in all.
3. The best at the end of the sequence on the held-out images of all its tasks is taken.

It looks at old tasks' images, as a user who learns on could not; `tuning.tune` has a rule that does not. It serves a
comparison, where every method shall be at its best and none shall have had more tries by design.
"""

from collections.abc import Callable
from pathlib import Path

from factlearn.errors import ConfigError
from factlearn.experiments.paper.cells import Cell, learn_cells
from factlearn.experiments.tuning import Trial, Tuning, held_out
from factlearn.files import fingerprint
from factlearn.learning.config import RunConfig

TRIES = 5


def tune_by_decades(config: RunConfig, out: Path, *, tasks: int = 3) -> Tuning:
    """Choose lambda by the rule above, on the first `tasks` tasks; every trial is a run below `out`.

    Raises:
        ConfigError: if the method has no lambda, or it is 0.
    """
    if not config.strategy.strength:
        raise ConfigError(f"{config.strategy.name} has no lambda above 0 to start from; there is nothing to tune.")
    held = held_out(config, out, tasks)
    plain = held.strategy.model_dump(mode="json", by_alias=True)

    def score(value: float) -> float | None:
        trial = held.changed(strategy={**plain, "lambda": value})
        key = fingerprint(trial.to_yaml())[:10]
        result = learn_cells([Cell(out / f"{config.strategy.name}-{value:g}-{key}", trial)])[0]
        return None if result is None else result.whole()[-1]

    scores = search(score, config.strategy.strength)
    best = max(scores, key=lambda value: scores[value] or 0.0)
    trials = tuple(Trial("lambda", value, scores[value], value == best) for value in sorted(scores))
    return Tuning(config.training.learning_rate, best, scores[best], trials)


def search(score: Callable[[float], float | None], start: float, tries: int = TRIES) -> dict[float, float | None]:
    """The score of each value that was tried, from the start outwards until the best is inside."""
    tried: dict[int, float | None] = {0: score(start)}
    ahead = [-1, 1]
    while ahead and len(tried) < tries:
        for exponent in ahead:
            tried[exponent] = score(_decades(start, exponent))
        best = max(tried, key=lambda exponent: tried[exponent] or 0.0)
        ahead = [end + step for end, step in ((min(tried), -1), (max(tried), 1)) if best == end]
    return {_decades(start, exponent): found for exponent, found in tried.items()}


def _decades(start: float, exponent: int) -> float:
    """The value so many decades up, without the rounding that makes 0.1 / 10 another number than 0.01."""
    return float(f"{start * 10.0**exponent:.6g}")
