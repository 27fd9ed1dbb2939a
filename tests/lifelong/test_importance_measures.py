"""Every measure equals its definition, sample by sample."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from factlearn.errors import ModelError
from factlearn.lifelong.importance import estimate
from factlearn.lifelong.measures import MEASURES, Fisher
from tests.lifelong.oracle import Omega, assert_equal, loop


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def classifier() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(45, 8),
        nn.ReLU(),
        nn.Linear(8, 4),
    )


def images(samples: int = 6) -> Tensor:
    return torch.randn(samples, 2, 7, 7)


def test_mas_vector_adds_the_absolute_gradient_of_every_output() -> None:
    model, inputs = classifier(), images()
    expected = loop(model, inputs, lambda output: list(output.flatten()))
    assert_equal(estimate(model, inputs.split(4), "mas-vector").mean(), expected)


def test_true_fisher_is_the_expectation_over_the_models_own_labels() -> None:
    model, inputs = classifier(), images()

    def weighed(output: Tensor) -> list[Tensor]:
        logs = output.log_softmax(1).flatten()
        return [logs[label] * logs[label].exp().detach().sqrt() for label in range(len(logs))]

    expected = loop(model, inputs, weighed, power=2)
    assert_equal(estimate(model, inputs.split(4), "fisher").mean(), expected)


def test_empirical_fisher_squares_each_samples_gradient_of_its_label() -> None:
    model, inputs, labels = classifier(), images(), torch.tensor([0, 3, 1, 1, 2, 0])
    left = iter(labels)
    expected = loop(model, inputs, lambda output: [F.cross_entropy(output, next(left).view(1))], power=2)
    batches = zip(inputs.split(4), labels.split(4), strict=True)
    assert_equal(estimate(model, batches, "fisher-empirical").mean(), expected)


def test_sampled_fisher_tends_to_the_true_one_and_repeats_by_seed() -> None:
    model, inputs = classifier(), images(3)
    true = estimate(model, [inputs], "fisher").mean()
    sampled = estimate(model, [inputs], Fisher("sampled", draws=3000)).mean()
    for name in true:
        assert (sampled[name] - true[name]).norm() < 0.1 * true[name].norm(), name
    first, again, other = (estimate(model, [inputs], "fisher-sampled", seed=seed).mean() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_sampled_fisher_leaves_the_global_random_state_alone() -> None:
    model = nn.Linear(3, 2)
    inputs = torch.ones(4, 3)
    state = torch.random.get_rng_state()
    estimate(model, [inputs], "fisher-sampled")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_gaussian_fisher_of_an_embedding_needs_no_classes() -> None:
    model, inputs = nn.Sequential(nn.Linear(5, 12), nn.Unflatten(1, (3, 4))), torch.randn(6, 5)
    expected = loop(model, inputs, lambda output: list(output.flatten()), power=2)
    assert_equal(estimate(model, [inputs], Fisher(likelihood="gaussian")).mean(), expected)
    with pytest.raises(ModelError, match="gaussian"):
        estimate(model, [inputs], "fisher")


def test_gaussian_empirical_fisher_skips_units_without_a_target() -> None:
    model, inputs, targets = nn.Linear(5, 4), torch.randn(6, 5), torch.randn(6, 4)
    targets[2:, 1] = torch.nan
    left = iter(targets)

    def loss(output: Tensor) -> list[Tensor]:
        target = next(left)
        known = ~target.isnan()
        return [0.5 * (output[0] - target)[known].square().sum()]

    measure = Fisher("empirical", likelihood="gaussian")
    assert_equal(estimate(model, [(inputs, targets)], measure).mean(), loop(model, inputs, loss, power=2))


class Layered(nn.Module):
    """Convolutions with normalisation, pooling and reshaping before the activation, and a bare last layer."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.second = nn.Conv2d(6, 4, 3, groups=2)
        self.third = nn.Linear(36, 6)
        self.last = nn.Linear(6, 3)
        self.activation = activation

    def stages(self, inputs: Tensor) -> list[tuple[Tensor, tuple[str, ...]]]:
        one = self.activation(self.norm(self.first(inputs)))
        two = self.activation(F.max_pool2d(self.second(one.detach()), 2).flatten(1))
        three = self.activation(self.third(two.detach()))
        four = self.last(three.detach())
        names = (("first.weight", "norm.weight", "norm.bias"), ("second.weight", "second.bias"))
        return list(
            zip(
                (one, two, three, four),
                (*names, ("third.weight", "third.bias"), ("last.weight", "last.bias")),
                strict=True,
            )
        )

    def forward(self, inputs: Tensor) -> Tensor:
        one = self.activation(self.norm(self.first(inputs)))
        two = self.activation(F.max_pool2d(self.second(one), 2).flatten(1))
        return self.last(self.activation(self.third(two)))


