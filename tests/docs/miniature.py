"""A checkout in miniature, in which documented commands run as they stand, in seconds and without a network.

Everything is real but small: pictures drawn on the spot, the assets that the project's configs name made from them,
and those configs with fewer epochs, narrower layers and smaller images.
"""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from factlearn.assets import fetch
from factlearn.data.emoji_facts import fact_of_name
from factlearn.facts import Fact

ROOT = Path(__file__).parents[2]
VENDORS = ("Goog", "Twtr", "Joy", "Sams")  # two to learn from, two to test on
FACT_EMOJI = (
    "person biking", "man biking", "woman biking", "woman golfing", "horse racing", "person running", "man climbing",
    "dog", "bicycle", "umbrella", "woman with veil", "person in tuxedo", "man wearing turban",
    "person raising hand", "woman shrugging", "man bowing",
)  # fmt: skip
CLASS_EMOJI = {
    "Smileys & Emotion": ("red heart", "alien", "smiling face with sunglasses"),
    "People & Body": ("ear", "nose"),
    "Animals & Nature": ("cat", "horse"),
    "Food & Drink": ("banana", "pizza"),
    "Travel & Places": ("bus", "castle"),
    "Activities": ("soccer ball", "trophy"),
    "Objects": ("hammer", "key"),
    "Flags": ("flag: Belgium", "flag: Japan"),
}
PHOTO_FACTS = (
    "<person, riding, bike>", "<person, playing, tennis>", "<woman, playing, golf>", "<man, riding, horse>",
    "<person, jumping>", "<woman, running>", "<dog>", "<tree>",
)  # fmt: skip
EMOJI = (*FACT_EMOJI, *(name for names in CLASS_EMOJI.values() for name in names))
SEASONS = {
    "album": ("person_riding_bike", "person_playing_tennis", "woman_running", "dog"),
    "spring": ("woman_playing_golf", "man_riding_horse"),
    "summer": ("person_jumping", "tree"),
}
SHOWN = tuple(name for names in SEASONS.values() for name in names)
CLASSES = {"fruit": ("apple", "banana"), "tools": ("hammer", "saw")}
MORE_WORDS = ("covering", "face", "kite", "ball", "tennis", "cricket", "holding", "walking", "men", "women", "people")
COLOURS = ((200, 30, 30), (30, 30, 200), (30, 160, 30), (200, 160, 20), (120, 30, 160))


