"""Importance in use: online, merged, saved, weighed, over part of a network, and the model left as it was."""

import copy
import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.importance import Estimator, Importance, estimate
from factlearn.lifelong.measures import MEASURES


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(64, 3),
    )


def same(one: dict[str, Tensor], other: dict[str, Tensor], relative: float = 1e-5) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert (value - other[name]).norm() <= relative * other[name].norm(), name


@pytest.mark.parametrize("measure", ["mas", "local", "fisher"])
def test_online_updates_equal_one_pass(measure: str) -> None:
    model, inputs = network(), torch.randn(10, 2, 6, 6)
    online = Estimator(model, measure)
    for rows in (inputs[:1], inputs[1:4], inputs[4:]):
        online.update(rows)
    whole = estimate(model, [inputs], measure)
    assert online.importance.count == whole.count == 10
    same(online.importance.mean(), whole.mean())


@pytest.mark.parametrize("measure", ["mas", "mas-vector", "local"])
def test_merging_shards_equals_the_whole(measure: str) -> None:
    model, inputs = network(), torch.randn(9, 2, 6, 6)
    shards = [estimate(model, [rows], measure) for rows in inputs.split(4)]
    merged = shards[0].merge(shards[1]).merge(shards[2])
    same(merged.mean(), estimate(model, inputs.split(5), measure).mean())
    assert shards[0].count == 4


def test_importance_can_be_saved_loaded_and_added_to(tmp_path: Path) -> None:
    model, inputs = network(), torch.randn(8, 2, 6, 6)
    first = estimate(model, [inputs[:5]])
    first.save(tmp_path / "omega.safetensors")
    loaded = Importance.load(tmp_path / "omega.safetensors")
    assert loaded.count == 5
    assert all(torch.equal(loaded.sums[name], total) for name, total in first.sums.items())
    same(estimate(model, [inputs[5:]], start=loaded).mean(), estimate(model, [inputs]).mean())
    assert all(torch.equal(loaded.sums[name], total) for name, total in first.sums.items())


@pytest.mark.parametrize("content", [None, b"", b"not safetensors at all", bytes(64)])
def test_a_file_without_importance_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "omega.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"omega\.safetensors"):
        Importance.load(path)


def test_scaling_scales_the_mean() -> None:
    importance = estimate(network(), [torch.randn(4, 2, 6, 6)])
    scaled = importance.scaled(0.25)
    assert scaled.count == importance.count
    same(scaled.mean(), {name: value / 4 for name, value in importance.mean().items()})
    with pytest.raises(ModelError, match="negative"):
        importance.scaled(-1)


@pytest.mark.parametrize("measure", ["mas", "local", "fisher"])
def test_a_weight_counts_a_sample_that_many_times(measure: str) -> None:
    model, inputs = network(), torch.randn(3, 2, 6, 6)
    weighed = Estimator(model, measure).update(inputs, weights=torch.tensor([2.0, 0.0, 1.0]))
    same(weighed.mean(), estimate(model, [inputs[[0, 0, 2]]], measure).mean())
    assert weighed.count == 3


