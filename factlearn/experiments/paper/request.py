"""What the user asked for: which data, how large, how many seeds, which methods; and the configs that follow."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.config import RunConfig, load_config
from factlearn.errors import ConfigError
from factlearn.experiments.paper.cells import Cell, learn_cells, seconds_of, variant
from factlearn.experiments.paper.methods import NETWORKS, STRATEGIES
from factlearn.learning.results import RunResult

SCALES = ("small", "full")


@dataclass
class Request:
    """A request for one experiment.

    Attributes:
        scale: `small` takes minutes on two cores; `full` is the paper's own network and 300 epochs.
        data: `emoji`, or a manifest.
        seeds: how many, from 0.
        methods: instead of the experiment's own; empty for those.
        jobs: runs learned at the same time.
        out: where runs and outcomes are kept.
        config_path: a config in place of the one that data and scale stand for.
        used: the results of every run that was asked for, for the record of time.
        other_seconds, other_runs: of what is kept in another form.
    """

    scale: str = "small"
    data: str = "emoji"
    seeds: int = 3
    methods: Sequence[str] = ()
    jobs: int = 1
    out: Path = Path("runs")
    config_path: Path | None = None
    used: list[RunResult] = field(default_factory=list)
    other_seconds: float = 0.0
    other_runs: int = 0

    def check(self, *, folder: bool = False) -> None:
        """Refuse what cannot be carried out, before anything is learned; data may be a folder for object tasks."""
        if self.scale not in SCALES:
            raise ConfigError(f"There is no scale {self.scale!r}; choose small or full.")
        if self.data != "emoji" and not Path(self.data).is_file() and not (folder and Path(self.data).is_dir()):
            raise ConfigError(f"--data is neither emoji nor a manifest that exists: {self.data}.")
        if self.seeds < 1 or self.jobs < 1:
            raise ConfigError("--seeds and --jobs start at 1.")

    @property
    def data_name(self) -> str:
        """For folders: the config's name where one is given or stands for emoji, else the manifest's."""
        if self.config_path:
            return self.config_path.stem
        name = "demo" if self.data == "emoji" else Path(self.data).stem
        return name if self.scale == "small" else f"paper-{name}"

    @property
    def label(self) -> str:
        """For people."""
        name = "emoji facts" if self.data == "emoji" else Path(self.data).name
        name = self.config_path.name if self.config_path else name
        return f"{name}, {self.scale} scale, {self.seeds} seed{'s' if self.seeds > 1 else ''}"

    def config(self, *overrides: str) -> RunConfig:
        """The config that the data and the scale stand for."""
        if self.config_path:
            return load_config(self.config_path, ["tasks.names=null", *overrides])
        name = "paper" if self.scale == "full" else "demo" if self.data == "emoji" else "photos"
        data = "data={source: emoji}" if self.data == "emoji" else f"data.manifest={Path(self.data).resolve()}"
        return load_config(config_file(name), [data, "tasks.names=null", *overrides])

    def chosen(self, default: Sequence[str]) -> list[str]:
        """The methods to compare: those asked for, or the experiment's own."""
        unknown = [method for method in self.methods if method not in STRATEGIES]
        if unknown:
            raise ConfigError(f"There is no method {unknown[0]!r}; choose among {', '.join(STRATEGIES)}.")
        return list(self.methods or default)

    def cell(self, config: RunConfig, group: str, method: str, seed: int) -> Cell:
        """A method's run on a seed's split, in the folder of its group."""
        model = {**config.model.model_dump(mode="json"), **NETWORKS.get(method, {})}
        learned = variant(config, seed=seed, strategy=STRATEGIES[method], model=model)
        return Cell(self.out / group / f"{method}-{seed}", learned)

    def learn(self, cells: Sequence[Cell]) -> list[RunResult]:
        """Learn what is missing and evaluate all."""
        results = learn_cells(cells, self.jobs)
        self.used += results
        return results

    def seconds(self) -> float:
        """What learning everything took that this request used."""
        return seconds_of(self.used) + self.other_seconds


def config_file(name: str) -> Path:
    """One of the project's configs, in the installed package or in a checkout."""
    packaged = Path(__file__).parents[1] / "configs" / f"{name}.yaml"
    return packaged if packaged.is_file() else Path(__file__).parents[3] / "configs" / f"{name}.yaml"
