"""Memory Aware Synapses, global form (Aljundi et al., ECCV 2018, section 4.1)."""

from torch import Tensor

from factlearn.lifelong.importance import estimate
from factlearn.lifelong.penalty import PenaltyForm, QuadraticPenalty
from factlearn.lifelong.strategy import Learner, Strategy


class MAS(Strategy):
    """Important parameters become expensive to change.

    After each task the importance of every parameter is measured from the task's images alone, without labels:
    omega = 1/N sum_k |d ||F(x_k)||^2 / d theta| (eq. 2). Omegas of successive tasks add up; theta_star is the last task's
    solution.

    Attributes:
        strength: lambda of eq. 3.
        form: how the penalty is applied, see `QuadraticPenalty`.
        omega: the importance of all tasks so far.
        theta_star: the parameters that the last task left.
    """

    def __init__(self, strength: float, form: PenaltyForm = "proximal") -> None:
        self.strength = strength
        self.form = form
        self.omega: dict[str, Tensor] = {}
        self.theta_star: dict[str, Tensor] = {}
        self._penalty: QuadraticPenalty | None = None

    def before_task(self, learner: Learner) -> None:
        """From the second task on, old parameters are held in place."""
        if self.omega:
            self._penalty = QuadraticPenalty(self.omega, self.theta_star, self.strength, self.form)

    def after_backward(self, learner: Learner) -> None:
        """Penalise change through the gradients."""
        if self._penalty:
            self._penalty.after_backward(learner)

    def after_step(self, learner: Learner) -> None:
        """Penalise change by the proximal step."""
        if self._penalty:
            self._penalty.after_step(learner)

    def after_task(self, learner: Learner) -> None:
        """Measure what this task made important and remember the solution."""
        measured = estimate(learner.module, learner.inputs, measure="mas").mean()
        for name, parameter in learner.parameters().items():
            old = self.omega.get(name)
            self.omega[name] = measured[name] if old is None else old + measured[name]
            self.theta_star[name] = parameter.detach().clone()
        self._penalty = None

    def state(self) -> dict[str, Tensor]:
        """Importance and the last solution."""
        omega = {f"omega.{name}": tensor for name, tensor in self.omega.items()}
        return omega | {f"theta_star.{name}": tensor for name, tensor in self.theta_star.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take back importance and the last solution."""
        for kind, held in (("omega.", self.omega), ("theta_star.", self.theta_star)):
            held.clear()
            held.update({n.removeprefix(kind): t for n, t in state.items() if n.startswith(kind)})
