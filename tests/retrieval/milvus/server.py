"""A real Milvus server, started by tests and benchmarks in a network of their own, where no one else can reach it.

The server is the PyPI package `milvus` 2.3.5, the newest that can be installed without containers; `make milvus-test`
installs it below `.milvus-server`. It listens on all addresses whatever its config says, so it is started only in a
network namespace that has nothing but a loopback device: `unshare --map-root-user --net`, which needs no privileges
where user namespaces are allowed.
"""

import lzma
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

PLACE = Path(os.environ.get("MILVUS_SERVER", Path(__file__).parents[3] / ".milvus-server"))
PORTS = (
    "etcd_port",
    "root_coord_port",
    "proxy_port",
    "proxy_internal_port",
    "query_coord_port",
    "query_node_port",
    "index_coord_port",
    "index_node_port",
    "data_coord_port",
    "data_node_port",
)
SETTINGS = {
    **{f"{part}.ip": "127.0.0.1" for part in ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode")},
    **{f"{part}.ip": "127.0.0.1" for part in ("dataCoord", "dataNode")},
    "common.session.ttl": 5,  # seconds until a killed server is known to be gone; 30 by default
    "grpc.client.maxBackoff": 1,  # seconds between its parts' attempts to find each other; 10 by default
    "log.level": "warn",
}


def package():
    """The folder of the server's package, or None if it is not installed."""
    return PLACE / "milvus" if (PLACE / "milvus").is_dir() else None


def is_isolated():
    """Whether this process has no network but loopback."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def why_not():
    """Why a server cannot be started here, if so."""
    if package() is None:
        return "needs the Milvus server; run `make milvus-test`, which installs it"
    if not is_isolated():
        return "starts a server that listens on all addresses; run `make milvus-test`, which gives it its own network"
    return None


def isolate():
    """Run the present program again without any network but loopback, unless that is so already."""
    if not is_isolated():
        script = 'ip link set lo up && exec "$@"'
        command = ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", sys.executable, *sys.argv]
        os.execvp(command[0], command)


def unpacked(source):
    """The programs of the package, unpacked beside it once."""
    folder = source / "unpacked"
    for packed in sorted((source / "data" / "bin").glob("*.lzma")):
        file = folder / packed.stem
        if not file.exists():
            folder.mkdir(exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            with lzma.open(packed) as stream, open(part, "wb") as out:
                shutil.copyfileobj(stream, out)
            part.chmod(0o755)
            part.rename(file)
    return folder


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A server on data in a folder, started and killed as often as needed."""

    def __init__(self, folder, **settings):
        self.folder = Path(folder)
        self.source = package()
        self.programs = unpacked(self.source)
        *ports, self.health = free_ports(len(PORTS) + 1)
        self.ports = dict(zip(PORTS, ports, strict=True))
        self.port = self.ports["proxy_port"]
        self._process = None
        self._configure({**SETTINGS, **settings})

    def _configure(self, settings):
        """Write the server's config with its own program for that."""
        sys.path.insert(0, str(self.source.parent))
        try:
            from milvus import MilvusServerConfig
        finally:
            sys.path.remove(str(self.source.parent))
        config = MilvusServerConfig(data_dir=str(self.folder), **self.ports)
        for name, value in settings.items():
            config.set(name, value)
        config.resolve()

    def address(self, collection="pictures", credentials="", options=""):
        return f"milvus://{credentials}127.0.0.1:{self.port}/{collection}{options}"

    @property
    def pid(self):
        return self._process.pid

    def start(self, timeout=120):
        """Start it and wait until it says that it is healthy; the seconds that took."""
        began = time.monotonic()
        environment = {
            **os.environ,
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self.health),
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": str(self.programs),
        }
        with open(self.folder / "logs" / "output.log", "ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", self.programs / "milvus", "run", "standalone"],  # never left behind
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while time.monotonic() - began < timeout:
            if self._process.poll() is not None:
                raise RuntimeError(f"The Milvus server ended with code {self._process.returncode}; see {log.name}.")
            if self._is_healthy():
                return time.monotonic() - began
            time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"The Milvus server is not healthy after {timeout} s; see {log.name}.")

    def _is_healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/healthz", timeout=2) as page:
                return page.read() == b"OK"
        except OSError:
            return False

    def memory(self):
        """Megabytes of it in memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    def kill(self):
        """End it as a power cut does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
