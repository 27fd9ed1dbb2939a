"""From an image file to the tensor the network sees: resize, view, normalise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from factlearn.images import load_image
from factlearn.models.backbones import IMAGENET_MEAN, IMAGENET_STD
from factlearn.models.config import ModelConfig

Fit = Literal["crop", "squash"]


@dataclass(frozen=True)
class View:
    """One fixed way to look at an image. Augmentation draws one per image and epoch, so that views can be cached."""

    flip: bool = False
    zoom: float = 1.0

    @property
    def name(self) -> str:
        """A stable name, part of the key of cached activations."""
        return f"{'flip' if self.flip else 'plain'}-{self.zoom:g}"


PLAIN = View()


@dataclass(frozen=True)
class Preprocess:
    """Make an image `size` pixels square: `crop` its centre after fitting the short side, or `squash` it whole."""

    size: int
    fit: Fit = "crop"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    @classmethod
    def of(cls, config: ModelConfig) -> "Preprocess":
        """As a config's network takes its images."""
        return cls(config.image_size, config.fit, config.network.mean, config.network.std)

    @property
    def name(self) -> str:
        """A stable name, part of the key of cached activations."""
        return f"{self.size} {self.fit} {self.mean} {self.std}"

    def pixels(self, path: Path, view: View = PLAIN) -> NDArray[np.uint8]:
        """The image under the view, as uint8 [3, size, size]."""
        image = load_image(path)
        target = round(self.size * view.zoom)
        if self.fit == "squash":
            image = image.resize((target, target), Image.Resampling.BILINEAR)
        else:
            image = ImageOps.fit(image, (target, target), Image.Resampling.BILINEAR)
        if target != self.size:
            image = _centre(image, self.size)
        if view.flip:
            image = ImageOps.mirror(image)
        return np.ascontiguousarray(np.asarray(image, np.uint8).transpose(2, 0, 1))

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 [N, 3, H, W] to float, by the network's mean and deviation."""
        mean = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1) * 255
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1) * 255
        return (pixels.float() - mean) / std


def _centre(image: Image.Image, size: int) -> Image.Image:
    """The central square of an image, on white where the image is smaller."""
    offset = (image.width - size) // 2
    if offset >= 0:
        return image.crop((offset, offset, offset + size, offset + size))
    canvas = Image.new("RGB", (size, size), "white")
    canvas.paste(image, (-offset, -offset))
    return canvas
