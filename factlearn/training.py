"""Learning a sequence of tasks: the loop, from top to bottom.

Every random choice follows from the config's seed and the place in the run (stage, epoch), so that a run which goes on
from a checkpoint draws the same numbers as one that was never interrupted.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from factlearn.allocator import keep_freed_memory
from factlearn.assembly import (
    build_embedder,
    choose_facts,
    make_preprocess,
    make_strategy,
    make_tasks,
    open_dataset,
    open_language,
)
from factlearn.config import RunConfig, TrainingConfig
from factlearn.datasets.base import FactDataset, Sample
from factlearn.errors import ImageError, RunError
from factlearn.evaluation import Evaluation, evaluate_vectors
from factlearn.facts import Fact
from factlearn.files import fingerprint
from factlearn.language import LanguageSpace
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inputs import Inputs, Reiterable, in_order, open_inputs
from factlearn.models.preprocess import PLAIN, View
from factlearn.progress import progress, say
from factlearn.runs import Checkpoint, Run, load_tensors, save_tensors
from factlearn.tasks import Task, TaskSplit


def train(config: RunConfig, out: Path | str, *, resume: bool = False) -> Run:
    """Learn the tasks that the config describes, one after the other, and leave a run directory.

    Raises:
        FactlearnError: if the config cannot be carried out, before anything is written where possible.
    """
    out = Path(out)
    keep_freed_memory()
    dataset = open_dataset(config.data)
    language = open_language(config.language, dataset)
    tasks = make_tasks(config.tasks, dataset, language, config.seed)
    check_subsets(config, dataset)
    torch.manual_seed(derived_seed(config.seed, "initial weights"))
    model = build_embedder(config.model, language.dimension)

    if resume:
        run = Run.open(out)
        _check_same_run(run, config, dataset)
    else:
        run = Run.create(out, config)
        tasks.save(run.folder / "tasks.json")
        language.save(run.folder / "language")
        save_tensors(dict(model.prefix.state_dict()), run.folder / "frozen.safetensors")
        run.describe(
            data=dataset.name,
            data_fingerprint=dataset.fingerprint(),
            language_fingerprint=language.fingerprint,
            threads=torch.get_num_threads(),
        )
    try:
        learn_tasks(run, model, dataset, language, tasks)
    except ImageError:
        if not resume and not run.metrics():
            shutil.rmtree(run.folder)  # nothing was learned; the next try may use the same place
        raise
    return run


def learn_tasks(run: Run, model: FactEmbedder, dataset: FactDataset, language: LanguageSpace, tasks: TaskSplit) -> None:
    """Learn the stages that are not finished yet."""
    config = run.config
    fabric = _fabric(config.device)
    strategy = make_strategy(config.strategy)
    stages = strategy.stages(tasks.tasks)
    finished = run.finished_stages()
    if finished == len(stages):
        say(f"{run.folder} is finished already.")
        return
    if finished:
        folder = run.stage_folder(finished)
        model.suffix.load_state_dict(load_tensors(folder / "model.safetensors"))
        strategy.load_state(load_tensors(folder / "strategy.safetensors"))
        say(f"{finished} of {len(stages)} stages are finished already.")
    model.to(fabric.device)

    test = dataset.of_split("test")
    test_inputs = run_inputs(run.config, model, test.samples, (PLAIN,))
    for number, stage in enumerate(stages[finished:], finished + 1):
        started = time.monotonic()
        facts = [fact for task in stage for fact in task.facts]
        data = StageData.of(config, model, language, dataset.of_split("train").of_facts(facts).samples)
        name = " + ".join(task.name for task in stage)
        say(f"Stage {number} of {len(stages)}: {name}, {len(facts)} facts, {len(data.inputs)} images.")
        learn_stage(run, fabric, model, strategy, data, number)
        vectors = embed_inputs(model.suffix, test_inputs, config.evaluation.batch_size)
        learned = [task for group in stages[:number] for task in group]
        result = evaluate_run(config, dataset, language, learned, vectors)
        run.finish_stage(
            number,
            module=dict(model.suffix.state_dict()),
            strategy=strategy.state(),
            vectors={"vectors": torch.from_numpy(vectors)},
            record={
                "tasks": [task.name for task in learned],
                "seconds": time.monotonic() - started,
                "model_fingerprint": model.fingerprint(),
                "evaluation": result.to_json(),
            },
        )
        run.log(event="evaluation", stage=number, map_all=result.map_all, map_all_prefix=result.map_all_prefix)
        say(
            f"After stage {number}: MAP over all test images "
            f"{result.map_all_prefix:.3f} prefix, {result.map_all:.3f} exact."
        )


def learn_stage(run: Run, fabric: Any, model: FactEmbedder, strategy: Strategy, data: "StageData", number: int) -> None:
    """Learn one stage, from its checkpoint if there is one."""
    config = run.config.training
    optimizer = make_optimizer(model, config)
    first_epoch = 0
    checkpoint = run.checkpoint(number)
    if checkpoint:
        model.suffix.load_state_dict(checkpoint.module)
        load_momentum(optimizer, checkpoint.optimizer)
        strategy.load_state(checkpoint.strategy)
        run.rewind_metrics(checkpoint.metric_lines)
        first_epoch = checkpoint.epoch
    inputs = Reiterable(lambda: in_order(data.inputs, run.config.evaluation.batch_size))
    model.suffix.fit(inputs)
    module, optimizer = fabric.setup(model.suffix, optimizer)
    learner = Learner(model.suffix, optimizer, task=number - 1, inputs=inputs)
    strategy.before_task(learner)
    steps = -(-len(data.inputs) // config.batch_size)
    tensorboard = _tensorboard(run)
    with progress(f"learning stage {number}", config.epochs * steps) as advance:
        advance(first_epoch * steps)
        for epoch in range(first_epoch, config.epochs):
            seed = derived_seed(run.config.seed, number, epoch)
            torch.manual_seed(seed)
            module.train()
            losses = []
            for step, (batch, targets, mask) in enumerate(data.epoch(seed, config.batch_size)):
                set_rate(optimizer, config, epoch, step + epoch * steps)
                loss = masked_squared_distance(module(batch), targets, mask)
                fabric.backward(loss)
                if config.clip_norm is not None:
                    fabric.clip_gradients(module, optimizer, max_norm=config.clip_norm)
                strategy.after_backward(learner)
                optimizer.step()
                optimizer.zero_grad()
                strategy.after_step(learner)
                losses.append(loss.detach())
                advance(1)
            mean = float(torch.stack(losses).mean())
            advance(0, note=f"loss {mean:.3f}")
            if not np.isfinite(mean):
                raise RunError(
                    f"The loss of stage {number} diverged in epoch {epoch + 1}; lower training.learning_rate."
                )
            run.log(event="epoch", stage=number, epoch=epoch + 1, loss=mean)
            if tensorboard:
                tensorboard.add_scalar(f"loss/stage {number}", mean, epoch + 1)
            if (epoch + 1) % config.checkpoint_epochs == 0 and epoch + 1 < config.epochs:
                save_checkpoint(run, model, optimizer, strategy, number, epoch + 1)
    strategy.after_task(learner)
    if tensorboard:
        tensorboard.close()


def masked_squared_distance(vectors: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The loss: squared distance to each unit the fact has, summed over units, averaged over images."""
    distances = (vectors - targets).square().sum(dim=2)
    return (distances * mask).sum(dim=1).mean()


