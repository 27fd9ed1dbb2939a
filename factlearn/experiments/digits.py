"""Permuted digits: five tasks, one network, one shared head; every lifelong method in seconds.

    python -m factlearn.experiments.digits [--methods mas ewc ...] [--seeds 3] [--tune] [--penalty gradient]

A task is scikit-learn's digits with their 64 pixels in a fixed random order of its own. The network is a perceptron
64-512-512-10 whose layers, the last one included, all tasks share, as in the paper's Figure 8 on permuted MNIST.

The strengths below were chosen with `--tune`: the best average accuracy over sequences with the seeds
`TUNING_SEEDS`, whose permutations and initial weights appear in no reported number.
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.config import CONFIGS, StrategyConfig
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Learner

TASKS = 5
EPOCHS = 10
BATCH = 128
RATE = 0.06
MOMENTUM = 0.9
TUNING_SEEDS = (100, 101)
GRID = tuple(10 ** (power / 2) for power in range(-6, 7))

METHODS: dict[str, dict[str, Any]] = {
    "finetune": {},
    "joint": {},
    "mas": {"lambda": 0.1},
    "l-mas": {"lambda": 0.316},
    "mas-vector": {"lambda": 0.316},
    "ewc": {"lambda": 316.0},
    "si": {"lambda": 316.0},
    "lwf": {"lambda": 3.16},
    "ebll": {"lambda": 3.16},
    "imm-mean": {"lambda": 0.00316},
    "imm-mode": {"lambda": 0.00316},
}


@dataclass(frozen=True)
class DigitsTask:
    """The digits in one order of their pixels."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class DigitsResult:
    """What a method did with one sequence; all in percent.

    Attributes:
        accuracy: after each stage (row) on each task (column).
        training_bytes, stored_bytes: what the method held in the middle of the last task, and after it.
    """

    accuracy: tuple[tuple[float, ...], ...]
    training_bytes: int
    stored_bytes: int

    @property
    def average(self) -> float:
        """Over all tasks, after the last."""
        return statistics.fmean(self.accuracy[-1])

    @property
    def forgetting(self) -> float:
        """How much lower the old tasks end than they were when just learned."""
        learned = [row[number] for number, row in enumerate(self.accuracy[:-1])]
        return statistics.fmean(a - b for a, b in zip(learned, self.accuracy[-1], strict=False)) if learned else 0.0


def permuted_tasks(seed: int, count: int = TASKS) -> list[DigitsTask]:
    """`count` tasks; four of five images train, the same ones in every task. Pixels are standardised."""
    from sklearn.datasets import load_digits

    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    images = ((images - images[train].mean()) / images[train].std()).float()
    tasks = []
    for _ in range(count):
        seen = images[:, torch.randperm(64, generator=generator)]
        tasks.append(DigitsTask((seen[train], labels[train]), (seen[test], labels[test])))
    return tasks


def perceptron(seed: int) -> nn.Sequential:
    """64-512-512-10, its initial weights from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def learn_digits(
    method: str, seed: int = 0, *, tasks: int = TASKS, epochs: int | None = None, **settings: Any
) -> DigitsResult:
    """Learn the permuted digits with one method, one stage after the other.

    Args:
        method: a strategy's name in a config.
        seed: of the permutations, the split, the initial weights and the order of images.
        tasks: how many permutations.
        epochs: passes over each task's images, `EPOCHS` if not given.
        settings: of the strategy, in place of those in `METHODS`.
    """
    config: Any = TypeAdapter(StrategyConfig).validate_python({"name": method, **METHODS[method], **settings})
    strategy = make_strategy(config)
    sequence = permuted_tasks(seed, tasks)
    module = perceptron(seed)
    generator = torch.Generator().manual_seed(seed)
    accuracy: list[tuple[float, ...]] = []
    training_bytes = 0
    stages = strategy.stages(sequence)
    for number, stage in enumerate(stages):
        inputs = torch.cat([task.train[0] for task in stage])
        labels = torch.cat([task.train[1] for task in stage])
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
        batches = list(zip(inputs.split(256), labels.split(256), strict=True))
        learner = Learner(module, optimizer, number, batches, output="scores")
        strategy.before_task(learner)
        for epoch in range(EPOCHS if epochs is None else epochs):
            learner.epoch = epoch
            for rows in torch.randperm(len(inputs), generator=generator).split(BATCH):
                scores = module(inputs[rows])
                loss = F.cross_entropy(scores, labels[rows])
                extra = strategy.extra_loss(learner, inputs[rows], scores)
                (loss if extra is None else loss + extra).backward()
                strategy.after_backward(learner)
                optimizer.step()
                optimizer.zero_grad()
                strategy.after_step(learner)
        training_bytes = strategy.memory().training_bytes
        strategy.after_task(learner)
        if number == len(stages) - 1:
            strategy.after_sequence(learner)
        accuracy.append(tuple(accuracy_on(module, *task.test) for task in sequence))
    return DigitsResult(tuple(accuracy), training_bytes, strategy.memory().stored_bytes)


@torch.no_grad()
def accuracy_on(module: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Percent of the images whose highest score is the right digit's; NaN if a score is not finite."""
    scores = module(inputs)
    return 100 * float((scores.argmax(1) == labels).float().mean()) if scores.isfinite().all() else math.nan


