import pytest
import torch

from factlearn.config import shipped
from factlearn.learning.config import load_config
from factlearn.models import precision
from factlearn.models.precision import has_bfloat16, uses_bfloat16


@pytest.fixture(params=[True, False])
def instructions(request, monkeypatch):
    """Whether the CPU says that it has bfloat16."""
    for name in precision._INSTRUCTIONS:
        monkeypatch.setattr(torch.cpu, name, lambda: request.param, raising=False)
    for cached in (has_bfloat16, precision._warn_of_emulation):
        cached.cache_clear()
    yield request.param
    for cached in (has_bfloat16, precision._warn_of_emulation):
        cached.cache_clear()


def test_auto_is_bfloat16_only_where_the_cpu_has_it(instructions):
    assert uses_bfloat16("auto") is instructions
    assert uses_bfloat16("auto", "mps") is False


def test_a_precision_that_is_named_is_used(instructions):
    assert uses_bfloat16("bfloat16")
    assert not uses_bfloat16("float32")


def test_bfloat16_that_will_be_slow_is_said_once(instructions, monkeypatch):
    said = []
    monkeypatch.setattr(precision, "say", said.append)
    for _ in range(3):
        uses_bfloat16("bfloat16")
    assert len(said) == (0 if instructions else 1)


@pytest.mark.parametrize("name", ["photos", "photos_quick", "learning/objects", "learning/facts", "learning/emoji8"])
def test_shipped_configs_leave_the_precision_to_the_machine(name):
    own = {"photos": "manifest", "photos_quick": "manifest", "learning/objects": "root"}
    config = load_config(shipped(f"{name}.yaml"), [f"data.{own[name]}=."] if name in own else [])
    assert "bfloat16" not in (config.model.precision, config.training.precision)
