"""Downloads that the libraries we depend on publish themselves: torchvision's weights, gensim's vectors."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from factlearn.assets.checksum import WrongChecksumError
from factlearn.files import sha256_file

_SILENCE_SECONDS = 30.0


@contextmanager
def _limited_patience() -> Iterator[None]:
    """Let a silent connection fail: the libraries set no limit, and a firewall may swallow packets."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SILENCE_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@dataclass(frozen=True)
class TorchvisionWeights:
    """Downloads the weights that torchvision names `IMAGENET1K_V1`, or takes them from torch's own cache."""

    url: str

    def __call__(self, folder: Path) -> Path:
        import torch.hub

        name = self.url.rsplit("/", 1)[1]
        prefix = name.removesuffix(".pth").rsplit("-", 1)[1]  # torchvision's names end in the hash's start
        kept = Path(torch.hub.get_dir()) / "checkpoints" / name
        if kept.is_file() and sha256_file(kept).startswith(prefix):
            return kept
        try:
            with _limited_patience():
                torch.hub.download_url_to_file(self.url, str(folder / name), hash_prefix=prefix, progress=False)
        except RuntimeError as error:  # torch's word for a wrong hash
            raise WrongChecksumError(f"torchvision's {name}") from error
        return folder / name


@dataclass(frozen=True)
class GensimVectors:
    """Downloads word vectors by gensim's downloader, which checks them and keeps them in its own folder."""

    name: str

    def __call__(self, folder: Path) -> Path:
        import gensim.downloader

        try:
            # Asked for the path alone, gensim does not run the code that it downloads beside the vectors.
            with _limited_patience(), redirect_stdout(sys.stderr):
                return Path(gensim.downloader.load(self.name, return_path=True))
        except AssertionError as error:  # gensim's word for a wrong checksum
            raise WrongChecksumError(f"gensim's {self.name}") from error
