"""The shallow autoencoder of EBLL: the directions of the features that matter to a task."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

_BATCH = 64
_RATE = 3e-3


class Encoder(nn.Module):
    """Maps standardised features to a short code: sigmoid(W (f - mean) / deviation + b)."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int, code: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(()))
        self.linear = nn.Linear(features, code)

    def standardise(self, features: Tensor) -> Tensor:
        """Centred on the task's mean, in units of its mean deviation."""
        return (features - self.mean) / self.deviation

    def forward(self, features: Tensor) -> Tensor:
        """The code."""
        return self.linear(self.standardise(features)).sigmoid()  # type: ignore[no-any-return]


def fit_encoder(
    features: Tensor, read_out: Callable[[Tensor], Tensor], code: int, *, epochs: int, seed: int
) -> Encoder:
    """Train an encoder from whose code the features can be rebuilt with the same outputs.

    The objective is the relative error of the rebuilt features plus that of the outputs. Rannen et al. use the task's
    loss for the second; for a trained network the outputs tell the same and need no labels.

    Args:
        features: one row per image.
        read_out: maps features to outputs.
        code: length of the code.
        epochs: passes over the features.
        seed: for the initial weights and the order.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(features.shape[1], code).to(features.device)
        decoder = nn.Linear(code, features.shape[1]).to(features.device)
        order = [torch.randperm(len(features)) for _ in range(epochs)]
    encoder.mean.copy_(features.mean(0))
    encoder.deviation.copy_((features - encoder.mean).square().mean().sqrt().clamp_min(1e-6))
    with torch.no_grad():
        outputs = read_out(features)
    feature_scale, output_scale = _variance(features), _variance(outputs)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=_RATE)
    for rows in (rows for epoch in order for rows in epoch.to(features.device).split(_BATCH)):
        rebuilt = decoder(encoder(features[rows])) * encoder.deviation + encoder.mean
        loss = (rebuilt - features[rows]).square().mean() / feature_scale
        loss = loss + (read_out(rebuilt) - outputs[rows]).square().mean() / output_scale
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder.requires_grad_(False)


def _variance(values: Tensor) -> Tensor:
    return (values - values.mean(0)).square().mean().clamp_min(1e-12)
