"""`llm-fsm studio`."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import webbrowser
from functools import partial
from typing import TYPE_CHECKING

import click

from llm_fsm._json import JsonDict
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.listening import listening_socket
from llm_fsm.cli.options import base_url_option, command, db_option, tools_option
from llm_fsm.cli.stores import open_existing, open_store
from llm_fsm.cli.terminal import console

if TYPE_CHECKING:
    from llm_fsm.editor.studio import Studio

LOOPBACK = "127.0.0.1"


@command("llm-fsm studio", "llm-fsm studio bots/order.json --model openai/gpt-4o-mini")
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
@click.option(
    "-m",
    "--model",
    "models",
    metavar="M",
    multiple=True,
    help="A model that the playground may ask.",
)
@base_url_option
@db_option
@tools_option
@click.pass_context
def studio(
    ctx: click.Context,
    *,
    path: str,
    port: int,
    browser: bool,
    models: tuple[str, ...],
    base_url: str | None,
    db: str | None,
    tools: tuple[str, ...],
) -> None:
    """Edit definitions in the browser, talk to them, and look into past turns.

    The first line is the address, with a token that only this machine may use. Files outside of
    FOLDER are neither read nor written. Without --model the playground has `offline` and scripted
    replies, and no request leaves this machine. --db opens copies of stored conversations. --tools
    runs the Python file that it names: name only your own.

    Exit codes: 0 ended. 2 usage. 4 store. 130 interrupted.
    """
    exits.need("the studio", exits.SERVING, "server")
    made = _studio(path, models, db, _equipment(base_url, tools))
    listening = listening_socket(LOOPBACK, port)
    token = secrets.token_urlsafe(32)
    address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/#token={token}"
    console.text(address)
    sys.stdout.flush()  # who started this waits for the line
    if browser:
        webbrowser.open(address)
    _serve(made, token, listening, verbose=ctx.obj.verbose > 0)


def _equipment(base_url: str | None, tools: tuple[str, ...]) -> JsonDict:
    """Return settings for the machines of the playground. Raises Failure."""
    from llm_fsm.cli.host_code import host_of

    host = host_of(tools)
    return {
        "base_url": base_url,
        "tools": host.tools,
        "functions": list(host.functions.values()),
        "handlers": host.handlers,
    }


def _new_files(name: str, template: str | None) -> dict[str, str]:
    """Return the files of a new definition. Raises ValueError."""
    from llm_fsm.cli.templates import files

    try:
        return files(name, template)
    except Failure as error:
        raise ValueError(error.message) from error


def _studio(path: str, models: tuple[str, ...], db: str | None, equipment: JsonDict) -> Studio:
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
    store = None
    if db is not None:
        if open_existing(db) is None:
            raise Failure(f"{db}: there is no such store", exits.STORE)
        store = partial(open_store, db)
    return Studio(
        folder=Folder(folder),
        file=file,
        models=models,
        store=store,
        new_files=_new_files,
        equipment=equipment,
    )


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