def half_gradients(model: Layered, inputs: Tensor) -> Omega:
    """Half the absolute gradient of each layer's own squared norm, one sample at a time."""
    model.eval()
    parameters = dict(model.named_parameters())
    omega = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    for row in inputs.split(1):
        for stage, names in model.stages(row):
            own = [parameters[name] for name in names]
            for name, gradient in zip(names, torch.autograd.grad(stage.square().sum(), own), strict=True):
                omega[name] += gradient.abs().double() / 2
    return {name: total / len(inputs) for name, total in omega.items()}


@pytest.mark.parametrize(
    "activation", [nn.ReLU(), nn.ReLU(inplace=True), nn.Sigmoid(), nn.LeakyReLU(0.2, inplace=True), nn.GELU()]
)
def test_local_importance_is_half_the_gradient_of_each_layers_own_squared_norm(activation: nn.Module) -> None:
    model, inputs = Layered(activation), torch.randn(5, 3, 17, 17)
    torch.nn.init.uniform_(model.norm.running_var, 0.5, 1.5)
    assert_equal(estimate(model, inputs.split(3), "local").mean(), half_gradients(model, inputs))


def test_local_importance_of_relu_layers_is_hebbs_rule() -> None:
    first, second = nn.Linear(6, 9), nn.Linear(9, 7)
    inputs = torch.rand(8, 6)
    before = first(inputs).relu()
    after = second(before).relu()
    omega = estimate(nn.Sequential(first, nn.ReLU(), second, nn.ReLU()), [inputs], "local").mean()
    torch.testing.assert_close(omega["0.weight"], torch.einsum("kj,ki->ji", before, inputs) / 8)
    torch.testing.assert_close(omega["2.weight"], torch.einsum("kj,ki->ji", after, before) / 8)
    torch.testing.assert_close(omega["2.bias"], after.mean(0))


def test_local_importance_of_a_residual_layer_is_of_its_bare_output() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.inner(inputs)
            hidden += inputs
            return hidden.relu_()

    model, inputs = Residual(), torch.randn(5, 4)
    bare = model.inner(inputs).detach()
    omega = estimate(model, [inputs], "local").mean()
    torch.testing.assert_close(omega["inner.weight"], bare.abs().T @ inputs.abs() / 5)


def test_local_importance_of_a_shared_layer_adds_its_uses_sample_by_sample() -> None:
    layer = nn.Linear(4, 4)
    inputs = torch.randn(5, 4)
    one = layer(inputs)
    two = layer(one.detach())
    expected = (one.T.unsqueeze(2) * inputs + two.T.unsqueeze(2) * one).detach().abs().mean(1)
    omega = estimate(nn.Sequential(layer, layer), [inputs], "local").mean()
    torch.testing.assert_close(omega["0.weight"], expected)


def test_local_importance_refuses_a_parameter_of_no_layer() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift, self.layer = nn.Parameter(torch.ones(3)), nn.Linear(3, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs + self.shift)

    with pytest.raises(ModelError, match="'shift'"):
        estimate(Shifted(), [torch.randn(4, 3)], "local")
    rest = estimate(Shifted(), [torch.randn(4, 3)], "local", parameters=["layer.weight"])
    assert set(rest.sums) == {"layer.weight"}


@pytest.mark.parametrize("measure", [name for name in MEASURES if name != "fisher-empirical"])
def test_importance_is_never_negative_and_needs_no_labels(measure: str) -> None:
    omega = estimate(classifier(), [images()], measure).mean()
    assert all((values >= 0).all() and values.sum() > 0 for values in omega.values())


def test_an_unknown_measure_or_setting_is_refused_in_one_sentence() -> None:
    with pytest.raises(ModelError, match="mas-vector"):
        estimate(classifier(), [], "hessian")
    with pytest.raises(ModelError, match="targets"):
        estimate(classifier(), [images()], "fisher-empirical")
    with pytest.raises(ModelError, match="between 0 and 3"):
        estimate(classifier(), [(images(), torch.full((6,), 4))], "fisher-empirical")
    gaussian = Fisher("empirical", likelihood="gaussian")
    with pytest.raises(ModelError, match="24 target values"):
        estimate(classifier(), [(images(), torch.zeros(6, 5))], gaussian)
    with pytest.raises(ModelError, match="whole numbers"):
        estimate(classifier(), [(images(), torch.zeros(6, 4))], "fisher-empirical")
    for wrong in ({"labels": "none"}, {"likelihood": "poisson"}, {"draws": 0}):
        with pytest.raises(ModelError):
            Fisher(**wrong)
