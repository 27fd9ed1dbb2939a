"""The training engine, Lightning Fabric: one process on one device, or several that learn together.

Several processes are started by `factlearn train --devices N`, by torchrun or by SLURM's srun. They talk over gloo on
CPUs and over nccl on GPUs. Each holds the whole network; `factlearn.processes` says which part of the work is whose.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from factlearn import processes
from factlearn.errors import RunError
from factlearn.learning.config import RunConfig
from factlearn.models.precision import uses_bfloat16

MEMBER = "FACTLEARN_MEMBER"
"""Set in the processes that `--devices` starts."""
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


def make_fabric(config: RunConfig) -> Any:
    """The engine for a config: that of the processes that learn together, or of this one alone."""
    return processes.engine() or _fabric(config)


def launched() -> tuple[int, int] | None:
    """How many processes torchrun or SLURM has started on each machine, and on how many machines; None if neither."""
    found = os.environ
    if "TORCHELASTIC_RUN_ID" in found:
        here, everywhere = int(found["LOCAL_WORLD_SIZE"]), int(found["WORLD_SIZE"])
        return here, everywhere // here
    if int(found.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        nodes = int(found.get("SLURM_STEP_NUM_NODES", "1"))
        return int(found["SLURM_STEP_NUM_TASKS"]) // nodes, nodes
    return None


@contextmanager
def together(config: RunConfig, devices: int | None = None, nodes: int | None = None) -> Iterator[None]:
    """Learn with the processes that were started beside this one, within the block; alone if there are none.

    Args:
        config: of the run, for the device and precision.
        devices: processes on each machine; what torchrun or SLURM say, or 1, if not given.
        nodes: number of machines; likewise.

    Raises:
        RunError: if they contradict the launcher, or the processes do not find each other.
    """
    started = launched()
    if started and ((devices or started[0]), (nodes or started[1])) != started:
        raise RunError(f"{started[0]} processes were started on each of {started[1]} machines; leave --devices out.")
    devices, nodes = started or (devices or 1, nodes or 1)
    if devices * nodes == 1:
        yield
        return
    import torch.distributed

    fabric = _fabric(config, devices, nodes)
    try:
        fabric.launch()
    except (RuntimeError, ValueError) as error:
        raise RunError(
            f"The {devices * nodes} processes did not find each other ({str(error).splitlines()[0]}); check that all "
            "were started, and that MASTER_ADDR and MASTER_PORT can be reached from every machine."
        ) from error
    group = processes.Group(
        fabric.global_rank, fabric.world_size, fabric.local_rank, min(devices, fabric.world_size), fabric
    )
    try:
        with processes.joined(group):
            yield
    finally:
        torch.distributed.destroy_process_group()


def _fabric(config: RunConfig, devices: int = 1, nodes: int = 1) -> Any:
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    mixed = uses_bfloat16(config.training.precision, _kind(config.device))
    precision: Any = "bf16-mixed" if mixed else "32-true"
    several = _several(config.device, nodes) if devices * nodes > 1 else {}
    try:
        return Fabric(accelerator=config.device, devices=devices, precision=precision, **several)
    except (RuntimeError, ValueError, MisconfigurationException) as error:
        raise RunError(f"The device {config.device!r} cannot be used ({error}); set device to auto or cpu.") from error


def _kind(device: str) -> str:
    """The type of device that the config's `device` stands for."""
    import torch

    return "cuda" if device in ("cuda", "gpu") or (device == "auto" and torch.cuda.is_available()) else "cpu"


def _several(device: str, nodes: int) -> dict[str, Any]:
    """What Fabric is told for several processes."""
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning_fabric.strategies.ddp import DDPStrategy

    class Replicas(DDPStrategy):
        """Every process has the whole network; the loop adds up gradients itself, weighing unequal parts of a batch."""

        def setup_module(self, module: Any) -> Any:
            return module

    environment: Any = LightningEnvironment
    if MEMBER not in os.environ:
        environment = TorchElasticEnvironment if "TORCHELASTIC_RUN_ID" in os.environ else SLURMEnvironment
    return {
        "num_nodes": nodes,
        "strategy": Replicas(process_group_backend=_BACKENDS[_kind(device)]),
        "plugins": [environment()],
    }
