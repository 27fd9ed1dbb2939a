"""Several processes that learn together, forked from the test's: the same as `--devices` starts, without their start."""

import multiprocessing
import os
import socket
import traceback

from factlearn.errors import FactlearnError, ProcessLost
from factlearn.learning.engine import together
from factlearn.learning.training import train
from tests.learning.helpers import parsed

LOST, REFUSED = 75, 2


def in_processes(count, config, work):
    """Call `work(rank)` in so many processes that learn together; how each ended, 0 if well."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    members = [fork.Process(target=_member, args=(rank, count, port, config, work)) for rank in range(count)]
    for member in members:
        member.start()
    for member in members:
        member.join(120)
    return [member.exitcode for member in members]


def _member(rank, count, port, config, work):
    os.environ |= {"LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["FACTLEARN_MEMBER"] = "test"
    code = 1
    try:
        with together(config, devices=count):
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
