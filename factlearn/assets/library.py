"""Downloads that the libraries we depend on publish themselves: torchvision's weights, gensim's vectors."""

from dataclasses import dataclass
from pathlib import Path

from factlearn.errors import AssetError

_TORCHVISION_FILES = {
    "vgg16": "https://download.pytorch.org/models/vgg16-397923af.pth",
    "alexnet": "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
}


@dataclass(frozen=True)
class TorchvisionWeights:
    """Downloads the file torchvision names `IMAGENET1K_V1`; torch checks it against the hash in its name."""

    architecture: str

    def __call__(self, folder: Path) -> Path:
        import torch.hub

        url = _TORCHVISION_FILES[self.architecture]
        name = url.rsplit("/", 1)[1]
        kept = Path(torch.hub.get_dir()) / "checkpoints" / name
        if kept.is_file():
            return kept
        try:
            torch.hub.download_url_to_file(
                url, str(folder / name), hash_prefix=name.split("-")[-1].removesuffix(".pth"), progress=False
            )
        except RuntimeError as error:  # torch's word for a wrong hash
            raise AssetError(
                f"torchvision's {name} does not match its checksum; it was discarded."
            ) from error
        return folder / name


def word2vec_of_gensim(folder: Path) -> Path:
    """Download Google's word2vec by gensim's downloader; only the path is asked for, so its code is not run."""
    import gensim.downloader

    try:
        return Path(gensim.downloader.load("word2vec-google-news-300", return_path=True))
    except AssertionError as error:  # gensim's word for a wrong checksum
        raise AssetError("gensim's word2vec-google-news-300 does not match its checksum.") from error
