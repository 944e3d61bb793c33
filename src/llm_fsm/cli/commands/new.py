"""`llm-fsm new`."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path

import click

from llm_fsm.cli import templates as starter
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import command
from llm_fsm.cli.terminal import console
from llm_fsm.errors import os_reason

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@command("llm-fsm new table-booking", "llm-fsm new my-order --template order")
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    default=".",
    help="Where the new folder goes; here by default.",
)
@click.option(
    "--template", metavar="NAME", help="Start from this shipped definition, with tests made for it."
)
def new(name: str, folder: str, template: str | None) -> None:
    """Start a definition with a test and a CI file.

    Makes a folder NAME with a definition, conversations that `llm-fsm test` plays, and a workflow
    for GitHub that checks both. The definition is a booking that reads its answers back and takes
    corrections. It books only on a clear yes. A user can leave it or ask for a person at any time.
    Nothing is overwritten.
    """
    if _NAME.fullmatch(name) is None:
        raise click.UsageError(
            f"{name[:50]!r} is no name for a definition: begin with a small letter. Use at most 40 small letters, "
            "digits, - and _"
        )
    target = Path(folder) / name
    try:
        files = starter.files(name, template)
        _write(target, files)
    except FileExistsError as error:
        raise Failure(
            f"{target}: exists already, and nothing is overwritten: choose another name"
        ) from error
    except OSError as error:
        raise Failure(f"{error.filename or target}: cannot be made: {os_reason(error)}") from error
    console.out(*(str(target / path) for path in files))
    console.text(starter.hints(name, target, template), sys.stderr)


def _write(target: Path, files: dict[str, str]) -> None:
    """The folder with all its files, or none of them; it must not exist yet, unless it is empty."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    made = []
    try:
        for name, text in files.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                made.append(path)
                stream.write(text)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        folders = set(chain.from_iterable((target / name).parents for name in files))
        for folder in sorted(folders, reverse=True):
            if folder.is_relative_to(target):
                with suppress(OSError):  # never made, or somebody else's files are in it
                    folder.rmdir()
        raise
