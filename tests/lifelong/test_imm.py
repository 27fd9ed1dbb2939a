import torch

from factlearn.lifelong.imm import MeanIMM, ModeIMM
from tests.lifelong.sequences import begin, learn_sequence, random_tasks


def solutions(make):
    """The solution of each task, the merged network and the strategy."""
    found = []

    def watch(task, moment, learner, strategy):
        if moment == "stored":
            found.append({name: p.detach().clone() for name, p in learner.module.named_parameters()})

    module, strategy = learn_sequence(make, watch=watch)
    return found, module, strategy


def test_the_network_ends_with_the_mean_of_all_solutions():
    found, module, _ = solutions(lambda: MeanIMM(0.01))
    for name, parameter in module.named_parameters():
        mean = torch.stack([solution[name] for solution in found]).mean(0)
        torch.testing.assert_close(parameter.detach(), mean)
        assert not torch.equal(parameter, found[-1][name])


def test_the_network_ends_with_the_mode_weighed_by_each_tasks_fisher(monkeypatch):
    fishers = []
    weigh = ModeIMM.weigh

    def watched(self, learner):
        fishers.append(weigh(self, learner))
        return fishers[-1]

    monkeypatch.setattr(ModeIMM, "weigh", watched)
    found, module, _ = solutions(lambda: ModeIMM(0.01))
    for name, parameter in module.named_parameters():
        weights = torch.stack([fisher[name] for fisher in fishers])
        values = torch.stack([solution[name] for solution in found])
        torch.testing.assert_close(parameter.detach(), (weights * values).sum(0) / weights.sum(0))


def test_a_sequence_that_goes_on_after_the_merge_starts_from_the_last_solution():
    found, module, strategy = solutions(lambda: MeanIMM(0.01))
    again = MeanIMM(0.01)
    again.load_state(strategy.state())
    begin(module, again, 3, random_tasks(1)[0], "embedding")
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.detach(), found[-1][name], rtol=0, atol=0)
    assert "merged" not in again.state()
