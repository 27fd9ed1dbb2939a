import torch

from factlearn.lifelong.si import SI
from tests.lifelong.sequences import STEPS, begin, learn_sequence, network, random_tasks, step


def test_importance_is_not_silently_zero_and_never_negative():
    _, strategy = learn_sequence(lambda: SI(1.0), tasks=1)
    for omega in strategy.omega.values():
        assert omega.min() >= 0
        assert omega.max() > 1e-3


def test_the_path_integral_is_the_plain_sum_over_steps():
    data = random_tasks(1)[0]
    module, strategy = network(), SI(1.0, damping=0.1)
    learner = begin(module, strategy, 0, data, "embedding")
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    plain = {name: torch.zeros_like(p) for name, p in start.items()}
    for _ in range(STEPS):
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        loss = (module(data[0]) - data[1]).square().sum(1).mean()
        gradients = dict(zip(before, torch.autograd.grad(loss, list(module.parameters())), strict=True))
        step(learner, strategy, data)
        for name, parameter in module.named_parameters():
            plain[name] -= gradients[name] * (parameter.detach() - before[name])
    strategy.after_task(learner)
    for name, parameter in module.named_parameters():
        expected = plain[name].clamp_min(0) / ((parameter.detach() - start[name]) ** 2 + 0.1)
        torch.testing.assert_close(strategy.omega[name], expected, rtol=1e-4, atol=1e-6)


def test_the_path_is_that_of_the_unregularised_gradient():
    data = random_tasks(2)
    paths = []
    for form in ("gradient", "proximal"):
        module, strategy = network(), SI(0.0, form)
        for task, each in enumerate(data):
            learner = begin(module, strategy, task, each, "embedding")
            if task == 1:
                for parameter in module.parameters():
                    parameter.data += 0.1  # away from the old solution: a penalty would pull
                strategy._penalty.strength = 1e-3
                gradient = torch.autograd.grad(
                    (module(each[0]) - each[1]).square().sum(1).mean(), list(module.parameters())
                )
                step(learner, strategy, each)
                paths.append([strategy._gradient[name] for name in strategy.path])
                for kept, expected in zip(paths[-1], gradient, strict=True):
                    torch.testing.assert_close(kept, expected)
                break
            step(learner, strategy, each)
            strategy.after_task(learner)


def test_what_is_kept_of_a_task_shares_no_storage_with_the_network():
    data = random_tasks(1)[0]
    module, strategy = network(), SI(1.0)
    learner = begin(module, strategy, 0, data, "embedding")
    step(learner, strategy, data)
    pointers = {parameter.data_ptr() for parameter in module.parameters()}
    held = [*strategy.start.values(), *strategy._before.values(), *strategy.path.values()]
    assert not pointers & {tensor.data_ptr() for tensor in held}
    strategy.after_task(learner)
    assert not pointers & {tensor.data_ptr() for tensor in strategy.theta_star.values()}
