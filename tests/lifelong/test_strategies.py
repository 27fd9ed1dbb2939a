import pytest
import torch

from factlearn.lifelong.finetune import FineTune
from factlearn.lifelong.joint import Joint
from factlearn.lifelong.registry import METHODS
from tests.lifelong.sequences import STEPS, learn_sequence, losses, network, strategy_named, through_a_file

IN_TURN = sorted(set(METHODS) - {"joint"})
# Where 30 steps of a tiny network lose something of the first task but not all.
STRENGTHS = {"ewc": 1.0, "imm-mean": 0.1, "imm-mode": 0.1}
OUTPUTS = ["embedding", "scores"]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def settings(name):
    return {} if name in ("finetune", "joint", "ridge") else {"lambda": STRENGTHS.get(name, 1.0)}


@pytest.mark.parametrize(
    ("name", "output"),
    [(name, output) for name in IN_TURN for output in OUTPUTS if (name, output) != ("ridge", "scores")],
)
def test_a_resumed_sequence_is_bit_for_bit_one_never_interrupted(name, output):
    def make():
        return strategy_named(name, **settings(name))

    whole, _ = learn_sequence(make, output=output)
    for stop in [(0, 7), (1, 0), (2, STEPS - 1), (2, "end")]:
        resumed, _ = learn_sequence(make, output=output, stop=stop)
        assert equal(whole, resumed), stop


@pytest.mark.parametrize("name", [name for name in IN_TURN if name != "finetune"])
def test_the_first_task_is_forgotten_less_than_by_finetune(name):
    free, _ = learn_sequence(FineTune)
    held, _ = learn_sequence(lambda: strategy_named(name, **settings(name)))
    assert losses(held)[0] < losses(free)[0]


@pytest.mark.parametrize("name", ["mas", "l-mas", "mas-vector", "ewc", "si", "lwf"])
def test_without_strength_a_method_is_finetune(name):
    free, _ = learn_sequence(FineTune)
    loose, _ = learn_sequence(lambda: strategy_named(name, **{"lambda": 0.0}))
    for one, other in zip(free.parameters(), loose.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["mas", "l-mas", "mas-vector", "ewc", "si", "imm-mean", "lwf"])
@pytest.mark.parametrize("strength", [0.01, 100.0, 1e6])
def test_learning_diverges_at_none_of_the_strengths(name, strength):
    module, _ = learn_sequence(lambda: strategy_named(name, **{"lambda": strength}))
    assert all(torch.isfinite(parameter).all() for parameter in module.parameters())
    assert max(losses(module)) < 50


@pytest.mark.parametrize("name", IN_TURN)
def test_a_strategy_leaves_the_network_trainable(name):
    module, _ = learn_sequence(lambda: strategy_named(name, **settings(name)))
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in module.parameters())
    assert module.training
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in module.modules())


@pytest.mark.parametrize("name", IN_TURN)
def test_the_state_is_kept_through_a_file(name):
    _, strategy = learn_sequence(lambda: strategy_named(name, **settings(name)))
    other = strategy_named(name, **settings(name))
    other.load_state(through_a_file(strategy.state()))
    assert other.state().keys() == strategy.state().keys()
    for key, tensor in strategy.state().items():
        torch.testing.assert_close(other.state()[key], tensor, rtol=0, atol=0)


def measured_memory(name):
    found = {}

    def watch(task, moment, learner, strategy):
        memory = strategy.memory()
        found[task, moment] = memory.training_bytes if moment == "training" else memory.stored_bytes

    learn_sequence(lambda: strategy_named(name, **settings(name)), watch=watch)
    model = sum(parameter.numel() * 4 for parameter in network().parameters())
    return {key: value / model for key, value in found.items()}


def test_memory_is_that_of_the_tensors_held_in_units_of_the_network():
    assert set(measured_memory("finetune").values()) == {0}
    mas = measured_memory("mas")
    assert (mas[0, "training"], mas[0, "stored"]) == (0, 2)  # omega, theta_star
    assert (mas[2, "training"], mas[2, "stored"]) == (3, 2)  # and the share of the way back
    si = measured_memory("si")
    assert (si[0, "training"], si[2, "training"], si[2, "stored"]) == (4, 7, 2)
    lwf = measured_memory("lwf")
    assert (lwf[0, "training"], lwf[2, "training"], lwf[2, "stored"]) == (0, 1, 0)


@pytest.mark.parametrize("name", ["mas", "l-mas", "mas-vector", "ewc", "si", "imm-mean", "imm-mode"])
def test_memory_between_tasks_does_not_grow_with_their_number(name):
    memory = measured_memory(name)
    assert memory[0, "stored"] == memory[1, "stored"] == memory[2, "stored"]


def test_memory_of_ebll_grows_by_one_encoder_per_task():
    memory = measured_memory("ebll")
    assert memory[1, "stored"] == pytest.approx(2 * memory[0, "stored"])
    assert memory[2, "stored"] == pytest.approx(3 * memory[0, "stored"])


def test_joint_learns_all_tasks_in_one_stage_and_the_others_one_by_one():
    assert Joint().stages(["a", "b"]) == [["a", "b"]]
    assert FineTune().stages(["a", "b"]) == [["a"], ["b"]]
