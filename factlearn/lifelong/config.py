"""The settings that lifelong methods share, checked without loading torch; each method's own are in its module.

The default of every `lambda` is the value that the paper, or else the method's authors, use for classifiers; for facts
the paper uses 5 for MAS. The right value depends on the scale of the importance, and so on the network.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from factlearn.config import Section, located
from factlearn.errors import FactError
from factlearn.facts import read_patterns

Source = Literal["train", "test", "both"] | Path | tuple[str, ...]
"""Images to measure importance on: the task's training images, its test images, both, those in a folder, or those of
facts (patterns such as `<person, *, tennis>` included) or classes."""
PROTECT_WEIGHT, PROTECT_FLOOR = 1.0, 1.0
"""Chosen on seed 100, which no table reports, and on parts that no table protects (docs/training.md has the trials)."""
PenaltyForm = Literal["proximal", "gradient"]
Strength = Annotated[float, Field(ge=0, alias="lambda", allow_inf_nan=False)]


def _source(value: Any, info: ValidationInfo) -> Source:
    """A text file becomes the patterns in it, so that a run does not depend on the file."""
    if isinstance(value, list | tuple):
        return tuple(str(each) for each in value)
    if value in ("train", "test", "both"):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str | Path):
        raise ValueError("write train, test or both, a folder, a text file, or a list of facts or classes")
    path: Path = located(value, info)
    if path.is_file():
        try:
            return tuple(read_patterns(path))
        except FactError as error:
            raise ValueError(str(error)) from error
    if not path.is_dir() and not Path(value).expanduser().is_absolute():
        raise ValueError(f"{str(value)!r} is not train, test or both, nor a folder or text file; or list facts")
    return path


def _sources(value: Any, info: ValidationInfo) -> Any:
    return (
        {task: _source(each, info) for task, each in value.items()} if isinstance(value, dict) else _source(value, info)
    )


def _protected(value: Any, info: ValidationInfo) -> Any:
    source = None if value is None else _source(value, info)
    if isinstance(source, str):
        raise ValueError("name what to protect: a list of facts or classes, a text file of them, or a folder")
    return source


class MethodConfig(Section):
    """The settings of a lifelong method; a subclass gives `name` its one value."""

    name: str
    """A registered method; see `factlearn list methods`."""

    @property
    def strength(self) -> float | None:
        """Lambda, if the method has one."""
        return None

    @property
    def variant(self) -> str:
        """What sets this use of the method apart in a report, such as where importance is measured."""
        return ""

    def importance_of(self, task: str) -> Source:
        """Where the images come from that the method looks at after a task."""
        return "train"

    def importance_sources(self) -> list[Source]:
        """Every place where the method is told to look."""
        return []

    @property
    def protected(self) -> Source | None:
        """What is protected more than the rest, if anything is."""
        return None

    @property
    def mixture(self) -> tuple[float, float]:
        """The weight of the importance of what is protected, and the floor that is added with it."""
        return 0.0, 0.0


class PenaltyConfig(MethodConfig):
    """What methods with a quadratic penalty (eq. 3) share."""

    lambda_: Strength = 1.0
    """Strength of the penalty on changing important parameters."""
    penalty: PenaltyForm = "proximal"
    """`proximal` is stable at any lambda; `gradient` is the usual form (docs/methods.md)."""

    @property
    def strength(self) -> float:
        """Lambda."""
        return self.lambda_


class ImportanceConfig(PenaltyConfig):
    """What methods that measure importance on images share."""

    importance: Annotated[Source | dict[str, Source], Field(union_mode="left_to_right"), BeforeValidator(_sources)] = (
        "train"
    )
    """Images to measure importance on: `train`, `test`, `both`, a folder, or facts or classes (a list or a text file);
    for all tasks, or a mapping by task name."""
    floor: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Importance added to every parameter, as a multiple of the mean importance; 0 is the paper's method."""
    protect: Annotated[tuple[str, ...] | Path | None, BeforeValidator(_protected)] = None
    """Facts, classes or a folder of images whose importance is added to each task's; set by `factlearn adapt`."""
    protect_weight: float = Field(PROTECT_WEIGHT, ge=0, allow_inf_nan=False)
    """Weight of the protected importance, after scaling it to the mean of the task's own (`mixture.py`)."""
    protect_floor: float = Field(PROTECT_FLOOR, ge=0, allow_inf_nan=False)
    """Importance added to every parameter along with it, as a multiple of the same mean."""

    @property
    def variant(self) -> str:
        """Where importance is measured, unless on the training images, and whether the run is adapted."""
        words = {"train": "", "test": "test", "both": "train + test"}
        where = words[self.importance] if isinstance(self.importance, str) else "adapted, only"
        return ", ".join(filter(None, (where, "adapted" if self.protect else "")))

    def importance_sources(self) -> list[Source]:
        """Every place where importance is measured."""
        found = list(self.importance.values()) if isinstance(self.importance, dict) else [self.importance]
        return found if self.protect is None else [*found, self.protect]

    @property
    def protected(self) -> Source | None:
        """What is protected more than the rest."""
        return self.protect

    @property
    def mixture(self) -> tuple[float, float]:
        """The weight of the importance of what is protected, and the floor that is added with it."""
        return self.protect_weight, self.protect_floor

    def importance_of(self, task: str) -> Source:
        """Where the importance of a task is measured."""
        return self.importance.get(task, "train") if isinstance(self.importance, dict) else self.importance
