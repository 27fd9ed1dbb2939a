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
    host: Annotated[str, typer.Option(help="The address to listen on; only this machine by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with a token that allows changes; a random one is printed if not given."),
    ] = None,
    read_token: Annotated[bool, typer.Option("--read-token", help="Reading needs the token as well.")] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that embed pictures; queries never wait for them.")
    ] = 1,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name under which clients reach the service, such as its proxy's.")
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(help="The address of a proxy in front, whose X-Forwarded headers are believed.")
    ] = None,
    uploads: Annotated[
        Path | None, typer.Option(help="Where added pictures are kept; INDEX.uploads beside each index if not given.")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests per second that one client may make; 0 for any number.")
    ] = 100.0,
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