class Spoiled(nn.Module):
    """Raises once it has run so far, in forward or in backward."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.body, self.where = network(), where

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.body[:4](inputs)
        if self.where == "forward":
            raise KeyboardInterrupt
        if self.where == "backward" and hidden.requires_grad:
            hidden = hidden.clone()
            hidden.register_hook(_interrupt)
        return self.body[4:](hidden)


def _interrupt(_: Tensor) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["nowhere", "forward", "backward"])
@pytest.mark.parametrize("measure", ["mas", "local"])
def test_the_model_is_left_as_it_was_found(where: str, measure: str) -> None:
    model = Spoiled(where).train()
    model.body[1].eval()
    model.body[0].bias.requires_grad_(False)
    model.body[5].weight.grad = torch.ones(3, 64)
    flags = [module.training for module in model.modules()]
    needs = [parameter.requires_grad for parameter in model.parameters()]
    state, attention = copy.deepcopy(model.state_dict()), torch.backends.mha.get_fastpath_enabled()
    inputs = torch.randn(4, 2, 6, 6, requires_grad=True)
    try:
        estimate(model, [inputs], measure)
    except KeyboardInterrupt:
        assert where == "forward" or (where == "backward" and measure == "mas")
    assert [module.training for module in model.modules()] == flags
    assert [parameter.requires_grad for parameter in model.parameters()] == needs
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.body[5].weight.grad, torch.ones(3, 64))
    others = [p for name, p in model.named_parameters() if name != "body.5.weight"]
    assert inputs.grad is None
    assert all(parameter.grad is None for parameter in others)
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    assert torch.backends.mha.get_fastpath_enabled() == attention
    assert model(torch.randn(4, 2, 6, 6)).requires_grad if where == "nowhere" else True


def test_it_works_where_gradients_are_switched_off() -> None:
    model, inputs = network(), torch.randn(4, 2, 6, 6)
    expected = estimate(model, [inputs]).mean()
    with torch.no_grad():
        same(estimate(model, [inputs]).mean(), expected)
    with torch.inference_mode():
        made_here = inputs + 0
        same(estimate(model, [made_here]).mean(), expected)


def test_only_parameters_that_learn_are_measured_by_default() -> None:
    model, inputs = network(), torch.randn(4, 2, 6, 6)
    everything = estimate(model, [inputs]).mean()
    model[0].requires_grad_(False)
    learning = estimate(model, [inputs]).mean()
    assert set(learning) == {"1.weight", "1.bias", "5.weight", "5.bias"}
    same(learning, {name: everything[name] for name in learning})
    same(estimate(model, [inputs], parameters=["0.weight"]).mean(), {"0.weight": everything["0.weight"]})
    with pytest.raises(ModelError, match=r"'0\.wait'"):
        estimate(model, [inputs], parameters=["0.wait"])


def test_nothing_before_the_first_measured_layer_is_kept_for_backward() -> None:
    seen: list[bool] = []
    model = network()
    for layer in model:
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output.requires_grad))
    estimate(model, [torch.randn(4, 2, 6, 6)], parameters=["5.weight"])
    assert seen == [False, False, False, False, False, True]


@pytest.mark.parametrize("measure", ["mas", "local"])
def test_nothing_of_a_batch_is_held_after_its_update(measure: str) -> None:
    estimator, inputs = Estimator(network(), measure), torch.randn(4, 2, 6, 6)
    watched: list[weakref.ref] = []
    estimator.model[3].register_forward_hook(lambda module, args, output: watched.append(weakref.ref(output)))
    gc.disable()
    try:
        estimator.update(inputs)
        assert watched
        assert all(reference() is None for reference in watched)
    finally:
        gc.enable()


def test_progress_is_told_and_labels_are_ignored() -> None:
    model, inputs, told = network(), torch.randn(5, 2, 6, 6), []
    batches = [(inputs[:3], torch.zeros(3)), [inputs[3:], "names", 7]]
    same(estimate(model, batches, progress=told.append).mean(), estimate(model, [inputs]).mean())
    assert told == [3, 2]


def test_bad_batches_and_models_are_refused_in_one_sentence() -> None:
    model = network()
    with pytest.raises(ModelError, match="tensor"):
        estimate(model, ["images"])
    with pytest.raises(ModelError, match="at least one sample"):
        estimate(model, [torch.zeros(0, 2, 6, 6)])
    with pytest.raises(ModelError, match="without samples"):
        estimate(model, []).mean()
    with pytest.raises(ModelError, match="not finite"):
        estimate(model, [torch.full((2, 2, 6, 6), torch.nan)])
    with pytest.raises(ModelError, match="one row per sample"):
        estimate(nn.Sequential(nn.Linear(3, 3), nn.Flatten(0)), [torch.randn(2, 3)])
    with pytest.raises(ModelError, match="Weights"):
        Estimator(model).update(torch.randn(2, 2, 6, 6), weights=torch.tensor([1.0, -1.0]))
    with pytest.raises(ModelError, match="another shape"):
        estimate(nn.Linear(3, 2), [torch.randn(2, 3)]).merge(estimate(nn.Linear(4, 2), [torch.randn(2, 4)]))


def test_overwriting_a_layers_input_is_an_error_not_a_wrong_number() -> None:
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.one(inputs)
            output = self.two(hidden)
            hidden.zero_()
            return output

    with pytest.raises(ModelError, match="changed in place"):
        estimate(Overwriting(), [torch.randn(4, 3)])


def test_a_part_the_model_runs_without_gradients_has_no_importance() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fixed, self.cut, self.free = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            with torch.no_grad():
                hidden = self.fixed(inputs)
            return self.free(hidden + self.cut(inputs).detach())

    omega = estimate(Partly(), [torch.randn(4, 3)]).mean()
    assert not omega["fixed.weight"].any()
    assert not omega["cut.weight"].any()
    assert omega["free.weight"].all()


@pytest.mark.parametrize("measure", list(MEASURES))
def test_a_parameter_never_used_has_no_importance(measure: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    model.register_parameter("spare", nn.Parameter(torch.ones(2)))
    omega = estimate(model, [(torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))], measure).mean()
    assert not omega["spare"].any()
    assert omega["0.weight"].any()