@dataclass(frozen=True)
class StageData:
    """The training images of a stage with their facts' vectors."""

    inputs: Inputs
    targets: Tensor
    mask: Tensor
    views: int

    @classmethod
    def of(
        cls, config: RunConfig, model: FactEmbedder, language: LanguageSpace, samples: Sequence[Sample]
    ) -> "StageData":
        """Open the samples' inputs under every view that augmentation draws from."""
        views = augmentation_views(config.training)
        vectors, mask = language.embed([sample.fact for sample in samples if sample.fact])
        device = next(model.suffix.parameters()).device
        inputs = run_inputs(config, model, samples, views)
        return cls(
            inputs,
            torch.from_numpy(vectors).to(device),
            torch.from_numpy(mask).to(device).float(),
            len(views),
        )

    def epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every image once, in random order, each under a random view."""
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(self.inputs))
        views = generator.integers(self.views, size=len(order))
        cuts = range(batch_size, len(order), batch_size)
        requests = list(zip(np.split(order, cuts), np.split(views, cuts), strict=True))
        device = self.targets.device
        for (positions, _), batch in zip(requests, self.inputs.batches(requests), strict=True):
            rows = torch.from_numpy(positions).to(device)
            yield batch.to(device), self.targets[rows], self.mask[rows]


def augmentation_views(config: TrainingConfig) -> list[View]:
    """The plain view, and those that flipping and zooming add."""
    flips = (False, True) if config.flip else (False,)
    return [View(flip, zoom) for zoom in (1.0, *config.zoom) for flip in flips]


def make_optimizer(model: FactEmbedder, config: TrainingConfig) -> torch.optim.SGD:
    """SGD with one group for the convolutions and one for the fully connected layers."""
    convolutions = list(model.suffix.convolutions.parameters())
    ids = {id(parameter) for parameter in convolutions}
    heads = [parameter for parameter in model.suffix.parameters() if id(parameter) not in ids]
    groups: list[dict[str, Any]] = [{"params": heads, "scale": config.head_rate}]
    if convolutions:
        groups.append({"params": convolutions, "scale": 1.0})
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay)


def set_rate(optimizer: torch.optim.Optimizer, config: TrainingConfig, epoch: int, step: int) -> None:
    """Set the learning rates: the schedule goes by epochs, the warm-up by steps."""
    factor = 1.0
    if config.schedule == "cosine":
        factor = 0.5 * (1 + float(np.cos(np.pi * epoch / config.epochs)))
    elif config.schedule == "step":
        factor = 0.1 ** sum(epoch >= mark for mark in config.step_epochs)
    if step < config.warmup_steps:
        factor *= (step + 1) / config.warmup_steps
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * group["scale"] * factor


def embed_inputs(module: nn.Module, inputs: Inputs, batch_size: int) -> NDArray[np.float32]:
    """Vectors [N, 3, D] of inputs, in their order."""
    device = next(module.parameters()).device
    module.eval()
    with torch.inference_mode():
        return np.concatenate(
            [module(batch.to(device)).float().cpu().numpy() for batch in in_order(inputs, batch_size)]
        )


def evaluate_run(
    config: RunConfig,
    dataset: FactDataset,
    language: LanguageSpace,
    tasks: Sequence[Task],
    vectors: NDArray[np.float32],
) -> Evaluation:
    """MAP of the test images' vectors on every task given, the whole test set and the config's subsets."""
    test = dataset.of_split("test")
    known = set(dataset.of_split("train").facts)
    kept = [row for row, sample in enumerate(test.samples) if sample.fact in known]
    facts = sorted(known)
    return evaluate_vectors(
        vectors[kept],
        [fact for row in kept if (fact := test.samples[row].fact)],
        facts,
        language.embed(facts),
        ids=[test.samples[row].id for row in kept],
        tasks={task.name: task.facts for task in tasks},
        subsets=check_subsets(config, dataset),
    )


def check_subsets(config: RunConfig, dataset: FactDataset) -> dict[str, list[Fact]]:
    """The facts of the config's named subsets."""
    facts = dataset.of_split("train").facts
    return {name: choose_facts(patterns, facts) for name, patterns in config.evaluation.subsets.items()}


