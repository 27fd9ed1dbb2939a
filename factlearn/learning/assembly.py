"""From a config to the parts it names: dataset, language space, tasks, model, strategy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from factlearn.config import DataConfig, LanguageConfig, ModelConfig, TasksConfig
from factlearn.data.samples import FactDataset
from factlearn.data.tasks import TaskSplit, agglomerative, random_balanced
from factlearn.errors import ConfigError, DatasetError
from factlearn.facts import Fact, FactQuery, Relevance
from factlearn.language import LanguageSpace
from factlearn.progress import say

if TYPE_CHECKING:
    from factlearn.models.embedder import FactEmbedder
    from factlearn.models.preprocess import Preprocess


def open_dataset(config: DataConfig) -> FactDataset:
    """The images and facts of a run, with both a train and a test side."""
    if config.source == "emoji":
        from factlearn.data.emoji import emoji_dataset

        dataset = emoji_dataset(vendors=config.vendors)
    else:
        from factlearn.data.checking import readable
        from factlearn.data.manifest import read_manifest

        assert config.manifest is not None
        dataset = read_manifest(config.manifest, root=config.root, on_error=config.on_error, report=say)
        if config.on_error == "skip":
            dataset = readable(dataset, on_error="skip", report=say)
    for split in ("train", "test"):
        if not len(dataset.of_split(split)):
            raise DatasetError(f"The dataset {dataset.name} has no {split} images; mark some rows with split {split}.")
    return dataset


def open_language(config: LanguageConfig, dataset: FactDataset) -> LanguageSpace:
    """The language space of a dataset; every fact of it has a vector."""
    aliases = {**dataset.aliases, **config.aliases}
    language = LanguageSpace.open(config.vectors, aliases=aliases, normalise=config.normalise)
    if config.centre:
        language = language.centred_on(dataset.facts)
    language.embed(dataset.facts)
    return language


def fact_embeddings(facts: Sequence[Fact], language: LanguageSpace) -> dict[Fact, NDArray[np.float32]]:
    """Each fact's units side by side, a missing unit as zeros: what facts are clustered by."""
    vectors, _ = language.embed(facts)
    return dict(zip(facts, vectors.reshape(len(facts), -1), strict=True))


def make_tasks(config: TasksConfig, dataset: FactDataset, language: LanguageSpace, seed: int) -> TaskSplit:
    """The tasks that a config asks for."""
    train, test = ([sample.fact for sample in dataset.of_split(s).samples if sample.fact] for s in ("train", "test"))
    learned = sorted(set(train))
    if config.method == "file":
        assert config.file is not None
        split = TaskSplit.load(config.file)
        for fact in (fact for task in split.tasks for fact in task.facts):
            if fact not in set(learned):
                raise DatasetError(f"{config.file}: {fact} has no training images in {dataset.name}; remove it.")
    elif config.method == "random":
        split = random_balanced(train, (fact for fact in test if fact in set(learned)), config.count, seed=seed,
                                trials=config.trials)  # fmt: skip
    else:
        split = agglomerative(fact_embeddings(learned, language), config.count, linkage=config.linkage)
    return split.renamed(config.names) if config.names else split


def choose_facts(patterns: Sequence[str], facts: Sequence[Fact]) -> list[Fact]:
    """The facts that patterns such as `<person, *, tennis>` name exactly; a pattern that names none is an error."""
    chosen: dict[Fact, None] = {}
    for pattern in patterns:
        query = FactQuery.parse(pattern)
        matches = [fact for fact in facts if query.matches(fact, Relevance.EXACT)]
        if not matches:
            raise DatasetError(f"No fact of the dataset matches {query}; `factlearn split` lists the facts there are.")
        chosen.update(dict.fromkeys(matches))
    return list(chosen)


def build_embedder(config: ModelConfig, dimension: int, *, pretrained: bool = True) -> "FactEmbedder":
    """The network, with its pretrained weights unless others are to be loaded."""
    from factlearn.models.embedder import EmbedderShape, FactEmbedder

    model = FactEmbedder(
        EmbedderShape(
            dimension=dimension,
            image_size=config.image_size,
            frozen=config.frozen,
            blocks=config.blocks,
            hidden=config.hidden,
            dropout=config.dropout,
            standardise=config.standardise,
        )
    )
    if not pretrained:
        return model
    if config.weights is None:
        if config.frozen != "none":
            raise ConfigError(f"model.frozen is {config.frozen} but there are no weights to freeze; set model.weights.")
    else:
        model.load_imagenet(weights_file(config.weights))
    return model


def weights_file(weights: str) -> Path:
    """The file of weights that a config names, by path or as an asset."""
    if "/" in weights or weights.endswith(".safetensors"):
        path = Path(weights).expanduser()
        if not path.is_file():
            raise ConfigError(f"model.weights: the file {path} does not exist; give a file or an asset's name.")
        return path
    from factlearn.assets import fetch

    return fetch(weights)


def make_preprocess(config: ModelConfig) -> "Preprocess":
    """How images become the network's input."""
    from factlearn.models.preprocess import Preprocess

    return Preprocess(config.image_size, config.fit)
