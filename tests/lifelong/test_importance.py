"""The importance engine equals the per-sample definition, whatever the network."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from factlearn.lifelong.gradients.forward import untouched
from factlearn.lifelong.gradients.general import GeneralPath
from factlearn.lifelong.importance import estimate
from factlearn.models.vision import torchvision
from tests.lifelong.oracle import assert_equal, loop


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def awake(model: nn.Module) -> nn.Module:
    """Give normalisations the statistics and scales of a trained network."""
    for module in model.modules():
        for name in ("weight", "bias", "running_mean", "running_var"):
            values = getattr(module, name, None)
            if isinstance(values, Tensor) and values.dim() == 1:
                torch.nn.init.uniform_(values, 0.5, 1.5)
    return model


def strided_grouped_dilated() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 5, stride=2, padding=2, groups=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=4, bias=False),
        nn.Tanh(),
        nn.Conv2d(8, 6, 2, padding="same", dilation=3),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1, groups=6, padding_mode="reflect"),
        nn.Conv2d(6, 10, 1),
        nn.Conv2d(10, 6, 1, stride=2, padding=1),
        nn.Flatten(),
        nn.LazyLinear(5),
    )


def normalised() -> nn.Module:
    return awake(
        nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(inplace=True),
            nn.Conv2d(6, 4, 3),
            nn.GroupNorm(2, 4),
            nn.PReLU(4),
            nn.InstanceNorm2d(4, affine=True),
            nn.Flatten(),
            nn.Linear(64, 7),
            nn.BatchNorm1d(7),
            nn.LayerNorm(7),
            nn.Linear(7, 3),
        )
    )


def test_importance_of_an_mlp_equals_the_per_sample_definition() -> None:
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 4))
    inputs = torch.randn(25, 20)
    assert_equal(estimate(model, inputs.split(8)).mean(), loop(model, inputs))


@pytest.mark.parametrize(("name", "size"), [("alexnet", 79), ("vgg16", 33)])
def test_importance_of_the_papers_networks_equals_the_per_sample_definition(name: str, size: int) -> None:
    model = getattr(torchvision.models, name)(num_classes=10)
    for index, layer in enumerate(model.classifier):
        if isinstance(layer, nn.Linear) and layer.in_features > 4096:
            pool = nn.Linear(256 if name == "alexnet" else 512, 64)
            model.avgpool, model.classifier[index] = nn.AdaptiveAvgPool2d(1), pool
        elif isinstance(layer, nn.Linear):
            model.classifier[index] = nn.Linear(64, 64 if layer.out_features == 4096 else 10)
    inputs = torch.randn(4, 3, size, size)
    assert_equal(estimate(model, [inputs[:3], inputs[3:]]).mean(), loop(model, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_importance_of_the_papers_networks_at_full_size_equals_the_definition(name: str) -> None:
    model, inputs = getattr(torchvision.models, name)(), torch.randn(4, 3, 224, 224)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


@pytest.mark.parametrize("build", [strided_grouped_dilated, normalised])
def test_importance_of_any_layer_equals_the_per_sample_definition(build: type) -> None:
    model = build()
    inputs = torch.randn(7, 4 if build is strided_grouped_dilated else 3, 8, 8)
    if build is strided_grouped_dilated:
        inputs = torch.randn(7, 4, 17, 19)
        model(inputs)
    assert_equal(estimate(model, inputs.split(4)).mean(), loop(model, inputs))


@pytest.mark.parametrize(("channels", "size"), [(160, 6), (160, 11), (200, 9)])
def test_large_convolutions_take_other_paths_to_the_same_result(channels: int, size: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, groups=2, stride=1),
        nn.ReLU(),
        nn.Conv2d(channels, 210, 1),
        nn.AdaptiveAvgPool2d(1),
    )
    inputs = torch.randn(3, 3, size, size)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


def test_other_convolutions_equal_the_per_sample_definition() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv1d(3, 4, 3, padding="same", padding_mode="circular")
            self.up = nn.ConvTranspose1d(4, 2, 4, stride=2)
            self.three = nn.Conv3d(2, 3, (2, 3, 1), padding=(1, 0, 0))

        def forward(self, inputs: Tensor) -> Tensor:
            up = self.up(self.one(inputs).relu_())
            return self.three(up[..., :16].reshape(-1, 2, 4, 4, 1))

    model, inputs = Net(), torch.randn(5, 3, 9)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


def test_images_may_lie_in_memory_with_their_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 80, 3), nn.ReLU(), nn.Conv2d(80, 4, 3))
    inputs = torch.randn(3, 3, 19, 19)
    omega = estimate(model, [inputs.contiguous(memory_format=torch.channels_last)]).mean()
    assert_equal(omega, loop(model, inputs))
    assert all(values.is_contiguous() for values in omega.values())


class Shared(nn.Module):
    """A weight used twice, tied to an embedding's, on sequences; one use through the functional form."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.step = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.embedding(words)
        for _ in range(2):
            hidden = F.relu(self.step(hidden), inplace=True) + F.linear(hidden, self.step.weight)
        return self.head(self.norm(hidden))


