"""Several processes that learn together, forked from the test: as `--devices` has them, without their start."""

import multiprocessing
import os
import socket
import traceback

from factlearn.errors import FactlearnError, ProcessLost
from factlearn.learning.engine import together
from factlearn.learning.training import train
from tests.learning.helpers import parsed

LOST, REFUSED = 75, 2


def by_devices(rank, count):
    """What `--devices` sets in the environment."""
    return {"LOCAL_RANK": rank, "FACTLEARN_MEMBER": "test"}


def by_torchrun(rank, count):
    """What torchrun sets."""
    sizes = {"LOCAL_WORLD_SIZE": count, "WORLD_SIZE": count}
    return {"TORCHELASTIC_RUN_ID": "test", "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, **sizes}


def by_slurm(rank, count):
    """What srun sets."""
    step = {"STEP_NUM_TASKS": count, "STEP_NUM_NODES": 1, "NTASKS": count, "NTASKS_PER_NODE": count, "NNODES": 1}
    place = {"PROCID": rank, "LOCALID": rank, "NODEID": 0, "NODELIST": "127.0.0.1", "JOB_ID": 1, "JOB_NAME": "test"}
    return {f"SLURM_{name}": value for name, value in {**step, **place}.items()}


def in_processes(count, config, work, launcher=by_devices):
    """Call `work(rank)` in so many processes that learn together; how each ended, 0 if well."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    members = [fork.Process(target=_member, args=(rank, count, port, config, work, launcher)) for rank in range(count)]
    for member in members:
        member.start()
    for member in members:
        member.join(120)
    return [member.exitcode for member in members]


def _member(rank, count, port, config, work, launcher):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {name: str(value) for name, value in launcher(rank, count).items()}
    code = 1
    try:
        with together(config, devices=count if launcher is by_devices else None):
            work(rank)
        code = 0
    except ProcessLost:
        code = LOST
    except FactlearnError as error:
        print(error)
        code = REFUSED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def learn_together(count, config, folder, *, resume=False, stop_after=None, **changes):
    """A run learned by so many processes, as `helpers.learn` does by one; how each process ended."""
    checked = parsed(config, **changes)
    return in_processes(count, checked, lambda _: train(checked, folder, resume=resume, stop_after=stop_after))
