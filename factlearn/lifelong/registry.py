"""From a method's settings to the method."""

from collections.abc import Callable
from typing import Any

from factlearn.lifelong import config as settings
from factlearn.lifelong.ebll import EBLL
from factlearn.lifelong.ewc import EWC
from factlearn.lifelong.finetune import FineTune
from factlearn.lifelong.imm import MeanIMM, ModeIMM
from factlearn.lifelong.joint import Joint
from factlearn.lifelong.l_mas import LocalMAS
from factlearn.lifelong.lwf import LwF
from factlearn.lifelong.mas import MAS
from factlearn.lifelong.mas_vector import VectorMAS
from factlearn.lifelong.ridge import Ridge
from factlearn.lifelong.si import SI
from factlearn.lifelong.strategy import Strategy

_MAKERS: dict[type[settings.Section], Callable[[Any], Strategy]] = {
    settings.FineTuneConfig: lambda c: FineTune(),
    settings.JointConfig: lambda c: Joint(),
    settings.MASConfig: lambda c: MAS(c.lambda_, c.penalty, c.floor),
    settings.LocalMASConfig: lambda c: LocalMAS(c.lambda_, c.penalty, c.floor),
    settings.VectorMASConfig: lambda c: VectorMAS(c.lambda_, c.penalty, c.floor),
    settings.EWCConfig: lambda c: EWC(c.lambda_, c.penalty, c.labels, c.penalties, c.floor),
    settings.SIConfig: lambda c: SI(c.lambda_, c.penalty, c.damping),
    settings.LwFConfig: lambda c: LwF(c.lambda_, c.temperature, c.warmup_epochs),
    settings.EBLLConfig: lambda c: EBLL(
        c.lambda_,
        c.temperature,
        c.warmup_epochs,
        code_strength=c.code_lambda,
        code_size=c.code_size,
        autoencoder_epochs=c.autoencoder_epochs,
    ),
    settings.MeanIMMConfig: lambda c: MeanIMM(c.lambda_, c.penalty),
    settings.ModeIMMConfig: lambda c: ModeIMM(c.lambda_, c.penalty, c.labels),
    settings.RidgeConfig: lambda c: Ridge(c.shrinkage),
}


def make_strategy(config: settings.Section) -> Strategy:
    """The lifelong method a config names, at the beginning of a sequence."""
    return _MAKERS[type(config)](config)