def tune(
    method: str, grid: Sequence[float] = GRID, seeds: Sequence[int] = TUNING_SEEDS, **settings: Any
) -> dict[float, float]:
    """The average accuracy that each strength reaches on the tuning sequences; NaN where learning diverges."""
    scores = {}
    for strength in grid:
        given: dict[str, Any] = {"lambda": strength, **settings}
        try:
            runs = [learn_digits(method, seed, **given) for seed in seeds]
            scores[strength] = statistics.fmean(run.average for run in runs)
        except ModelError:  # the output is not finite, so that importance cannot be measured
            scores[strength] = math.nan
    return scores


def results_table(results: dict[str, list[DigitsResult]]) -> Table:
    """A row a method: mean and deviation over seeds."""
    table = Table(title="Permuted digits after the last task")
    for column in ("method", "lambda", "average accuracy", "forgetting", "tasks", "training KiB", "stored KiB"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, runs in results.items():
        averages = [run.average for run in runs]
        last = [statistics.fmean(task) for task in zip(*(run.accuracy[-1] for run in runs), strict=True)]
        table.add_row(
            method,
            f"{METHODS[method]['lambda']:g}" if "lambda" in METHODS[method] else "",
            f"{statistics.fmean(averages):.1f} ± {statistics.pstdev(averages):.1f}",
            f"{statistics.fmean(run.forgetting for run in runs):.1f}",
            " ".join(f"{value:.0f}" for value in last),
            f"{runs[0].training_bytes / 1024:.0f}",
            f"{runs[0].stored_bytes / 1024:.0f}",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of results, or of strengths with `--tune`."""
    parser = argparse.ArgumentParser(description="Learn five tasks of permuted digits with each lifelong method.")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3, help="sequences to average over")
    parser.add_argument("--tune", action="store_true", help="find each method's strength on other permutations")
    parser.add_argument("--penalty", choices=["proximal", "gradient"], default="proximal", help="form of penalties")
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True)
    runs: dict[str, list[DigitsResult]] = {}
    for method in options.methods:
        penalised = "penalty" in CONFIGS[method].model_fields
        settings = {"penalty": options.penalty} if penalised else {}
        if not options.tune:
            runs[method] = [learn_digits(method, seed, **settings) for seed in range(options.seeds)]
        elif "lambda" in METHODS[method]:
            scores = tune(method, **settings)
            best = max(scores, key=lambda strength: -math.inf if math.isnan(scores[strength]) else scores[strength])
            curve = "  ".join(f"{strength:.3g}: {_percent(score)}" for strength, score in scores.items())
            console.print(f"[bold]{method}[/bold] lambda {best:.3g}   ({curve})", highlight=False)
    if runs:
        console.print(results_table(runs))


def _percent(score: float) -> str:
    return "diverged" if math.isnan(score) else f"{score:.1f}"


if __name__ == "__main__":
    main()
