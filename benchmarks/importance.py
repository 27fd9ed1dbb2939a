"""Importance of every parameter: exact and per sample, against the other ways to compute it, in one run.

    python benchmarks/importance.py [--nets mlp alexnet vgg16] [--rounds 3] [--threads 2] [--no-memory]

    factlearn        the engine: eq. 2 exactly
    batch-1 loop     eq. 2 by its definition, one sample at a time
    vmap(grad)       eq. 2 by torch.func, as many samples at once as fit 1 GB of gradients
    batch-absolute   |gradient of the batch|, what public code computes; another, smaller quantity
    Avalanche        its MASPlugin, where installed; batch-absolute in training mode

Runs are interleaved, so that a busy machine slows all alike; medians and their ratios are printed. Peak
memory is what a fresh process needs beyond its imports, against one training step (SGD with momentum) on the
same batch.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from factlearn.lifelong.importance import estimate
from factlearn.models.vision import torchvision

Omega = dict[str, Tensor]
LIMITS = {  # net -> how fast the engine must at least be: (x batch-absolute at most, x batch-1 loop at least)
    "mlp": (None, 30.0),
    "alexnet": (1.25, 2.0),
    "vgg16": (1.25, 2.0),
}
BATCH = {"mlp": 1000, "alexnet": 32, "vgg16": 16}
MEMORY_LIMIT = 1.5


def build(net: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    if net == "mlp":
        sizes = (784, 512, 512, 10)
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
        return nn.Sequential(*layers), torch.rand(BATCH[net], 784)
    return getattr(torchvision.models, net)(), torch.randn(BATCH[net], 3, 224, 224)


def engine(model: nn.Module, inputs: Tensor) -> Omega:
    return estimate(model, [inputs], measure="mas").mean()


def batch_1_loop(model: nn.Module, inputs: Tensor) -> Omega:
    model.eval()
    omega = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for row in inputs.split(1):
        model.zero_grad()
        model(row).square().sum().backward()
        for name, parameter in model.named_parameters():
            omega[name] += parameter.grad.abs()
    model.zero_grad()
    return {name: total / len(inputs) for name, total in omega.items()}


def vmap_grad(model: nn.Module, inputs: Tensor) -> Omega:
    model.eval()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def squared_norm(values: Omega, row: Tensor) -> Tensor:
        return torch.func.functional_call(model, values, (row.unsqueeze(0),)).square().sum()

    size = sum(4 * parameter.numel() for parameter in parameters.values())
    omega = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    for rows in inputs.split(max(1, 2**30 // size)):
        found = torch.func.vmap(torch.func.grad(squared_norm), in_dims=(None, 0))(parameters, rows)
        for name, gradients in found.items():
            omega[name] += gradients.abs_().sum(0)
    return {name: total / len(inputs) for name, total in omega.items()}


def batch_absolute(model: nn.Module, inputs: Tensor) -> Omega:
    model.eval()
    omega = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    gradients = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
    for total, gradient in zip(omega.values(), gradients, strict=True):
        total.add_(gradient.abs_())
    return {name: total / len(inputs) for name, total in omega.items()}


def avalanche(model: nn.Module, inputs: Tensor) -> Omega:
    from avalanche.training.plugins import MASPlugin

    zeros = torch.zeros(len(inputs), dtype=torch.long)
    strategy = SimpleNamespace(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        experience=SimpleNamespace(dataset=torch.utils.data.TensorDataset(inputs, zeros, zeros)),
        train_mb_size=len(inputs),
        device=torch.device("cpu"),
    )
    found = MASPlugin()._get_importance(strategy)
    return {name: importance.data for name, importance in found.items()}


def training_step(model: nn.Module, inputs: Tensor) -> Omega:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    model(inputs).square().sum().backward()
    optimizer.step()
    return {}


METHODS: dict[str, Callable[[nn.Module, Tensor], Omega]] = {
    "factlearn": engine,
    "batch-1 loop": batch_1_loop,
    "vmap(grad)": vmap_grad,
    "batch-absolute": batch_absolute,
}


def timed(net: str, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of each method, and how far its omega is from the batch-1 loop's (relative)."""
    model, inputs = build(net)
    methods = dict(METHODS)
    if importlib.util.find_spec("avalanche") is not None:
        methods["Avalanche"] = avalanche
    times: dict[str, list[float]] = {name: [] for name in methods}
    exact, distance = batch_1_loop(model, inputs), {}
    whole = torch.cat([total.flatten() for total in exact.values()]).norm()
    for turn in range(rounds + 1):  # the first turn warms up
        for name, method in methods.items():
            begin = time.perf_counter()
            omega = method(model, inputs)
            times[name].append(time.perf_counter() - begin)
            if turn == 0:
                far = sum(float((omega[key] - exact[key]).square().sum()) for key in exact) ** 0.5
                distance[name] = far / float(whole)
            del omega
    return {name: statistics.median(spans[1:]) for name, spans in times.items()}, distance


def peak_bytes(net: str, method: str, threads: int) -> int:
    """Peak memory of one call in a fresh process, beyond what its imports take."""
    command = [sys.executable, __file__, "--child", method, "--nets", net, "--threads", str(threads)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def child(net: str, method: str) -> None:
    """Print the peak memory of one call; runs in a process of its own."""
    imported = own_peak()
    model, inputs = build(net)
    (training_step if method == "training step" else METHODS[method])(model, inputs)
    print(own_peak() - imported)


def own_peak() -> int:
    """Bytes this process held at most (Linux; getrusage would count the parent's before exec)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def report(net: str, rounds: int, threads: int, memory: bool, console: Console) -> bool:
    """Print one net's table and whether its limits are kept; return whether the result is exact."""
    medians, distance = timed(net, rounds)
    peaks = {}
    if memory and Path("/proc/self/status").exists():
        peaks = {name: peak_bytes(net, name, threads) for name in (*METHODS, "training step")}
    table = Table(title=f"{net}, batch of {BATCH[net]}, {threads} threads, median of {rounds} interleaved runs")
    for column in ("method", "seconds", "x factlearn's time", "distance from eq. 2", "peak x training step"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, seconds in medians.items():
        peak = f"{peaks[name] / peaks['training step']:.2f}" if name in peaks else "-"
        ratio = f"{seconds / medians['factlearn']:.2f}"
        table.add_row(name, f"{seconds:.4f}", ratio, f"{distance[name]:.1e}", peak)
    console.print(table)
    slowest, fastest = LIMITS[net]
    against_batch = medians["factlearn"] / medians["batch-absolute"]
    against_loop = medians["batch-1 loop"] / medians["factlearn"]
    kept = against_loop >= fastest
    kept &= slowest is None or against_batch <= slowest
    kept &= not peaks or peaks["factlearn"] <= MEMORY_LIMIT * peaks["training step"]
    limit = f" (at most {slowest})" if slowest else ""
    console.print(f"{against_batch:.2f} x the time of batch-absolute{limit},")
    console.print(f"{against_loop:.1f} x faster than the loop (at least {fastest:g}): {'ok' if kept else 'MISSED'}")
    return distance["factlearn"] <= 1e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=list(BATCH), default=list(BATCH))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--child", choices=[*METHODS, "training step"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.child:
        child(arguments.nets[0], arguments.child)
        return 0
    console = Console()
    if importlib.util.find_spec("avalanche") is None:
        console.print("Avalanche is not installed (pip install avalanche-lib), so it is left out.")
    exact = [report(net, arguments.rounds, arguments.threads, arguments.memory, console) for net in arguments.nets]
    return 0 if all(exact) else 1


if __name__ == "__main__":
    sys.exit(main())
