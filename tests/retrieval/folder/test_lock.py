import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from factlearn.errors import FactIndexError
from factlearn.retrieval.folder.lock import locked


def test_a_second_writer_waits_and_then_says_who_writes(index):
    with locked(index.path):
        started = time.monotonic()
        holder = rf"being written by another process .*{os.getpid()}"
        with pytest.raises(FactIndexError, match=holder), locked(index.path, patience=0.3):
            pass
        assert time.monotonic() - started >= 0.3
    with locked(index.path, patience=0):
        pass


def test_a_writer_that_waited_while_the_index_was_replaced_locks_the_new_one(index, tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def write():
        with locked(index.path):
            entered.set()
            leave.wait(10)

    new = shutil.copytree(index.path, tmp_path / "new")
    writer = threading.Thread(target=write)
    with locked(index.path):
        writer.start()
        time.sleep(0.2)
        index.path.rename(tmp_path / "old")
        Path(new).rename(index.path)
    assert entered.wait(10)
    with pytest.raises(FactIndexError, match="being written"), locked(index.path, patience=0):
        pass
    leave.set()
    writer.join()
