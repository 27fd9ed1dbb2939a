"""`--devices N`: real processes, started, watched and ended by the command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from factlearn.learning.runs import load_run
from tests.cli.commands import factlearn

COMMAND = [sys.executable, "-c", "from factlearn.cli import main; main()"]


@pytest.fixture
def train(digits_config, tmp_path, monkeypatch):
    """Starts `factlearn train` on digits with some options, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.yaml").write_text(yaml.safe_dump(digits_config))
    started = []
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}

    def start(*options):
        command = [*COMMAND, "train", "digits.yaml", "--out", "run", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, start_new_session=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def members_of(process):
    """The ids of the processes that a command has started, in their order."""
    return [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_process_ends_all_with_one_sentence_and_the_run_resumes(train):
    process = train("--devices", "2", "--set", "training.epochs=2000")
    wait_for(lambda: Path("run/checkpoint/position.json").is_file())
    os.kill(members_of(process)[1], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err.splitlines()[-1] == (
        "factlearn: Process 2 of 2 was killed by SIGKILL, so all have stopped; continue from the last checkpoint with "
        "--resume, on any number of devices."
    )
    assert "Traceback" not in err
    assert load_run("run").checkpoint(1) is not None


@pytest.mark.slow
def test_two_devices_print_one_table_and_then_say_that_nothing_is_left(train):
    out, err = train("--devices", "2", "--set", "training.epochs=1").communicate(timeout=120)
    assert out.count("after learning") == 1
    assert err.count("Stage 1 of 5") == 1
    process = train("--devices", "2", "--set", "training.epochs=1", "--resume")
    assert "Nothing to do" in process.communicate(timeout=120)[1]
    process = train("--devices", "2", "--set", "training.epochs=1")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err == "factlearn: run holds a run already; continue it with --resume, or choose another --out.\n"


@pytest.mark.slow
def test_an_interrupt_leaves_a_checkpoint_and_no_process(train):
    process = train("--devices", "2", "--set", "training.epochs=2000")
    wait_for(lambda: Path("run/checkpoint/position.json").is_file())
    members = members_of(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("factlearn: Interrupted; nothing is left half-written.")
    assert not any(Path(f"/proc/{member}").exists() for member in members)
    assert not list(Path("run").rglob("*.tmp"))


def test_several_machines_need_to_be_told_where_the_first_is(train, tmp_path):
    done = factlearn("train", "digits.yaml", "--out", "run", "--nodes", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "--nodes needs MASTER_ADDR, MASTER_PORT, NODE_RANK in the environment" in done.stderr
