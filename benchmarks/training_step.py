"""What a training step costs: each method against FineTune, and each way to take the step against the plain one.

    python benchmarks/training_step.py [--batch 32] [--rounds 15] [--threads 2] [--methods finetune mas ...]
    python benchmarks/training_step.py --ways [--backbone alexnet] [--size 64]

Each method trains a network of its own in the middle of its second task, where penalties hold. Steps are interleaved,
so that a busy machine slows all alike; medians of processor time and their ratios are printed.
"""

import argparse
import copy
import gc
import statistics
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from factlearn.lifelong.registry import METHODS, make_strategy
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.pixels import PixelCache
from factlearn.models.preprocess import PLAIN, Preprocess
from factlearn.models.vision import torchvision

LIMITS = {"mas": 1.10}  # x FineTune at most
WAYS = ("plain", "channels last", "bf16", "bf16, channels last", "bf16, channels last, recomputed")


def second_task(name: str, network: nn.Module, inputs: Tensor, form: str) -> tuple[Learner, Strategy]:
    """A method that has learned a first task and begins the second."""
    config = METHODS.find(name).config
    settings = {"penalty": form} if "penalty" in config.model_fields else {}
    strategy = make_strategy(config.model_validate({"name": name, **settings}))
    module = copy.deepcopy(network)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9)
    for task in range(2):
        learner = Learner(module, optimizer, task, [inputs[:4]], output="scores")
        strategy.before_task(learner)
        if task == 0:
            strategy.after_task(learner)
    return learner, strategy


def step(learner: Learner, strategy: Strategy, inputs: Tensor, labels: Tensor, way: str = "plain") -> float:
    """Seconds of one step, as the training loop takes it, in one of the ways."""
    started = time.process_time()
    if "channels last" in way:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in way):
        if "recomputed" in way:
            scores = torch.utils.checkpoint.checkpoint(learner.module, inputs, use_reentrant=False)
        else:
            scores = learner.module(inputs)
        extra = strategy.extra_loss(learner, inputs, scores)
    loss = F.cross_entropy(scores.float(), labels)
    (loss if extra is None else loss + extra).backward()
    strategy.after_backward(learner)
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    strategy.after_step(learner)
    return time.process_time() - started


def penalty_in_a_loop(learner: Learner, strategy: Strategy) -> float:
    """Seconds of the penalty parameter by parameter, each as three operations: what the fused form saves."""
    started = time.process_time()
    rates = learner.effective_rates()
    with torch.no_grad():
        for name, parameter in learner.shared().items():
            pull = strategy.omega[name] * (2 * rates[name] * strategy.strength)  # type: ignore[attr-defined]
            parameter.copy_((parameter + pull * strategy.theta_star[name]) / (1 + pull))  # type: ignore[attr-defined]
    return time.process_time() - started


def penalty_fused(learner: Learner, strategy: Strategy) -> float:
    """Seconds of the penalty as the methods take it."""
    started = time.process_time()
    strategy.after_step(learner)
    return time.process_time() - started


def medians(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each, interleaved; a first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    gc.disable()
    for number in range(rounds + 1):
        for name, measure in measures.items():
            seconds = measure()
            if number:
                times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def show(title: str, found: dict[str, float], base: str, limits: dict[str, float] | None = None) -> None:
    table = Table(title=title)
    for column in ("", "ms", f"x {base}", *(["at most"] if limits else [])):
        table.add_column(column, justify="right" if column else "left")
    for name, median in found.items():
        limit = [f"{limits[name]:.2f}" if name in limits else ""] if limits else []
        table.add_row(name, f"{1000 * median:.1f}", f"{median / found[base]:.3f}", *limit)
    Console().print(table)


def compare_ways(backbone: str, size: int, batch: int, rounds: int) -> None:
    """The forward and backward pass, the penalty, and where the pixels come from."""
    network = getattr(torchvision.models, backbone)(num_classes=100)
    inputs, labels = torch.randn(batch, 3, size, size), torch.randint(100, (batch,))
    # The loop's networks have small fully connected layers at small sizes; so has this one.
    features = network.features(inputs[:1]).flatten(1).shape[1]
    network = nn.Sequential(network.features, nn.Flatten(), nn.Linear(features, 512), nn.ReLU(), nn.Linear(512, 100))
    held = {way: second_task("mas", network, inputs, "proximal") for way in WAYS}
    found = medians({way: lambda way=way: step(*held[way], inputs, labels, way) for way in WAYS}, rounds)
    show(f"MAS's step, {backbone} at {size} px, batch {batch}", found, "plain")
    both = {"in a loop": penalty_in_a_loop, "fused": penalty_fused}
    found = medians({name: lambda of=of: of(*held["plain"]) for name, of in both.items()}, rounds)
    show("The penalty alone", found, "in a loop")
    with TemporaryDirectory() as folder:
        compare_pixels(folder, size, batch, rounds)


def compare_pixels(folder: str, size: int, batch: int, rounds: int) -> None:
    """A batch of JPEGs decoded, and kept in memory."""
    from pathlib import Path

    paths = [Path(folder) / f"{number}.jpg" for number in range(batch)]
    for path in paths:
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (128, 96, 3), np.uint8)).save(path)
    preprocess, cache = Preprocess(size), PixelCache()

    def timed(pixels: Callable[..., object]) -> float:
        started = time.process_time()
        for path in paths:
            pixels(path)
        return time.process_time() - started

    measures = {
        "decoded": lambda: timed(preprocess.pixels),
        "kept": lambda: timed(lambda path: cache.pixels(preprocess, path, PLAIN)),
    }
    show(f"A batch of {batch} images, 96 px JPEGs to {size} px", medians(measures, rounds), "decoded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=["finetune", "mas"])
    parser.add_argument("--penalty", choices=["proximal", "gradient"], default="proximal")
    parser.add_argument("--ways", action="store_true", help="Compare ways to take the step instead of methods.")
    parser.add_argument("--backbone", choices=["alexnet", "vgg16"], default="alexnet")
    parser.add_argument("--size", type=int, default=64, help="Of the images, with --ways.")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.ways:
        compare_ways(options.backbone, options.size, options.batch, options.rounds)
        return
    network = torchvision.models.alexnet()
    inputs, labels = torch.randn(options.batch, 3, 224, 224), torch.randint(1000, (options.batch,))
    methods = dict.fromkeys(["finetune", *options.methods])
    held = {name: second_task(name, network, inputs, options.penalty) for name in methods}
    found = medians({name: lambda name=name: step(*held[name], inputs, labels) for name in methods}, options.rounds)
    title = f"Training step, AlexNet at 224 px, batch {options.batch}, {options.threads} threads"
    show(title, found, "finetune", LIMITS)


if __name__ == "__main__":
    main()
