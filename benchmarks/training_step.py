"""A training step with MAS against FineTune's, on AlexNet at 224 pixels.

    python benchmarks/training_step.py [--batch 32] [--rounds 15] [--threads 2] [--methods finetune mas ...]

Each method trains a network of its own in the middle of its second task, where penalties hold. Steps are interleaved,
so that a busy machine slows all alike; medians and their ratios to FineTune are printed.
"""

import argparse
import copy
import gc
import statistics
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from factlearn.lifelong.config import CONFIGS
from factlearn.lifelong.registry import make_strategy
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.vision import torchvision

LIMITS = {"mas": 1.10}  # x FineTune at most


def second_task(name: str, network: nn.Module, inputs: Tensor, form: str) -> tuple[Learner, Strategy]:
    """A method that has learned a first task and begins the second."""
    settings = {"penalty": form} if "penalty" in CONFIGS[name].model_fields else {}
    strategy = make_strategy(CONFIGS[name].model_validate({"name": name, **settings}))
    module = copy.deepcopy(network)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9)
    for task in range(2):
        learner = Learner(module, optimizer, task, [inputs[:4]], output="scores")
        strategy.before_task(learner)
        if task == 0:
            strategy.after_task(learner)
    return learner, strategy


def step(learner: Learner, strategy: Strategy, inputs: Tensor, labels: Tensor) -> float:
    """Seconds of one step, as the training loop takes it."""
    started = time.perf_counter()
    scores = learner.module(inputs)
    loss = F.cross_entropy(scores, labels)
    extra = strategy.extra_loss(learner, inputs, scores)
    (loss if extra is None else loss + extra).backward()
    strategy.after_backward(learner)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    strategy.after_step(learner)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=list(CONFIGS), default=["finetune", "mas"])
    parser.add_argument("--penalty", choices=["proximal", "gradient"], default="proximal")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    network = torchvision.models.alexnet()
    inputs, labels = torch.randn(options.batch, 3, 224, 224), torch.randint(1000, (options.batch,))
    methods = dict.fromkeys(["finetune", *options.methods])
    held = {name: second_task(name, network, inputs, options.penalty) for name in methods}
    times: dict[str, list[float]] = {name: [] for name in held}
    gc.disable()
    for number in range(options.rounds + 1):
        for name, (learner, strategy) in held.items():
            seconds = step(learner, strategy, inputs, labels)
            if number:  # the first round warms up
                times[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    table = Table(title=f"Training step, AlexNet, batch {options.batch}, {options.threads} threads")
    for column in ("method", "ms", "x FineTune", "at most"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, median in medians.items():
        limit = f"{LIMITS[name]:.2f}" if name in LIMITS else ""
        table.add_row(name, f"{1000 * median:.0f}", f"{median / medians['finetune']:.3f}", limit)
    Console().print(table)


if __name__ == "__main__":
    main()
