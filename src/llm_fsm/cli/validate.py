"""`llm-fsm validate`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import get_args

import click

from llm_fsm.cli import exits, printing
from llm_fsm.cli.verbosity import verbose_option
from llm_fsm.findings import Finding, Level
from llm_fsm.loader import MAX_BYTES, check

STDIN = "<stdin>"
LEVELS: tuple[Level, ...] = get_args(Level)
_STATES = re.compile(rb'"states"\s*:')


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*LEVELS, "never"]),
    default="error",
    show_default=True,
    help="The least level of a finding that makes the exit code 1.",
)
@verbose_option
@click.pass_context
def validate(context: click.Context, paths: Sequence[str], form: str, fail_on: str) -> None:
    """Check definition files and say everything that is wrong.

    PATH is a file, a folder (every definition below it), or - for standard input. Exit code 0: clean; 1: a
    finding at or above --fail-on, or a file that is no definition; 2: a file that cannot be read.
    """
    findings: list[Finding] = []
    files = 0
    for found in _each(paths):
        files += 1
        findings.extend(found)
    if form == "json":
        printing.out(printing.as_json({"findings": [finding.to_dict() for finding in findings]}))
    elif findings:
        printing.out("\n".join(printing.one_line(str(finding)) for finding in findings))
    printing.err(summary(files, findings))
    context.exit(code(findings, fail_on))


def code(findings: Iterable[Finding], fail_on: str) -> int:
    """The exit code for what was found. Findings of the family E mean that there is no definition to judge."""
    found = tuple(findings)
    if any(finding.name == exits.UNREADABLE for finding in found):
        return exits.USAGE
    bad = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on in LEVELS else ()
    at_fault = any(finding.level in bad or finding.code.startswith("E") for finding in found)
    return exits.AT_FAULT if at_fault else exits.OK


def summary(files: int, findings: Sequence[Finding]) -> str:
    """`3 files, 1 error, 2 warnings`; notes are counted where there are any."""
    numbers = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    parts = [printing.plural(files, "file"), printing.plural(numbers["error"], "error")]
    parts.append(printing.plural(numbers["warning"], "warning"))
    if numbers["info"]:
        parts.append(printing.plural(numbers["info"], "note"))
    return ", ".join(parts)


def _each(paths: Iterable[str]) -> Iterator[list[Finding]]:
    """The findings of each file that the paths stand for."""
    for path in paths:
        if path == "-":
            yield _check_stdin()
        elif os.path.isdir(path):
            yield from map(check, _definitions_below(Path(path)))
        else:
            yield check(path)


def _check_stdin() -> list[Finding]:
    """A file is what the loader checks, so that standard input is judged by the same rules."""
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    with import_module("tempfile").TemporaryDirectory(prefix="llm-fsm-") as folder:  # slow to import
        path = Path(folder, "stdin")
        path.write_bytes(data)
        return [replace(finding, file=STDIN) for finding in check(path)]


def _definitions_below(folder: Path) -> list[Path]:
    """The files of a folder that look like definitions, in order of their names. Raises Failure for none."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        paths = (Path(place, name) for name in sorted(names) if name.endswith(".json"))
        found.extend(path for path in paths if _looks_like_definition(path))
    if not found:
        raise exits.Failure(f"{folder}: there is no definition in this folder (a .json file with states)")
    return found


def _looks_like_definition(path: Path) -> bool:
    """True for an object with `states`, and for what has the key but cannot be parsed."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return True  # the loader says what is wrong with it
    if not _STATES.search(data):
        return False
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return True
    return isinstance(document, dict) and isinstance(document.get("states"), dict | list)
