"""How fast `factlearn index build` embeds, beside the bare network on pixels that are ready in memory.

    python benchmarks/embedding.py [--images 256] [--size 224] [--batch 32] [--rounds 3]

Both embed the same images with the same frozen VGG-16 in batches of the same size; decoding, resizing and writing the
index belong to the build and not to the bare network. A third row is the bare network in bfloat16 (`model.precision`),
which only helps where the CPU has it. Rounds are interleaved; the ratio of the first two medians must reach 0.9.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from factlearn.lifelong.allocator import keep_freed_memory
from factlearn.models.config import ModelConfig
from factlearn.models.embedder import FactEmbedder
from factlearn.models.inference import embed_images
from factlearn.models.preprocess import PLAIN, Preprocess

LIMIT = 0.9


def photographs(folder: Path, count: int) -> list[Path]:
    """JPEG files of 640 x 480 with some content."""
    generator = np.random.default_rng(0)
    paths = []
    for number in range(count):
        small = generator.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def main() -> None:
    """Print images a second both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    config = ModelConfig(image_size=options.size, frozen="conv5", features=("conv4", "conv5"), hidden=())
    model = FactEmbedder(config, dimension=50).eval()
    quick = FactEmbedder(config.model_copy(update={"precision": "bfloat16"}), dimension=50).eval()
    quick.load_state_dict(model.state_dict())
    preprocess = Preprocess(options.size, "crop")
    with tempfile.TemporaryDirectory() as place:
        paths = photographs(Path(place), options.images)
        pixels = torch.from_numpy(np.stack([preprocess.pixels(path, PLAIN) for path in paths]))
        ready = preprocess.normalise(pixels).split(options.batch)
        jobs: dict[str, Callable[[], Any]] = {
            "bare network": lambda: [model(batch) for batch in ready],
            "index build": lambda: embed_images(model, paths, preprocess, batch_size=options.batch),
            "bfloat16": lambda: [quick(batch) for batch in ready],
        }
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        with torch.inference_mode():
            for name, _ in list(jobs.items()) * options.rounds:
                started = time.perf_counter()
                jobs[name]()
                seconds[name].append(time.perf_counter() - started)
            agreement = torch.nn.functional.cosine_similarity(
                *(each.frozen(ready[0]).flatten(1) for each in (model, quick))
            )
    rate = {name: options.images / statistics.median(times) for name, times in seconds.items()}
    for name, value in rate.items():
        print(f"{name:14} {value:6.2f} images/s  ({options.size} px, batch {options.batch})")
    print(
        f"bfloat16 is {rate['bfloat16'] / rate['bare network']:.2f} times as fast; "
        f"its features' cosine with float32's is {float(agreement.min()):.6f} at least"
    )
    ratio = rate["index build"] / rate["bare network"]
    print(f"{ratio:.2f} of the bare network (at least {LIMIT}){'' if ratio >= LIMIT else ': MISSED'}")


if __name__ == "__main__":
    main()
