"""Registration belongs to the method: one decorator makes it known to configs, reports and commands."""

from typing import Any, Literal, Self

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import factlearn.lifelong
from factlearn.config import Section, parse_as
from factlearn.errors import ConfigError, ModelError
from factlearn.lifelong.config import ImportanceConfig, MethodConfig
from factlearn.lifelong.registry import METHODS, StrategyConfig, make_strategy, method
from factlearn.lifelong.strategy import Learner, Strategy
from tests.lifelong.sequences import network, strategy_named


class Experiment(Section):
    strategy: StrategyConfig


class FrozenConfig(MethodConfig):
    """Settings of a method from another package."""

    name: Literal["frozen"] = "frozen"
    after: int = 1


class Frozen(Strategy):
    """Stops learning after some tasks."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.kept: list[Tensor] = []

    @classmethod
    def of(cls, config: Any) -> Self:
        return cls(config.after)

    def before_task(self, learner: Learner) -> None:
        self.kept = [p.detach().clone() for p in learner.parameters().values()]

    def after_backward(self, learner: Learner) -> None:
        if learner.task >= self.after:
            learner.optimizer.zero_grad()


@pytest.fixture
def frozen():
    METHODS.find("mas")
    yield method(title="Frozen", summary="stops learning after some tasks", config=FrozenConfig)(Frozen)
    METHODS.unregister("frozen")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_described_where_it_is_defined(name):
    entry = METHODS[name]
    assert entry.name == name == entry.config().name
    assert entry.title
    assert entry.summary[0].islower()
    assert not entry.summary.endswith(".")
    assert entry.config.__module__ == entry.strategy.__module__
    assert entry.importance == issubclass(entry.config, ImportanceConfig)
    assert set(entry.problems) <= {"facts", "classes"}


def test_every_method_learns_facts_and_classes():
    assert {entry.problems for entry in METHODS.values()} == {("facts", "classes")}


def test_a_method_from_outside_is_chosen_by_its_name(frozen):
    config = parse_as(Experiment, {"strategy": {"name": "frozen", "after": 2}}, "of a test").strategy
    strategy = make_strategy(config)
    assert isinstance(strategy, frozen)
    assert strategy.after == 2
    assert Experiment(strategy=config).model_dump()["strategy"] == {"name": "frozen", "after": 2}
    with pytest.raises(ConfigError, match=r"strategy\.aftre: unknown key, did you mean after"):
        parse_as(Experiment, {"strategy": {"name": "frozen", "aftre": 2}}, "of a test")


def test_the_memory_of_a_method_from_outside_is_counted(frozen):
    module, strategy = network(), frozen(1)
    strategy.before_task(Learner(module, torch.optim.SGD(module.parameters(), lr=0.1)))
    assert strategy.memory().training_bytes == sum(4 * p.numel() for p in module.parameters())


def test_a_second_method_of_the_same_name_is_refused(frozen):
    class Other(Strategy):
        pass

    with pytest.raises(ConfigError, match="two lifelong methods called 'frozen'"):
        method(title="Other", summary="does nothing", config=FrozenConfig)(Other)
    assert METHODS["frozen"].strategy is frozen


def test_a_misspelt_name_suggests_the_right_one(frozen):
    with pytest.raises(ConfigError, match="did you mean frozen"):
        METHODS.find("forzen")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_importance_can_be_replaced_exactly_where_the_method_says_so(name):
    module, strategy, inputs = network(), strategy_named(name), torch.randn(8, 6)
    learner = Learner(module, torch.optim.SGD(module.parameters(), lr=0.1), 1, inputs.split(4))
    if METHODS[name].importance:
        strategy.remeasure(learner)
        expected = learner.importance(strategy.use_measure("embedding"))
        assert all(torch.equal(strategy.omega[key], omega) for key, omega in expected.items())
    else:
        with pytest.raises(ModelError, match="does not measure importance"):
            strategy.remeasure(learner)


def test_replaced_importance_gets_the_floor_and_forgets_the_old():
    strategy = strategy_named("mas", floor=0.5)
    strategy.omega = {"w": torch.tensor([5.0, 5.0])}
    strategy.replace_importance({"w": torch.tensor([1.0, 3.0])})
    torch.testing.assert_close(strategy.omega["w"], torch.tensor([2.0, 4.0]))


def test_what_is_measured_in_use_needs_no_targets():
    measures = {name: strategy_named(name).use_measure("embedding") for name in ("mas", "l-mas", "mas-vector")}
    assert measures == {"mas": "mas", "l-mas": "local", "mas-vector": "mas-vector"}
    fisher = factlearn.lifelong.Fisher
    assert strategy_named("ewc", labels="empirical").use_measure("embedding") == fisher("sampled", "gaussian")
    assert strategy_named("ewc", labels="true").use_measure("scores") == fisher("true", "categorical")


def test_every_public_name_can_be_imported():
    for name in factlearn.lifelong.__all__:
        assert getattr(factlearn.lifelong, name) is not None
    assert set(factlearn.lifelong.__all__) == set(dir(factlearn.lifelong))
    with pytest.raises(AttributeError, match="Nothing"):
        _ = factlearn.lifelong.Nothing


def test_a_users_own_module_is_protected_in_the_users_own_loop():
    def learn(strategy):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv1d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tasks = [[(torch.randn(8, 1, 6), torch.randint(3, (8,))) for _ in range(4)] for _ in range(2)]
        for task, batches in enumerate(tasks):
            learner = Learner(model, optimizer, task, inputs=batches)
            strategy.before_task(learner)
            for images, targets in batches * 10:
                optimizer.zero_grad()
                F.cross_entropy(model(images), targets).backward()
                strategy.after_backward(learner)
                optimizer.step()
                strategy.after_step(learner)
            strategy.after_task(learner)
        with torch.no_grad():
            return sum(F.cross_entropy(model(images), targets) for images, targets in tasks[0])

    assert learn(factlearn.lifelong.MAS(1.0)) < learn(factlearn.lifelong.FineTune())
