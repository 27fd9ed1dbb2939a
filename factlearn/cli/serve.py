"""The command that serves indexes over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from factlearn.cli.index_options import RunOption


def serve(
    indexes: Annotated[
        list[str],
        typer.Argument(
            metavar="INDEX...", help="Indexes to serve: folders, milvus://host:port/collection, or NAME=INDEX."
        ),
    ],
    run: RunOption = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is reachable from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file of tokens that allow changes, one per line; by default a random one is printed."),
    ] = None,
    read_token: Annotated[bool, typer.Option("--read-token", help="Require the token for reading, too.")] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that embed pictures; queries never wait for them.")
    ] = 1,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another host name that clients may use, such as the proxy's; repeat for more."),
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(help="Address of a reverse proxy whose X-Forwarded headers are trusted.")
    ] = None,
    uploads: Annotated[
        Path | None, typer.Option(help="Folder for added pictures; by default INDEX.uploads next to each index.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0, help="Maximum requests per second and client; 0 for no limit.")] = 100.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Serve indexes over HTTP, with a web page."""
    from factlearn.errors import ConfigError

    try:
        from factlearn.server import running
        from factlearn.server.settings import Settings, read_tokens
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Serving needs the package {error.name}; install it with `pip install 'factlearn[serve]'`."
        ) from None
    import logging
    import secrets

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("factlearn.server").setLevel(logging.WARNING if quiet else logging.INFO)
    tokens = (secrets.token_urlsafe(24),) if token_file is None else read_tokens(token_file)
    settings = Settings(
        indexes=tuple(indexes),
        run=run,
        host=host,
        port=port,
        token_to_read=read_token,
        hosts=tuple(allow_host or ()),
        uploads=uploads,
        workers=workers,
        rate=rate,
        proxy=proxy,
        tokens=tokens,
    )
    running.run(settings, lambda text: print(text, flush=True), show_token=token_file is None)
