"""A short version of `make soak`, and of signals to a process that learns."""

import signal

import pytest

from tests.soak import faults, indexes, runs
from tests.soak.faults import Mode
from tests.soak.forks import Forks

needs_compiler = pytest.mark.skipif(not faults.compiler(), reason="a C compiler makes write calls fail")


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soak")
    with Forks(folder, faults.build(folder) if faults.compiler() else None) as server:
        yield server


@pytest.fixture(scope="module")
def small(forks, tmp_path_factory):
    return runs.Runs(forks, tmp_path_factory.mktemp("runs"))


def test_runs_that_are_killed_end_bit_identical(small):
    hit, finished = small.kill_at_random(3, seed=3)
    assert hit == 3
    assert finished


@pytest.mark.slow
@needs_compiler
def test_a_run_survives_errors_at_any_of_its_write_calls(small):
    done, outcomes = small.fail_in_turn((Mode.FAIL_FROM, Mode.KILL_AFTER), step=120)
    assert sum(done.values()) >= 4
    assert outcomes[2]


@needs_compiler
def test_an_index_survives_errors_at_any_of_its_write_calls(forks, tmp_path):
    done, outcomes = indexes.Indexes(forks, tmp_path / "indexes").fail_in_turn((Mode.FAIL, Mode.KILL_BEFORE), step=61)
    assert sum(done.values()) >= 8
    assert outcomes[2] + outcomes[-signal.SIGKILL] > 4


@pytest.mark.slow
def test_sigterm_ends_training_with_one_sentence_and_a_run_that_resumes(small):
    code = small.terminate(small.seconds / 2)
    assert code in (143, 0)
    assert code == 0 or "continue with --resume" in small.forks.said
    small.finish()
