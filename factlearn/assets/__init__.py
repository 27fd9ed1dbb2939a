"""Named weights, word vectors and pictures: where each comes from, verified, converted once and cached.

Nothing is downloaded unless `fetch` is called; what is in the cache is given at once.

Example:
    >>> from factlearn.assets import ASSETS, cached_path, fetch
    >>> [name for name, asset in ASSETS.items() if asset.kind == "vectors"]
    ['glove-6b-50d', 'word2vec-google-news-300', 'wordllama-256', 'wordllama-128', 'wordllama-64', 'minilm-384']
"""

from factlearn.assets.cache import cache_dir
from factlearn.assets.fetching import cached_path, content_checksum, fetch
from factlearn.assets.registry import ASSETS, Asset, LibraryDownload, PipPackage, find_asset

__all__ = [
    "ASSETS",
    "Asset",
    "LibraryDownload",
    "PipPackage",
    "cache_dir",
    "cached_path",
    "content_checksum",
    "fetch",
    "find_asset",
]