def draw(path: Path, kind: int, seed: int) -> Path:
    """A noisy picture whose shape and colour depend on its kind."""
    generator = np.random.default_rng([kind, seed])
    image = Image.fromarray(generator.integers(180, 255, (40, 40, 3), dtype=np.uint8))
    x, y = generator.integers(0, 12, 2).tolist()
    pen, box = ImageDraw.Draw(image), (x, y, x + 24, y + 24)
    (pen.ellipse if kind % 2 else pen.rectangle)(box, fill=COLOURS[kind // 2 % len(COLOURS)])
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def make_assets(folder: Path) -> None:
    """Put miniature assets under the names of the real ones into the cache that FACTLEARN_CACHE names."""
    _draw_emoji(folder / "emoji")
    fetch("emoji-pictures", path=folder / "emoji")
    fetch("emoji-categories", path=folder / "emoji.json")
    fetch("glove-6b-50d", path=_write_vectors(folder / "vectors.txt"))
    for backbone in ("vgg16", "alexnet"):
        fetch(f"{backbone}-imagenet-conv", path=_write_weights(backbone, folder / f"{backbone}.safetensors"))


def make_checkout(folder: Path) -> None:
    """The package itself, the examples, small configs, and the pictures of a user."""
    for name in ("factlearn", "examples"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "configs", folder / "configs")
    for path in (folder / "configs").rglob("*.yaml"):
        path.write_text(yaml.safe_dump(shrunk(yaml.safe_load(path.read_text())), sort_keys=False))
    _make_photos(folder / "photos.csv")
    draw(folder / "photo.jpg", 0, 99)
    for number in range(6):
        draw(folder / "Pictures" / ("holiday" if number < 2 else "") / f"{number}.jpg", number, 50)
    for kind, name in enumerate(("person-riding-bike", "woman-playing-golf", "dog", "tree")):
        for seed in range(4):
            draw(folder / "snapshots" / f"{name}.{seed}.jpg", kind, seed)
    for kind, name in enumerate(("person_riding_bike", "woman playing golf", "dog", "tree")):
        for seed in range(3):
            draw(folder / "albums" / name / f"{seed}.jpg", kind, seed)
    for task, classes in CLASSES.items():
        for kind, name in enumerate(classes):
            for seed in range(6):
                draw(folder / "objects" / task / name / f"{seed}.jpg", kind, seed)
    _make_seasons(folder)


def shrunk(config: dict[str, Any]) -> dict[str, Any]:
    """A config that takes seconds where the original takes minutes."""
    model, training, data = (config.get(name, {}) for name in ("model", "training", "data"))
    if "image_size" in model:
        model["image_size"] = 64 if "alexnet" in str(model) else 32
    if "hidden" in model:
        model["hidden"] = [16] * len(model["hidden"])
    if training:
        training.update(epochs=1, batch_size=32)
        training.pop("checkpoint_epochs", None)
    if "classes" in data:
        data["classes"] = 2
    if "language" in config:
        config["language"]["vectors"] = "glove-6b-50d"  # the one whose miniature is made
    for each in config.get("scales", {}).values():
        shrunk(each)
    return config


def _draw_emoji(folder: Path) -> None:
    import emoji

    by_name = {about["en"].strip(":").replace("_", " "): text for text, about in reversed(emoji.EMOJI_DATA.items())}
    table = []
    for kind, name in enumerate(EMOJI):
        text = next(by_name[each] for each in (name, name.replace("flag: ", "")) if each in by_name)
        points = [f"{ord(letter):04X}" for letter in text]
        for seed, vendor in enumerate(VENDORS):
            draw(folder / vendor / f"{'-'.join(f'U+{point}' for point in points)}.png", kind, seed)
        table += [
            {"unified": "-".join(points), "category": category}
            for category, members in CLASS_EMOJI.items()
            if name in members
        ]
    (folder.parent / "emoji.json").write_text(json.dumps(table))


def _write_vectors(path: Path) -> Path:
    facts = [fact for name in EMOJI if (fact := fact_of_name(name))] + [Fact.parse(text) for text in PHOTO_FACTS]
    words = sorted({word for fact in facts for unit in fact.units for word in unit.split()} | set(MORE_WORDS))
    values = np.random.default_rng(0).normal(size=(len(words), 50))
    lines = [f"{word} {' '.join(f'{x:.5f}' for x in row)}\n" for word, row in zip(words, values, strict=True)]
    path.write_text("".join(lines))
    return path


def _write_weights(backbone: str, path: Path) -> Path:
    from factlearn.models.backbones import BACKBONES

    torch.manual_seed(0)
    layers = torch.nn.Sequential(*BACKBONES[backbone].layers())
    save_file({f"features.{name}": tensor for name, tensor in layers.state_dict().items()}, path)
    return path


def _make_seasons(folder: Path) -> None:
    """What the guide labels in the course of a year: folders named for facts."""
    for season, facts in SEASONS.items():
        for name in facts:
            for seed in range(10):
                draw(folder / season / name / f"{seed}.jpg", SHOWN.index(name), seed)


def _make_photos(path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("path", "split", "subject", "predicate", "object", "year", "topic"))
        for kind, text in enumerate(PHOTO_FACTS):
            for seed in range(6):
                photo = draw(path.parent / "photos" / f"{kind}-{seed}.jpg", kind, seed)
                fact = Fact.parse(text)
                topic = "people" if fact.predicate else "things"
                row = (fact.subject, fact.predicate, fact.object, 2018 + seed, topic)
                writer.writerow((photo.relative_to(path.parent), "train" if seed < 4 else "test", *row))
