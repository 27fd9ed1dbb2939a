"""A real service on a free loopback port, in a thread of the test's process."""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from factlearn.server.running import Server
from factlearn.server.settings import Settings

TOKEN = "a-token-for-tests-only"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Running:
    """A service that answers at `url`."""

    server: Server
    url: str
    port: int
    http: httpx.Client

    @property
    def service(self):
        return self.server.app.state.service

    def get(self, path, status=200, **parameters):
        """The JSON at an API path."""
        response = self.http.get(f"/api/v1{path}", params=parameters)
        assert response.status_code == status, response.text
        return response.json()

    def post(self, path, status=200, headers=BEARER, **options):
        """The JSON that an API path answers to a POST with the token."""
        response = self.http.post(f"/api/v1{path}", headers=headers, **options)
        assert response.status_code == status, response.text
        return response.json()


@contextmanager
def serving(*indexes, **settings):
    """Serve indexes until the block ends."""
    chosen = {"port": 0, "tokens": (TOKEN,), "rate": 0.0, "refresh_seconds": 0.1, **settings}
    server = Server(Settings(indexes=tuple(map(str, indexes)), **chosen))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive())
    _, port = server.address
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=120) as http:
        try:
            yield Running(server, url, port, http)
        finally:
            server.handle_exit(2, None)
            thread.join(60)
            assert not thread.is_alive()


def wait_until(condition, seconds=120):
    """Wait for something that another thread or process does."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


@contextmanager
def service_process(index, folder):
    """The command as a user starts it, with its temporary files in `folder`/tmp; its process and address."""
    (folder / "token").write_text(TOKEN)
    code = "from factlearn.cli import main; main()"
    arguments = ["serve", str(index), "--port", "0", "--rate", "0", "--quiet", "--token-file", str(folder / "token")]
    (folder / "tmp").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
    )
    try:
        yield process, process.stdout.readline().split()[3].rstrip("/")
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
