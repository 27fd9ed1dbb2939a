"""Protect any nn.Module with MAS in your own training loop: three tasks of permuted digits.

Lambda sets how firmly important weights are held. If it is too small, the first task is forgotten; if too large, the
last one is not learned. Start at 1 and move by factors of 3, looking only at how well the newest task is learned.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from factlearn.lifelong import MAS, FineTune, Learner, Strategy

TASKS, EPOCHS, BATCH = 3, 10, 128


def make_tasks() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The same digits, each task with its own pixel order."""
    images, labels = load_digits(return_X_y=True)
    values = torch.tensor((images - images.mean()) / images.std(), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    return [(values[:, torch.randperm(64, generator=generator)], torch.tensor(labels)) for _ in range(TASKS)]


def learn(strategy: Strategy) -> list[float]:
    """Learn the tasks in turn; accuracy on each at the end (on the training images, to keep the example short)."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    tasks = make_tasks()
    for number, (images, labels) in enumerate(tasks):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        learner = Learner(model, optimizer, task=number, inputs=images.split(BATCH), output="scores")
        strategy.before_task(learner)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(images)).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                strategy.after_backward(learner)
                optimizer.step()
                strategy.after_step(learner)
        strategy.after_task(learner)  # measures importance on learner.inputs, which need no labels
    with torch.no_grad():
        return [float((model(images).argmax(1) == labels).float().mean()) for images, labels in tasks]


def main() -> None:
    for name, strategy in (("FineTune", FineTune()), ("MAS", MAS(strength=1.0))):
        accuracy = learn(strategy)
        print(f"{name}: {', '.join(f'{value:.2f}' for value in accuracy)}, average {sum(accuracy) / TASKS:.2f}")


if __name__ == "__main__":
    main()
