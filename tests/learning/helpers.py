"""Short ways to learn, to interrupt learning, and to look at what was learned."""

import copy

import pytest

from factlearn.learning.config import parse_config
from factlearn.learning.runs import Run, load_tensors
from factlearn.learning.training import train

IN_CI = ("finetune", "mas", "imm-mode", "drift", "ridge", "joint")
"""One method of each kind; where a test takes seconds for each, the others are slow."""


def some_in_ci(names):
    """Names of methods as parameters; those not in `IN_CI` run with `pytest -m slow`."""
    return [name if name in IN_CI else pytest.param(name, marks=pytest.mark.slow) for name in names]


def parsed(config, **changes):
    """A checked config with changes: `training__epochs=1` sets a key, `strategy={...}` a whole section."""
    raw = copy.deepcopy(config)
    for key, value in changes.items():
        section, _, name = key.partition("__")
        raw[section] = {**raw[section], name: value} if name else value
    return parse_config(raw, "test")


def learn(config, folder, *, stop_after=None, resume=False, **changes):
    """A run of the config with changes, see `parsed`."""
    return train(parsed(config, **changes), folder, stop_after=stop_after, resume=resume)


def learn_interrupted(config, folder, at, **changes):
    """Learn until the `at`-th line of metrics was logged, then get a Ctrl-C."""
    log, logged = Run.log, []

    def interrupt(self, **values):
        log(self, **values)
        logged.append(values)
        if len(logged) == at:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "log", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learn(config, folder, **changes)


def tensors(run, stage, file):
    """One file of a finished stage: model, strategy or outputs."""
    return load_tensors(run.stage_folder(stage) / f"{file}.safetensors")


def omega_of(run, stage=1):
    """The importance that a stage left, by parameter."""
    state = tensors(run, stage, "strategy")
    return {name.removeprefix("omega."): value for name, value in state.items() if name.startswith("omega.")}


def same_bits(one, other):
    """Whether two sets of tensors are equal bit for bit, NaN included."""
    return one.keys() == other.keys() and all(_bits(one[name]) == _bits(other[name]) for name in one)


def _bits(tensor):
    return tensor.dtype, tensor.shape, tensor.numpy().tobytes()


def assert_same_run(one, other):
    """Weights, what the strategy remembers, outputs, metrics and records are equal bit for bit."""
    assert one.finished_stages() == other.finished_stages()
    for stage in range(1, one.finished_stages() + 1):
        for file in ("model", "strategy", "outputs"):
            assert same_bits(tensors(one, stage, file), tensors(other, stage, file)), (stage, file)
        first, second = ({**run.stage(stage), "seconds": None} for run in (one, other))
        assert first == second
    assert one.metrics() == other.metrics()
