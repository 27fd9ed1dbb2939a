import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gensim.downloader
import pytest

from factlearn.assets import fetch
from factlearn.assets.library import TorchvisionWeights
from factlearn.errors import AssetError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address it is served under."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_torchs_download_is_checked_against_the_hash_in_its_name(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    content = b"weights" * 1000
    name = f"net-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    (folder / name).write_bytes(content)
    out = tmp_path / "out"
    out.mkdir()
    assert TorchvisionWeights(f"{address}/{name}")(out).read_bytes() == content
    (out / name).unlink()
    (folder / name).write_bytes(content + b"changed")
    with pytest.raises(AssetError, match=f"{name} was refused: its checksum"):
        TorchvisionWeights(f"{address}/{name}")(out)
    assert not list(out.iterdir())


def test_weights_that_torch_has_already_are_used_if_whole(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    name = f"net-{hashlib.sha256(b'weights').hexdigest()[:8]}.pth"
    (folder / name).write_bytes(b"weights")
    kept = tmp_path / "torch" / "hub" / "checkpoints" / name
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"weights")
    assert TorchvisionWeights(f"{address}/{name}")(tmp_path) == kept
    kept.write_bytes(b"half")
    assert TorchvisionWeights(f"{address}/{name}")(tmp_path).read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("name", "alternative"),
    [("vgg16-imagenet", "use vgg16-imagenet-conv"), ("word2vec-google-news-300", "use glove-6b-50d")],
)
def test_without_a_network_a_librarys_download_names_the_alternative(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, alternative: str
) -> None:
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nobody answers there
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(gensim.downloader, "BASE_DIR", str(tmp_path / "gensim"))
    monkeypatch.setattr(gensim.downloader, "base_dir", str(tmp_path / "gensim"), raising=False)
    with pytest.raises(AssetError, match="could not be downloaded by") as caught:
        fetch(name)
    assert alternative in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
