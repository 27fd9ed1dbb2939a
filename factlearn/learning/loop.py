"""The training loop: one stage, from top to bottom.

Several processes run it together, each on its rows of every batch; alone, `processes` does nothing.
"""

from typing import Any

import torch
from torch import Tensor, nn

from factlearn import processes
from factlearn.errors import RunError
from factlearn.learning.config import TrainingConfig
from factlearn.learning.divergence import check_finite, check_weights
from factlearn.learning.optimizer import load_momentum, make_optimizer, momentum_of, set_rate
from factlearn.learning.problem import Preparation, Problem, StageData
from factlearn.learning.runs import Checkpoint, Run
from factlearn.learning.seeds import derived_seed
from factlearn.learning.stopping import Stopping, go_on, middle_of_epoch
from factlearn.lifelong.strategy import Learner, Strategy
from factlearn.models.inputs import Reiterable, shared_in_order
from factlearn.models.precision import uses_bfloat16
from factlearn.progress import progress


def learn_stage(  # noqa: PLR0915  one loop, read from top to bottom
    run: Run,
    fabric: Any,
    problem: Problem,
    strategy: Strategy,
    number: int,
    stage: list[int],
    data: StageData,
    prepared: Preparation,
    stop: Stopping,
) -> tuple[Learner, int]:
    """Learn one stage, from its checkpoint if there is one; the learner, and the bytes the strategy held meanwhile."""
    config, suffix = problem.training(stage), problem.model.suffix
    optimizer = make_optimizer(problem.model, config)
    checkpoint = run.checkpoint(number)
    first_epoch = checkpoint.epoch if checkpoint else 0
    if checkpoint:
        suffix.load_state_dict(checkpoint.module)
        load_momentum(optimizer, checkpoint.optimizer)
        strategy.load_state(checkpoint.strategy)
    run.rewind_metrics(checkpoint.metric_lines if checkpoint else run.lines_before(number))
    suffix.fit(shared_in_order(data.inputs, run.config.evaluation.batch_size))
    module, optimizer = fabric.setup(_compiled(suffix, config), optimizer)
    processes.make_equal(suffix.state_dict().values())
    inputs = Reiterable(
        lambda: problem.importance_batches(stage, data),
        lambda: problem.importance_batches(stage, data, shared_in_order),
    )
    together = steps_are_shared(suffix)
    learner = Learner(suffix, optimizer, task=number - 1, inputs=inputs, together=together, **prepared.learner)
    strategy.before_task(learner)
    epochs = strategy.epochs(config.epochs)
    steps = -(-len(data.inputs) // config.batch_size)
    tensorboard = _tensorboard(run)

    def keep(epoch: int, middle: dict[str, Tensor]) -> None:
        check_weights(suffix.parameters())
        state, momentum = dict(suffix.state_dict()), momentum_of(optimizer)
        run.save_checkpoint(Checkpoint(number, epoch, run.metric_lines(), state, momentum, strategy.state(), middle))

    bar = progress(f"learning stage {number}", epochs * steps)
    with bar as advance, stop.looping(), processes.each_alone(not together):
        advance(first_epoch * steps)
        for epoch in range(first_epoch, epochs):
            seed = derived_seed(run.config.seed, number, epoch)
            torch.manual_seed(seed)
            module.train()
            learner.epoch = epoch
            batches = data.epoch(seed, config.batch_size)
            losses = go_on(checkpoint if epoch == first_epoch else None, batches, fabric.device)
            for step, (given, *targets) in enumerate(batches, len(losses)):
                set_rate(optimizer, config, epoch, step + epoch * steps)
                weight = processes.begin_batch(min(config.batch_size, len(data.inputs) - step * config.batch_size))
                batch = _laid_out(given, config)
                outputs = module(batch)
                loss = data.loss(outputs, *targets)
                place = slice(step * config.batch_size, (step + 1) * config.batch_size)
                check_finite(loss.detach(), problem, stage, epoch, count=len(data.inputs), seed=seed, place=place)
                with fabric.autocast():
                    extra = strategy.extra_loss(learner, batch, outputs)
                fabric.backward(weight * (loss if extra is None else loss + extra))
                losses.append(processes.add_gradients(suffix.parameters(), weight * loss.detach()))
                if config.clip_norm is not None:
                    fabric.clip_gradients(module, optimizer, max_norm=config.clip_norm)
                strategy.after_backward(learner)
                optimizer.step()
                optimizer.zero_grad()
                strategy.after_step(learner)
                advance(1)
                if stop.agreed():
                    keep(epoch, middle_of_epoch(losses, fabric.device))
                    processes.wait()  # the first has written it
                    stop.leave()
            mean = float(torch.stack(losses).mean())
            advance(0, note=f"loss {mean:.3f}")
            run.log(event="epoch", stage=number, epoch=epoch + 1, loss=mean)
            if tensorboard:
                tensorboard.add_scalar(f"loss/stage {number}", mean, epoch + 1)
            if (epoch + 1) % config.checkpoint_epochs == 0 and epoch + 1 < epochs:
                keep(epoch + 1, {})
        check_weights(suffix.parameters())
    if tensorboard:
        tensorboard.close()
    return learner, strategy.memory().training_bytes


def steps_are_shared(suffix: nn.Module) -> bool:
    """Whether processes share steps: for dense layers alone, sending their gradients takes longer than a step."""
    return any(isinstance(layer, nn.modules.conv._ConvNd) for layer in suffix.modules())


def _compiled(module: nn.Module, config: TrainingConfig) -> Any:
    """What the loop calls: the module itself, or compiled to the same arithmetic and the same random numbers."""
    return torch.compile(module, options={"fallback_random": True}) if config.compile else module


def _laid_out(batch: Tensor, config: TrainingConfig) -> Tensor:
    """The batch as convolutions are fastest on it: in bfloat16, channels last; float32 gains too little by that."""
    if batch.dim() == 4 and uses_bfloat16(config.precision, batch.device.type):
        return batch.contiguous(memory_format=torch.channels_last)
    return batch


def _tensorboard(run: Run) -> Any:
    if not run.config.tensorboard or not processes.first():
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RunError("TensorBoard is not installed; install factlearn[demo] or set tensorboard: false.") from None
    return SummaryWriter(run.folder / "tensorboard")