@pytest.mark.parametrize("samples", [1, 4, 9])
def test_shared_weights_add_up_before_the_absolute_value(samples: int) -> None:
    model, words = Shared(), torch.randint(11, (samples, 4))
    assert_equal(estimate(model, [words]).mean(), loop(model, words))


class TimeFirst(nn.Module):
    """Layers that see time, or windows folded into the batch, on their first axis."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs.transpose(0, 1)).tanh()
        folded = self.second(hidden.transpose(0, 1).reshape(-1, 5))
        return folded.reshape(len(inputs), -1)


@pytest.mark.parametrize("samples", [1, 3, 4, 6])
def test_layers_without_a_row_a_sample_are_measured_right(samples: int) -> None:
    model, inputs = TimeFirst(), torch.randn(samples, 4, 3)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.memory(inputs)[0][:, -1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.randn(5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(8, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.block(inputs + self.place).mean(1))


@pytest.mark.parametrize(("build", "shape"), [(Recurrent, (6, 5, 3)), (Attending, (7, 5, 8))])
def test_parameters_without_a_formula_are_measured_by_the_definition(build: type, shape: tuple[int, ...]) -> None:
    model, inputs = build(), torch.randn(shape)
    assert_equal(estimate(model, inputs.split(4)).mean(), loop(model, inputs), relative=2e-5)


@pytest.mark.parametrize(("build", "shape"), [(Recurrent, (6, 5, 3)), (Attending, (7, 5, 8))])
def test_models_that_can_be_mapped_over_samples_are(build: type, shape: tuple[int, ...]) -> None:
    model, inputs = build(), torch.randn(shape)
    path, parameters = GeneralPath(model), {"head.bias": model.head.bias}
    with untouched(model):
        found = dict(path.gradients(parameters, inputs, [torch.ones(len(inputs), len(model.head.bias))]))
    assert path.can_map == (build is Attending)
    assert torch.allclose(found["head.bias"], torch.ones(1))


def test_batch_statistics_in_eval_mode_are_each_samples_own() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 3),
    )
    inputs = torch.randn(5, 2, 6, 6)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


class Forked(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.body = form, nn.Linear(4, 6)
        self.heads = nn.ModuleDict({unit: nn.Linear(6, 5) for unit in ("subject", "predicate", "object")})

    def forward(self, inputs: Tensor) -> object:
        hidden = self.body(inputs).relu()
        outputs = {unit: head(hidden) for unit, head in self.heads.items()}
        if self.form == "dict":
            return outputs
        return torch.stack(list(outputs.values()), 1) if self.form == "stack" else tuple(outputs.values())


@pytest.mark.parametrize("form", ["stack", "tuple", "dict"])
def test_the_norm_runs_over_all_outputs_whatever_their_structure(form: str) -> None:
    model, inputs = Forked(form), torch.randn(6, 4)
    assert_equal(estimate(model, [inputs]).mean(), loop(model, inputs))


def test_importance_of_a_half_precision_model_is_summed_in_single_precision() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).to(torch.bfloat16)
    omega = estimate(model, [torch.randn(40, 8, dtype=torch.bfloat16)])
    assert all(total.dtype == torch.float32 for total in omega.sums.values())


def test_batch_absolute_is_another_quantity_and_never_larger() -> None:
    model, inputs = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5)), torch.randn(64, 10)
    exact = estimate(model, [inputs]).mean()
    batch = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
    for (name, omega), gradient in zip(exact.items(), batch, strict=True):
        assert (gradient.abs() / 64 <= omega * (1 + 1e-5)).all(), name
