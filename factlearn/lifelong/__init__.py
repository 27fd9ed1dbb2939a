"""Lifelong methods, one module each, on one small protocol of training hooks (`strategy.py`).

They work in any training loop, on any `nn.Module`:

    strategy = MAS(strength=5.0)
    for task, batches in enumerate(tasks):
        learner = Learner(model, optimizer, task, inputs=batches)
        strategy.before_task(learner)
        for images, targets in batches:
            optimizer.zero_grad()
            loss(model(images), targets).backward()  # plus strategy.extra_loss(...), for LwF and EBLL
            strategy.after_backward(learner)
            optimizer.step()
            strategy.after_step(learner)
        strategy.after_task(learner)

`estimate(model, batches).mean()` is the importance alone. A new method is a `Strategy` and its settings, registered
with `@method` (`registry.py`). Names are imported on first use, so importing the package does not load torch.
"""

import importlib
from typing import Any

_MODULES = {
    "config": ("MethodConfig", "PenaltyConfig", "ImportanceConfig"),
    "registry": ("METHODS", "Method", "StrategyConfig", "make_strategy", "method", "title_of"),
    "strategy": ("Learner", "Strategy"),
    "consolidation": ("Consolidation",),
    "importance": ("Estimator", "Importance", "estimate"),
    "measures": ("Fisher", "Measure"),
    "finetune": ("FineTune",),
    "joint": ("Joint",),
    "mas": ("MAS",),
    "l_mas": ("LocalMAS",),
    "mas_vector": ("VectorMAS",),
    "ewc": ("EWC",),
    "si": ("SI",),
    "lwf": ("LwF",),
    "ebll": ("EBLL",),
    "imm": ("MeanIMM", "ModeIMM"),
    "ridge": ("Ridge",),
    "drift": ("Drift",),
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
