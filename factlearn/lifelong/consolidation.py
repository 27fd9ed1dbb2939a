"""What MAS, EWC, SI and IMM share: a quadratic penalty around the last solution, weighted by importance."""

from collections.abc import Mapping

from torch import Tensor

from factlearn.errors import ModelError
from factlearn.lifelong.config import PenaltyForm
from factlearn.lifelong.mixture import mean_importance, mixed
from factlearn.lifelong.penalty import QuadraticPenalty
from factlearn.lifelong.strategy import Learner, Strategy, group_of, labelled


class Consolidation(Strategy):
    """Makes important parameters expensive to change.

    A method of this family defines how importance is measured: `use_measure` if on unlabelled images, otherwise
    `measure`. The importances of successive tasks add up; theta_star is the last task's solution. Memory does not grow
    with the number of tasks.

    Attributes:
        strength: lambda of eq. 3.
        form: how the penalty is applied, see `QuadraticPenalty`.
        floor: importance added to every parameter, in units of the mean. Importance is about small changes; a parameter
            that nothing holds can move far enough to matter all the same.
        protect_weight: how many times the importance of what is protected is added to each task's.
        protect_floor: importance added to every parameter besides, where something is protected.
        omega: the importance over all tasks so far.
        theta_star: the parameters that the last task left.
    """

    def __init__(
        self,
        strength: float,
        form: PenaltyForm = "proximal",
        floor: float = 0.0,
        protect_weight: float = 0.0,
        protect_floor: float = 0.0,
    ) -> None:
        self.strength = strength
        self.form = form
        self.floor = floor
        self.protect_weight = protect_weight
        self.protect_floor = protect_floor
        self.omega: dict[str, Tensor] = {}
        self.theta_star: dict[str, Tensor] = {}
        self._penalty: QuadraticPenalty | None = None

    def measure(self, learner: Learner) -> dict[str, Tensor]:
        """How important each parameter is to the task just learned."""
        return learner.importance(self.use_measure(learner.output))

    def before_task(self, learner: Learner) -> None:
        """From the second task on, hold old parameters in place."""
        for name, parameter in learner.parameters().items():
            if name in self.omega and self.theta_star[name].shape != parameter.shape:
                raise ModelError(f"The importance of {name!r} was measured for another shape; start a new run.")
            for held in (self.omega, self.theta_star):
                if name in held:
                    held[name] = held[name].to(parameter.device)
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
        """Add this task's importance and remember the solution; the task's own head never changes again."""
        self._penalty = None
        shared = learner.shared()
        measured = self.measure(learner)
        measured = self.raised({name: measured[name] for name in shared})
        if learner.protected is not None:
            part = learner.protected.importance(self.use_measure(learner.protected.output))
            measured = mixed(measured, part, self.protect_weight, self.protect_floor)
        for name, parameter in shared.items():
            self.accumulate(name, measured[name], parameter.detach())

    def raised(self, importance: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The importance with the floor added."""
        if not self.floor:
            return dict(importance)
        mean = mean_importance(importance)
        return {name: each + self.floor * mean for name, each in importance.items()}

    def accumulate(self, name: str, measured: Tensor, solution: Tensor) -> None:
        """Add a task's importance of one parameter; the penalty is centred on the last solution."""
        old = self.omega.get(name)
        self.omega[name] = measured if old is None else old + measured
        self.theta_star[name] = solution.clone()

    def replace_importance(self, importance: Mapping[str, Tensor]) -> None:
        """Protect what this importance says, and no longer what earlier tasks found important."""
        self.omega = self.raised(importance)

    def add_importance(self, importance: Mapping[str, Tensor], weight: float, floor: float = 0.0) -> None:
        """Protect what this importance says more than before, and nothing less."""
        self.omega = mixed(self.omega, importance, weight, floor)

    def state(self) -> dict[str, Tensor]:
        """Importance and the last solution."""
        return labelled(omega=self.omega, theta_star=self.theta_star)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore importance and the last solution."""
        self.omega = group_of(state, "omega")
        self.theta_star = group_of(state, "theta_star")
        self._penalty = None
