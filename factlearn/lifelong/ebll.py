"""Encoder Based Lifelong Learning (Rannen, Aljundi, Blaschko, Tuytelaars, ICCV 2017), on top of LwF.

    L = L_n + lambda L_old + alpha sum_t ||code_t(f(x)) - code_t(f_old(x))||^2      (their eq. 6, no 1/2)

f are the features, the input of the output layers; code_t is the encoder of a shallow autoencoder trained on task t's
features. Features may change freely in directions that no code looks at.
"""

from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from factlearn import processes
from factlearn.lifelong.autoencoder import Encoder, fit_encoder
from factlearn.lifelong.features import FeatureTap, output_layers, tapped
from factlearn.lifelong.gradients.forward import ready, split, untouched
from factlearn.lifelong.lwf import DistillationConfig, LwF
from factlearn.lifelong.registry import method
from factlearn.lifelong.strategy import Learner, group_of, labelled
from factlearn.processes import Elsewhere


class EBLLConfig(DistillationConfig):
    """Settings of EBLL."""

    name: Literal["ebll"] = "ebll"
    code_lambda: float = Field(0.01, ge=0, allow_inf_nan=False)
    """Weight of the code loss of each task."""
    code_size: int = Field(100, ge=1)
    """Number of units in a code."""
    autoencoder_epochs: int = Field(30, ge=1)
    """Epochs of training a task's autoencoder."""


@method(
    title="EBLL",
    summary="distils the old network's outputs and a code of its features (Encoder Based Lifelong Learning)",
    config=EBLLConfig,
)
class EBLL(LwF):
    """Distils outputs as LwF does, and preserves the codes of the features.

    Attributes:
        code_strength: alpha, the weight of the codes.
        code_size: length of a code.
        autoencoder_epochs: passes over a task's features to learn its code.
        encoders: one per task learned; memory grows with them.
    """

    def __init__(
        self,
        strength: float,
        temperature: float = 2.0,
        warmup_epochs: int = 5,
        *,
        code_strength: float = 0.01,
        code_size: int = 100,
        autoencoder_epochs: int = 30,
    ) -> None:
        super().__init__(strength, temperature, warmup_epochs)
        self.code_strength = code_strength
        self.code_size = code_size
        self.autoencoder_epochs = autoencoder_epochs
        self.encoders: list[Encoder] = []
        self._taps: list[FeatureTap] = []

    @classmethod
    def of(cls, config: Any) -> Self:
        """EBLL with the settings of an `EBLLConfig`."""
        return cls(
            config.lambda_,
            config.temperature,
            config.warmup_epochs,
            code_strength=config.code_lambda,
            code_size=config.code_size,
            autoencoder_epochs=config.autoencoder_epochs,
        )

    def before_task(self, learner: Learner) -> None:
        """Keep a copy of the old network, and tap the features of both."""
        super().before_task(learner)
        if self.teacher is not None:
            device = next(self.teacher.parameters()).device
            self.encoders = [encoder.to(device) for encoder in self.encoders]
            name = output_layers(self.teacher, next(iter(learner.inputs)))[0]
            self._taps = [FeatureTap(module.get_submodule(name)) for module in (learner.module, self.teacher)]

    def extra_loss(self, learner: Learner, inputs: Tensor, outputs: Any) -> Tensor | None:
        """The distillation, and how far the codes have moved."""
        distilled = super().extra_loss(learner, inputs, outputs)
        if distilled is None:
            return None
        new, old = (tap.take() for tap in self._taps)
        moved = [(encoder(new) - encoder(old)).square().sum(1).mean() for encoder in self.encoders]
        return distilled + self.code_strength * torch.stack(moved).sum()

    def after_task(self, learner: Learner) -> None:
        """Learn this task's code."""
        super().after_task(learner)
        for tap in self._taps:
            tap.remove()
        self._taps = []
        module = learner.module
        layers = [module.get_submodule(n) for n in output_layers(module, next(iter(learner.inputs)))]
        if learner.head:
            layers = [layers[learner.task]]
        features = _features(learner, layers[0])
        with untouched(module):
            encoder = fit_encoder(
                features,
                lambda rows: torch.cat([layer(rows) for layer in layers], dim=1),
                self.code_size,
                epochs=self.autoencoder_epochs,
                seed=learner.task,
            )
        self.encoders.append(encoder)

    def state(self) -> dict[str, Tensor]:
        """One encoder per task, in addition to what LwF keeps."""
        encoders = {f"encoder{number}": each.state_dict() for number, each in enumerate(self.encoders)}
        return super().state() | labelled(**encoders)

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the encoders."""
        super().load_state(state)
        self.encoders = []
        while tensors := group_of(state, f"encoder{len(self.encoders)}"):
            code, features = tensors["linear.weight"].shape
            encoder = Encoder(features, code)
            encoder.load_state_dict(tensors)
            self.encoders.append(encoder.requires_grad_(False))


def _features(learner: Learner, layer: nn.Module) -> Tensor:
    """The features of all the task's images; several processes share the work."""
    rows: list[Tensor | Elsewhere] = []
    with tapped(layer) as tap, untouched(learner.module), torch.no_grad():
        for batch in processes.shared(learner.inputs):
            if isinstance(batch, Elsewhere):
                rows.append(batch)
                continue
            learner.module(ready(split(batch)[0], learner.module))
            rows.append(tap.take())
    return processes.whole(rows, like=next(learner.module.parameters()))
