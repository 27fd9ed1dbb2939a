"""The source `paper`: the paper's eight datasets, as published or as folders `NAME/{train,test}/CLASS/`.

Nothing is downloaded here: `SETS` says where each comes from. A dataset lies in ROOT/NAME, by its name in `SETS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from factlearn.data.classes import ClassSequence, ClassTask, choose_tasks, task_of
from factlearn.data.folder import Labelled, TaskFoldersConfig, folder_task, split_by_name
from factlearn.data.registry import source
from factlearn.errors import DatasetError
from factlearn.images import find_images

Sides = tuple[Labelled, Labelled]


@dataclass(frozen=True)
class PaperSet:
    """One of the eight datasets.

    Attributes:
        where: how to get it, in one line.
        marker: a file or folder below ROOT/NAME that the publisher's layout has.
        read: gives the training and test images with their classes.
    """

    where: str
    marker: str
    read: Callable[[Path], Sides]


def _torchvision(name: str) -> Any:
    from factlearn.models.vision import torchvision

    return getattr(torchvision.datasets, name)


def _images(kind: str, folder: Path, *splits: str) -> Labelled:
    parts = [_torchvision(kind)(folder, split=split) for split in splits]
    listed = [(part, *row) for part in parts for row in zip(part._image_files, part._labels, strict=True)]
    return [(Path(path), part.classes[label]) for part, path, label in listed]


def _flowers(folder: Path) -> Sides:
    return _images("Flowers102", folder, "train", "val"), _images("Flowers102", folder, "test")


def _aircraft(folder: Path) -> Sides:
    return _images("FGVCAircraft", folder, "trainval"), _images("FGVCAircraft", folder, "test")


def _cars(folder: Path) -> Sides:
    def images(split: str) -> Labelled:
        part = _torchvision("StanfordCars")(folder, split=split)
        return [(Path(path), str(part.classes[label])) for path, label in part._samples]

    return images("train"), images("test")


def _svhn(folder: Path) -> Sides:
    """The digits come as one array; they are written out once, as images beside it."""
    from PIL import Image

    def images(split: str) -> Labelled:
        out, done = folder / "images" / split, folder / "images" / f"{split}-complete"
        if not done.is_file():
            part = _torchvision("SVHN")(folder, split=split)
            for number, (pixels, label) in enumerate(zip(part.data, part.labels, strict=True)):
                path = out / str(label) / f"{number:06d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels.transpose(1, 2, 0)).save(path)
            done.touch()
        return [(path, path.parent.name) for path in find_images(out)]

    return images("train"), images("test")


def _scenes(folder: Path) -> Sides:
    def images(file: str) -> Labelled:
        names = _lines(folder / file)
        return [(folder / "Images" / name, name.partition("/")[0]) for name in names]

    return images("TrainImages.txt"), images("TestImages.txt")


def _birds(folder: Path) -> Sides:
    base = folder / "CUB_200_2011"
    files, labels, sides, names = (
        dict(line.split(" ", 1) for line in _lines(base / f"{file}.txt"))
        for file in ("images", "image_class_labels", "train_test_split", "classes")
    )
    images = [(base / "images" / files[key], names[labels[key]], sides[key]) for key in files]
    return [(p, label) for p, label, side in images if side == "1"], [(p, c) for p, c, side in images if side == "0"]


def _actions(folder: Path) -> Sides:
    """Whole images, of those in which people do one action only."""
    base = folder / "VOCdevkit" / "VOC2012"
    lists = base / "ImageSets" / "Action"

    def images(side: str) -> Labelled:
        shown: dict[str, set[str]] = {}
        for file in sorted(lists.glob(f"*_{side}.txt")):
            for line in _lines(file):
                name, _, positive = line.split()
                if positive == "1":
                    shown.setdefault(name, set()).add(file.stem.removesuffix(f"_{side}"))
        return [(base / "JPEGImages" / f"{n}.jpg", min(acts)) for n, acts in sorted(shown.items()) if len(acts) == 1]

    return images("train"), images("val")


def _letters(folder: Path) -> Sides:
    """Letters only, without the ten digits; the publisher gives no split, so 30 % are for testing."""
    base = folder / "English" / "Img" / "GoodImg" / "Bmp"
    letters = [chr(code) for code in (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))]
    images = [
        (path, f"{'upper' if letter.isupper() else 'lower'} {letter}")
        for number, letter in enumerate(letters, 11)
        for path in find_images(base / f"Sample{number:03d}")
    ]
    return split_by_name(images, base, 0.3)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read ({error}); unpack the dataset again.") from error


_DOWNLOAD = 'python -c "import torchvision; torchvision.datasets.{}"'
SETS = {
    "flowers": PaperSet(
        _DOWNLOAD.format("Flowers102('ROOT/flowers', download=True)"), "flowers-102/setid.mat", _flowers
    ),
    "scenes": PaperSet(
        "unpack indoorCVPR_09.tar, and put TrainImages.txt and TestImages.txt beside Images/, from "
        "https://web.mit.edu/torralba/www/indoor.html",
        "TrainImages.txt",
        _scenes,
    ),
    "birds": PaperSet(
        "unpack CUB_200_2011.tgz from https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "CUB_200_2011/images.txt",
        _birds,
    ),
    "cars": PaperSet(
        "lay out Stanford Cars as torchvision.datasets.StanfordCars says (its publisher's own server is gone; "
        "mirrors exist), in ROOT/cars/stanford_cars",
        "stanford_cars/devkit",
        _cars,
    ),
    "aircraft": PaperSet(
        _DOWNLOAD.format("FGVCAircraft('ROOT/aircraft', download=True)"), "fgvc-aircraft-2013b/data", _aircraft
    ),
    "actions": PaperSet(
        "unpack VOCtrainval_11-May-2012.tar from http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
        "VOCdevkit/VOC2012/ImageSets/Action",
        _actions,
    ),
    "letters": PaperSet(
        "unpack EnglishImg.tgz from https://info-ee.surrey.ac.uk/CVSSP/demos/chars74k/",
        "English/Img/GoodImg/Bmp",
        _letters,
    ),
    "svhn": PaperSet(
        'python -c "from torchvision.datasets import SVHN; '
        "[SVHN('ROOT/svhn', split=s, download=True) for s in ('train', 'test')]\"",
        "train_32x32.mat",
        _svhn,
    ),
}
"""The paper's order: Flower, Scenes, Birds, Cars, Aircraft, Actions, Letters, SVHN."""


