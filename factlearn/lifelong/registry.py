"""Every lifelong method by its name in a config; a method registers itself with `@method`.

    class MyConfig(PenaltyConfig):
        name: Literal["mine"] = "mine"

    @method(title="Mine", summary="protects the first layer", config=MyConfig)
    class Mine(Strategy):
        ...

After that `strategy: {name: mine}` in a config chooses it. An installed package is found through an entry point of the
group `factlearn.methods` that names the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BeforeValidator, SerializeAsAny

from factlearn.config import Choice, Registry
from factlearn.lifelong.config import MethodConfig

if TYPE_CHECKING:
    from factlearn.lifelong.strategy import Strategy

AnyStrategy = TypeVar("AnyStrategy", bound="type[Strategy]")


@dataclass(frozen=True)
class Method:
    """A lifelong method, and what configs, reports and commands say about it.

    Attributes:
        name: in configs.
        title: in reports, as the paper writes it.
        summary: what it does, in one line that starts in lower case.
        config: its settings.
        strategy: its class.
        importance: whether it measures importance on images, so that a run can be adapted.
        problems: what it can learn: "facts", "classes" or both.
    """

    name: str
    title: str
    summary: str
    config: type[MethodConfig]
    strategy: type[Strategy]
    importance: bool
    problems: tuple[str, ...]

    @property
    def origin(self) -> type[Strategy]:
        """What tells two methods of the same name apart."""
        return self.strategy


METHODS: Registry[Method] = Registry("lifelong method", "factlearn.methods", ("factlearn.lifelong",))

StrategyConfig = Annotated[SerializeAsAny[MethodConfig], BeforeValidator(Choice(METHODS, "name", "finetune"))]
"""The section of a config that chooses a method, such as `strategy: {name: mas, lambda: 5}`."""


def method(
    *,
    title: str,
    summary: str,
    config: type[MethodConfig],
    importance: bool = False,
    problems: tuple[str, ...] = ("facts", "classes"),
) -> Callable[[AnyStrategy], AnyStrategy]:
    """Register a strategy under the default `name` of its config; for the arguments see `Method`.

    Raises:
        ConfigError: if another strategy has that name.
    """
    name = config.model_fields["name"].default

    def registered(strategy: AnyStrategy) -> AnyStrategy:
        METHODS.register(name, Method(name, title, summary, config, strategy, importance, problems))
        return strategy

    return registered


def make_strategy(config: MethodConfig) -> Strategy:
    """The method that a config names, at the start of a sequence."""
    return METHODS.find(config.name).strategy.of(config)


def title_of(config: MethodConfig) -> str:
    """The method's title, and where its importance comes from if not from the training images."""
    title = METHODS.find(config.name).title
    return f"{title} ({config.variant})" if config.variant else title
