"""`llm-fsm studio`."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import webbrowser
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import GlobalOptions, example, verbose_option
from llm_fsm.cli.terminal import console

if TYPE_CHECKING:
    from llm_fsm.editor.studio import Studio

_NEEDED = ("fastapi", "uvicorn", "sse_starlette", "httptools", "prometheus_client", "ag_ui")
LOOPBACK = "127.0.0.1"


@click.command(epilog=example("llm-fsm studio", "llm-fsm studio bots/order.json"))
@click.argument("path", metavar="[FILE or FOLDER]", default=".")
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes a free one.",
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the browser, or only print the address."
)
@verbose_option
@click.pass_context
def studio(ctx: click.Context, *, path: str, port: int, browser: bool) -> None:
    """Edit definitions in the browser, talk to them, and look into past turns.

    The first line is the address, with a token that only this machine may use. Files outside of FOLDER are neither
    read nor written, and no request leaves this machine.

    Exit codes: 0 ended, 2 usage, 130 interrupted.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise Failure(
            f"the studio needs {', '.join(missing)}: pip install 'llm-fsm-runtime[server]'", exits.USAGE
        )
    made = _studio(path)
    listening = _listening(port)
    token = secrets.token_urlsafe(32)
    address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/#token={token}"
    console.text(address)
    sys.stdout.flush()  # who started this waits for the line
    if browser:
        webbrowser.open(address)
    verbose = ctx.ensure_object(GlobalOptions).verbose > 0
    _serve(made, token, listening, verbose=verbose)
    ctx.exit(exits.OK)


def _studio(path: str) -> Studio:
    """Return the studio of a file or a folder. Raises UsageError, Failure."""
    from llm_fsm.editor.folder import Folder
    from llm_fsm.editor.studio import Studio

    if os.path.isdir(path):
        folder, file = path, None
    elif os.path.isfile(path):
        folder, file = os.path.split(os.path.abspath(path))
    else:
        raise click.UsageError(f"{path}: there is no such file or folder")
    if file is not None and not file.endswith(".json"):
        raise click.UsageError(f"{path}: the studio opens files whose names end with .json")
    return Studio(folder=Folder(folder), file=file)


def _listening(port: int) -> socket.socket:
    """Return the socket to listen on. Raises Failure."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=128)
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise Failure(
            f"cannot listen on {LOOPBACK}:{port}: {said}; choose another --port", exits.USAGE
        ) from error


def _serve(made: Studio, token: str, listening: socket.socket, *, verbose: bool) -> None:
    from llm_fsm.cli.failures import show_failures
    from llm_fsm.editor.app import LIMITS, create_studio
    from llm_fsm.server import run

    forget = show_failures(verbose=verbose)
    try:
        run.Server(run.config_of(create_studio(made, token=token), limits=LIMITS)).run(
            sockets=[listening]
        )
    finally:
        forget()