class PaperConfig(TaskFoldersConfig):
    """The paper's datasets."""

    source: Literal["paper"] = "paper"


@source("paper", learn="classes", config=PaperConfig, summary="the paper's eight datasets, downloaded by you")
def open_paper(config: PaperConfig, seed: int) -> ClassSequence:
    """The paper's datasets in the root, by default all eight in the paper's order.

    Raises:
        DatasetError: naming the dataset that is missing and where to get it.
    """
    names = choose_tasks(list(SETS), config.tasks, "The paper")
    return ClassSequence("paper", tuple(_task(config.root / name, name, config.classes) for name in names))


def _task(folder: Path, name: str, classes: int | None) -> ClassTask:
    known = SETS[name]
    if (folder / "train").is_dir() and (folder / "test").is_dir():
        return folder_task(folder, name, classes)
    if not (folder / known.marker).exists():
        where = known.where.replace("ROOT", str(folder.parent))
        raise DatasetError(
            f"The dataset {name!r} is not in {folder}; to get it: {where}; or lay it out as train/CLASS and test/CLASS."
        )
    try:
        train, test = known.read(folder)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise DatasetError(f"The dataset {name!r} in {folder} is incomplete ({error}); get it again.") from error
    missing = next((path for path, _ in (*train, *test) if not path.is_file()), None)
    if missing is not None:
        raise DatasetError(f"The dataset {name!r} lacks the image {missing}; unpack it again.")
    return task_of(name, train, test, folder, classes)