def derived_seed(seed: int, *place: Any) -> int:
    """A seed for one place in the run, from the run's one seed."""
    return int(fingerprint(seed, *place)[:8], 16)


def load_momentum(optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Take back SGD's momentum, by the parameters' order."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, buffer in state.items():
        parameter = parameters[int(name)]
        optimizer.state[parameter]["momentum_buffer"] = buffer.to(parameter.device)


def save_checkpoint(run: Run, model: FactEmbedder, optimizer: Any, strategy: Strategy, stage: int, epoch: int) -> None:
    """Keep the middle of a stage."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    momentum = {
        str(place): optimizer.state[parameter]["momentum_buffer"]
        for place, parameter in enumerate(parameters)
        if optimizer.state.get(parameter, {}).get("momentum_buffer") is not None
    }
    run.save_checkpoint(
        Checkpoint(stage, epoch, run.metric_lines(), dict(model.suffix.state_dict()), momentum, strategy.state())
    )


def run_inputs(config: RunConfig, model: FactEmbedder, samples: Sequence[Sample], views: Sequence[View]) -> Inputs:
    """The inputs of a run's own images: kept activations where layers are frozen."""
    from factlearn.assets import cache_dir

    store = cache_dir() / "activations" if config.model.keep_activations else None
    paths = [sample.path for sample in samples]
    return open_inputs(model, make_preprocess(config.model), paths, views=views, store=store)


def _check_same_run(run: Run, config: RunConfig, dataset: FactDataset) -> None:
    if run.config != config:
        raise RunError(f"{run.folder} was started with another config; resume it with its own config.yaml.")
    if run.description()["data_fingerprint"] != dataset.fingerprint():
        raise RunError(f"The data of {run.folder} has changed since it was started; start a new run.")


def _fabric(device: str) -> Any:
    import logging

    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        return Fabric(accelerator=device, devices=1)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"The device {device!r} cannot be used ({error}); set device to auto or cpu.") from error


def _tensorboard(run: Run) -> Any:
    if not run.config.tensorboard:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RunError("TensorBoard is not installed; install factlearn[demo] or set tensorboard: false.") from None
    return SummaryWriter(run.folder / "tensorboard")
