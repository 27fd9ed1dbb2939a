"""Invariants of importance over random networks, batches and partitions."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from factlearn.lifelong.importance import Importance, estimate
from tests.lifelong.oracle import assert_equal, loop

ACTIVATIONS = (nn.Identity, nn.ReLU, nn.Tanh, nn.GELU, lambda: nn.ReLU(inplace=True), nn.PReLU)


@st.composite
def convolutions(draw: st.DrawFn, channels: int) -> nn.Conv2d:
    groups = draw(st.sampled_from([g for g in (1, 2, 4) if channels % g == 0]))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride = draw(st.sampled_from([1, 2, (1, 2)]))
    dilation = draw(st.sampled_from([1, (2, 1)]))
    steps = (dilation, dilation) if dilation == 1 else dilation
    reach = tuple(step * (size - 1) for size, step in zip(kernel, steps, strict=True))
    half = tuple((far + 1) // 2 for far in reach)  # at least, or a small image vanishes
    padding = draw(st.sampled_from([half, reach, *(["same"] if stride == 1 else [])]))
    return nn.Conv2d(
        channels,
        groups * draw(st.integers(1, 3)),
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=draw(st.sampled_from(["zeros", "replicate"])),
    )


@st.composite
def networks(draw: st.DrawFn) -> nn.Module:
    """Convolutions, normalisations and activations in any order, then Linear layers."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    channels, layers = 2, []
    for _ in range(draw(st.integers(0, 3))):
        layer = draw(convolutions(channels))
        channels = layer.out_channels
        layers.append(layer)
        if draw(st.booleans()):
            layers.append(draw(st.sampled_from([nn.BatchNorm2d(channels), nn.GroupNorm(1, channels)])))
        layers.append(draw(st.sampled_from(ACTIVATIONS))())
    layers.append(nn.AdaptiveAvgPool2d(2))
    layers.append(draw(st.sampled_from([nn.Flatten(1), nn.Flatten(2)])))
    width = 4 * channels if layers[-1].start_dim == 1 else 4
    for _ in range(draw(st.integers(0, 2))):
        wider = draw(st.integers(1, 7))
        layers += [nn.Linear(width, wider, bias=draw(st.booleans())), draw(st.sampled_from(ACTIVATIONS))()]
        width = wider
    layers.append(nn.LayerNorm(width) if draw(st.booleans()) else nn.Linear(width, 3))
    return nn.Sequential(*layers).double()


def inputs_of(samples: int, seed: int = 0) -> Tensor:
    return torch.randn(samples, 2, 7, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=150, deadline=None)
@given(model=networks(), samples=st.integers(1, 5), batch=st.integers(1, 5))
def test_importance_equals_the_definition_for_any_network_and_batch_size(
    model: nn.Module, samples: int, batch: int
) -> None:
    inputs = inputs_of(samples)
    assert_equal(estimate(model, inputs.split(batch)).mean(), loop(model, inputs), relative=1e-9)


@settings(max_examples=60, deadline=None)
@given(model=networks(), cut=st.integers(1, 5), measure=st.sampled_from(["mas", "local", "mas-vector"]))
def test_importance_does_not_depend_on_how_samples_are_grouped(model: nn.Module, cut: int, measure: str) -> None:
    inputs = inputs_of(6)
    whole = estimate(model, [inputs], measure)
    shards = [estimate(model, [rows], measure) for rows in (inputs[cut:], inputs[:cut])]
    assert_equal(shards[0].merge(shards[1]).mean(), whole.mean(), relative=1e-9)
    assert_equal(estimate(model, inputs.flip(0).split(1), measure).mean(), whole.mean(), relative=1e-9)


numbers = st.floats(0, 1e3, width=32)
importances = st.builds(
    lambda one, two, count: Importance({"a": torch.tensor(one), "b": torch.tensor([two])}, count),
    numbers,
    numbers,
    st.integers(1, 100),
)


@given(one=importances, other=importances, third=importances)
def test_merging_commutes_and_associates(one: Importance, other: Importance, third: Importance) -> None:
    assert_equal(one.merge(other).mean(), other.merge(one).mean(), relative=1e-6)
    assert_equal(one.merge(other).merge(third).mean(), one.merge(other.merge(third)).mean(), relative=1e-5)
    assert one.merge(other).count == one.count + other.count


@given(one=importances, factor=numbers)
def test_scaling_commutes_with_merging(one: Importance, factor: float) -> None:
    twice = one.merge(one).scaled(factor)
    assert_equal(twice.mean(), one.scaled(factor).mean(), relative=1e-5)
