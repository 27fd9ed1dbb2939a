"""What goes wrong while learning: signals, losses that are no numbers, damaged files, changed code, two writers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from factlearn.errors import RunError, StoppedError
from factlearn.learning import provenance
from factlearn.learning.divergence import check_finite
from factlearn.learning.facts import FactProblem
from factlearn.learning.runs import Run
from factlearn.learning.storage import load_tensors, read_sealed, save_tensors, write_sealed
from factlearn.lifelong.registry import METHODS
from factlearn.models.inputs import shuffled
from factlearn.progress import listening
from tests.learning.helpers import assert_same_run, learn, learn_interrupted, parsed

ROOT = Path(__file__).parents[2]
QUICK = ("mas", "si", "lwf")
GRADUAL = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in METHODS
    if name not in ("joint", "ridge") and "classes" in METHODS[name].problems
]


def terminate_at(step, stage=2):
    """Get a SIGTERM when this many batches of a stage are learned."""

    def listener(what, done, total):
        if what == f"learning stage {stage}" and done == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return listening(listener)


@pytest.fixture
def quick(digits_config):
    digits_config["model"]["dropout"] = 0.2
    digits_config["training"]["batch_size"] = 100
    return digits_config


@pytest.mark.parametrize("name", GRADUAL)
def test_sigterm_in_the_middle_of_an_epoch_keeps_a_checkpoint_that_resumes_bit_for_bit(quick, tmp_path, name):
    changes = {"strategy": {"name": name}, "stop_after": 2}
    whole = learn(quick, tmp_path / "whole", **changes)
    with terminate_at(5), pytest.raises(StoppedError, match="--resume"):
        learn(quick, tmp_path / "cut", **changes)
    checkpoint = Run.open(tmp_path / "cut").checkpoint(2)
    assert (checkpoint.epoch, len(checkpoint.middle["losses"])) == (1, 2)
    assert_same_run(whole, learn(quick, tmp_path / "cut", resume=True, **changes))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("step", [1, 3, 6, 9])
def test_sigterm_may_come_after_any_batch(quick, tmp_path, step):
    """After the first and the last of an epoch too, and of the first stage, in which nothing was measured yet."""
    whole = learn(quick, tmp_path / "whole", stop_after=1)
    with terminate_at(step, stage=1), pytest.raises(StoppedError):
        learn(quick, tmp_path / "cut", stop_after=1)
    assert_same_run(whole, learn(quick, tmp_path / "cut", resume=True, stop_after=1))


def test_sigterm_outside_the_loop_leaves_at_once(config, tmp_path):
    def listener(what, done, total):
        if what.startswith("activations"):
            os.kill(os.getpid(), signal.SIGTERM)

    with listening(listener), pytest.raises(StoppedError):
        learn(config, tmp_path / "run")
    run = learn(config, tmp_path / "run", resume=True)
    assert run.finished_stages() == 2


@pytest.mark.slow
def test_two_processes_leave_together_at_sigterm_and_one_resumes_what_they_learned(quick, tmp_path):
    quick["training"] |= {"epochs": 300, "checkpoint_epochs": 1000}
    (tmp_path / "config.yaml").write_text(parsed(quick).to_yaml())
    command = ["train", "config.yaml", "--out", "run", "--devices", "2", "--tasks", "1"]
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from factlearn.cli import main; main()"
    started = subprocess.Popen([sys.executable, "-c", code, *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert any("Stage 1" in line for line in started.stderr)
    time.sleep(1)
    started.terminate()
    assert "Stopped by SIGTERM" in started.communicate(timeout=100)[1]
    assert started.returncode == 143
    assert Run.open(tmp_path / "run").checkpoint(1).middle
    whole, cut = (
        learn(quick, tmp_path / "whole", stop_after=1),
        learn(quick, tmp_path / "run", resume=True, stop_after=1),
    )
    losses = [[line["loss"] for line in run.metrics() if line["event"] == "epoch"] for run in (whole, cut)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_loss_that_is_no_number_names_its_images_and_keeps_the_last_checkpoint(config, tmp_path, monkeypatch):
    from factlearn.learning import facts

    calls = []

    def loss(vectors, targets, mask):
        calls.append(len(targets))
        value = plain(vectors, targets, mask)
        return value * float("nan") if len(calls) == 5 else value

    plain = facts.masked_squared_distance
    monkeypatch.setattr(facts, "masked_squared_distance", loss)
    with pytest.raises(RunError, match="diverged") as caught:
        learn(config, tmp_path / "run")
    named = re.findall(r"\d-\d\.png", str(caught.value))
    assert len(named) == calls[-1]
    assert Run.open(tmp_path / "run").checkpoint(1).epoch == 1
    monkeypatch.setattr(facts, "masked_squared_distance", plain)
    assert_same_run(learn(config, tmp_path / "whole"), learn(config, tmp_path / "run", resume=True))


def test_the_images_named_are_those_of_the_batch(config, tmp_path):
    problem = FactProblem.plan(parsed(config))
    data = problem.stage_data([0, 1])
    (*_, (_, rows)) = shuffled(data.inputs, data.views, 7, 5)
    photos = problem.stage_photos([0, 1])
    last = {"count": len(data.inputs), "seed": 7, "place": slice(-len(rows), None)}
    with pytest.raises(RunError) as caught:
        check_finite(torch.tensor(float("inf")), problem, [0, 1], 0, **last)
    assert [str(photos[row]) for row in rows] == [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_weights_that_are_no_numbers_do_not_replace_a_checkpoint(quick, tmp_path):
    with pytest.raises(RunError, match="diverged"):
        learn(quick, tmp_path / "run", training__learning_rate=1e30, training__momentum=0.0)


def damaged(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.safetensors", "strategy.safetensors", "position.json"]
)
def test_a_damaged_checkpoint_costs_the_stage_and_not_the_run(quick, tmp_path, file, capsys):
    whole = learn(quick, tmp_path / "whole", stop_after=2)
    learn_interrupted(quick, tmp_path / "cut", 6)
    damaged(tmp_path / "cut" / "checkpoint" / file)
    run = learn(quick, tmp_path / "cut", resume=True, stop_after=2)
    assert "The checkpoint cannot be used" in capsys.readouterr().err
    assert_same_run(whole, run)


def test_a_flipped_bit_in_a_finished_stage_is_an_error(quick, tmp_path):
    run = learn(quick, tmp_path / "run", stop_after=1, training__epochs=1)
    for file in ("model.safetensors", "outputs.safetensors"):
        damaged(run.stage_folder(1) / file)
        with pytest.raises(RunError, match="checksum"):
            load_tensors(run.stage_folder(1) / file)
    damaged(run.stage_folder(1) / "stage.json")
    with pytest.raises(RunError, match="damaged"):
        run.stage(1)


def test_files_of_earlier_versions_have_no_checksums_and_are_read(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "old.safetensors")
    assert load_tensors(tmp_path / "old.safetensors")["a"].tolist() == [1, 1]
    (tmp_path / "old.json").write_text('{"epoch": 3}')
    assert read_sealed(tmp_path / "old.json") == {"epoch": 3}


def test_what_is_saved_comes_back_with_every_type_and_shape(tmp_path):
    tensors = {
        "scalar": torch.tensor(3.0, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "transposed": torch.arange(6).reshape(2, 3).T,
    }
    save_tensors(tensors, tmp_path / "a.safetensors")
    found = load_tensors(tmp_path / "a.safetensors")
    assert {name: (value.dtype, value.tolist()) for name, value in found.items()} == {
        name: (value.dtype, value.tolist()) for name, value in tensors.items()
    }
    write_sealed(tmp_path / "a.json", {"pair": (1, 2.5), "names": {3: "x"}})
    assert read_sealed(tmp_path / "a.json") == {"pair": [1, 2.5], "names": {"3": "x"}}


def test_a_changed_config_is_accepted_only_when_asked_to_and_recorded(quick, tmp_path):
    learn(quick, tmp_path / "run", stop_after=1)
    changed = parsed(quick, training__learning_rate=0.01)
    from factlearn.learning.training import train

    with pytest.raises(RunError, match=r"training\.learning_rate.*--accept-changes"):
        train(changed, tmp_path / "run", resume=True)
    run = train(changed, tmp_path / "run", resume=True, stop_after=2, accept_changes=True)
    assert run.config.training.learning_rate == 0.01
    assert run.description()["changes"] == [
        {"after_stage": 1, "changed": {"training.learning_rate": [0.05, 0.01]}},
    ]
    other = parsed(quick, training__learning_rate=0.01, model__hidden=[8])
    with pytest.raises(RunError, match=r"model\.hidden cannot change"):
        train(other, tmp_path / "run", resume=True, accept_changes=True)


def test_changed_code_is_refused_or_recorded(quick, tmp_path, monkeypatch):
    learn(quick, tmp_path / "run", stop_after=1)
    monkeypatch.setattr(provenance, "code_fingerprint", lambda: "other")
    with pytest.raises(RunError, match=r"other code.*--accept-changes"):
        learn(quick, tmp_path / "run", resume=True)
    from factlearn.learning.training import train

    run = train(parsed(quick), tmp_path / "run", resume=True, stop_after=2, accept_changes=True)
    assert run.description()["code"] == "other"
    assert run.description()["changes"][0]["after_stage"] == 1
    learn(quick, tmp_path / "run", resume=True)  # as recorded now
    monkeypatch.setattr(provenance, "code_fingerprint", lambda: "newer")
    learn(quick, tmp_path / "run", resume=True)  # is finished


def test_keep_bounds_the_disk_that_a_run_takes(quick, tmp_path):
    from factlearn.learning.training import train

    run = train(parsed(quick, training__epochs=1), tmp_path / "run", keep=1)
    kept = sorted(path.parent.name for path in run.folder.glob("stages/*/model.safetensors"))
    assert kept == ["5"]
    assert not (run.folder / "checkpoint").exists()
    assert [run.stage(stage)["tasks"][-1] for stage in range(1, 6)] == run.task_names()
    with pytest.raises(RunError, match="last stage must be kept"):
        train(parsed(quick), tmp_path / "other", keep=0)


def test_one_process_at_a_time_learns_a_run(quick, tmp_path):
    run = learn(quick, tmp_path / "run", stop_after=1)
    with run.writing(), pytest.raises(RunError, match="another process"):
        learn(quick, tmp_path / "run", resume=True)


def test_a_run_that_was_killed_before_it_began_starts_again_with_resume(quick, tmp_path):
    run = learn(quick, tmp_path / "run", stop_after=1)
    (run.folder / "run.json").unlink()
    again = learn(quick, tmp_path / "run", resume=True, stop_after=1)
    assert json.loads((again.folder / "run.json").read_text())["seed"] == 0
