"""What the user asked for: which data, how large, how many seeds, which methods; and the configs that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.config import scales_of, shipped
from factlearn.errors import ConfigError
from factlearn.evaluation.results import RunResult
from factlearn.experiments.paper.cells import Cell, learn_cells
from factlearn.experiments.paper.methods import VARIANTS
from factlearn.learning.config import FactsConfig, RunConfig, load_config
from factlearn.lifelong.registry import METHODS

SCALES = ("small", "full")


@dataclass
class Request:
    """A request for one experiment.

    Attributes:
        scale: `small` takes minutes on two cores; `full` is the paper's own network and 300 epochs.
        data: `emoji`, or a manifest; for object tasks at full scale, a folder.
        seeds: how many, from 0.
        methods: instead of the experiment's own; empty for those.
        jobs: runs learned at the same time.
        out: where runs and outcomes are kept.
        config_path: a config in place of the one that data and scale stand for.
        used: the results of every run that was asked for, for the record of time.
        diverged: the names of the runs that ended without a result.
    """

    scale: str = "small"
    data: str = "emoji"
    seeds: int = 3
    methods: Sequence[str] = ()
    jobs: int = 1
    out: Path = Path("runs")
    config_path: Path | None = None
    used: list[RunResult] = field(default_factory=list)
    diverged: list[str] = field(default_factory=list)

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
        return f"{name}, {self.size(self.seeds)}"

    def size(self, seeds: int) -> str:
        """Scale and seeds, for people."""
        return f"{self.scale} scale, {seeds} seed{'s' if seeds > 1 else ''}"

    def config(self, *overrides: str) -> FactsConfig:
        """The config of facts that the data and the scale stand for."""
        name = "paper" if self.scale == "full" else "demo" if self.data == "emoji" else "photos"
        data = "data={source: emoji}" if self.data == "emoji" else f"data.manifest={Path(self.data).resolve()}"
        own = [] if self.config_path and self.data == "emoji" else [data]
        path = self.config_path or shipped(f"{name}.yaml")
        config = load_config(path, [*own, "tasks.names=null", *overrides])
        if not isinstance(config, FactsConfig):
            raise ConfigError(f"{path} learns classes; --config is for the experiments on facts.")
        return config

    def object_config(self, name: str, *overrides: str) -> RunConfig:
        """A config of classes at the scale asked for; `full` looks for the paper's datasets in the folder of data."""
        path = shipped(f"classify/{name}.yaml")
        if self.scale == "full":
            root = [f"data.root={Path(self.data).resolve()}"] if self.data != "emoji" else []
            return load_config(path, [*root, *overrides])
        return load_config(path, [*(["scale=small"] if "small" in scales_of(path) else []), *overrides])

    def chosen(self, default: Sequence[str]) -> list[str]:
        """The methods to compare: those asked for, or the experiment's own."""
        known = [*VARIANTS, *METHODS]
        for method in self.methods:
            if method not in known:
                raise ConfigError(f"There is no method {method!r}; choose among {', '.join(known)}.")
        return list(self.methods or default)

    def cell(self, folder: str, method: str, seed: int, *overrides: str) -> Cell:
        """A run of facts on a seed's split by a method or a variant of one, with the settings that the config has."""
        chosen = VARIANTS.get(method, (f"strategy.name={method}",))
        return Cell(self.out / folder, self.config(f"seed={seed}", *chosen, *overrides))

    def learn_groups(self, groups: Mapping[str, Sequence[Cell]]) -> dict[str, list[RunResult]]:
        """Learn what is missing of several groups side by side; the results of each group.

        Runs that diverged are left out and noted, and so is a group in which every run did.

        Raises:
            ConfigError: if all runs of all groups diverged.
        """
        cells = [cell for group in groups.values() for cell in group]
        results = {cell.folder: found for cell, found in zip(cells, learn_cells(cells, self.jobs), strict=True)}
        self.diverged += [folder.name for folder, found in results.items() if found is None]
        learned = {name: [found for cell in group if (found := results[cell.folder])] for name, group in groups.items()}
        self.used += [found for group in learned.values() for found in group]
        if not any(learned.values()):
            raise ConfigError(f"All runs in {cells[0].folder.parent} diverged; lower the learning rate.")
        return {name: group for name, group in learned.items() if group}

    def learn(self, cells: Sequence[Cell]) -> list[RunResult]:
        """Learn what is missing; the results of the cells that did not diverge."""
        return self.learn_groups({"all": cells})["all"]

    def learn_objects(self, name: str, rows: Mapping[str, Sequence[str]], seeds: int) -> dict[str, list[RunResult]]:
        """A sequence of object tasks over seeds, once for each row's overrides of the config; see `learn_groups`."""
        groups: dict[str, list[Cell]] = {}
        for row, overrides in rows.items():
            for seed in range(seeds):
                config = self.object_config(name, *overrides, f"seed={seed}")
                training = {**config.training.model_dump(mode="json"), "checkpoint_epochs": config.training.epochs}
                cell = Cell.named(self.out / "objects" / name, config.changed(training=training))
                groups.setdefault(row, []).append(cell)
        return self.learn_groups(groups)

    def seconds(self) -> float:
        """What learning everything took that this request used, each run counted once."""
        runs = {result.run.folder.resolve(): result for result in self.used}.values()
        return sum(sum(result.seconds) for result in runs)
