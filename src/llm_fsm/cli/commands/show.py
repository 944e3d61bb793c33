"""`llm-fsm show`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NoReturn

import click

from llm_fsm._json import TextMap
from llm_fsm.cli import documents
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import argument, command, option
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console
from llm_fsm.definition import json_source as source
from llm_fsm.documents.discovery import file_of
from llm_fsm.documents.draw.dot import dot
from llm_fsm.documents.draw.extract import (
    Details,
    Picture,
    cover,
    extract,
    faults_of_path,
    light,
    mark,
)
from llm_fsm.documents.draw.graphviz import GraphvizError, image
from llm_fsm.documents.draw.mermaid import mermaid
from llm_fsm.documents.draw.outline import listing, outline
from llm_fsm.documents.draw.terminal import boxes
from llm_fsm.documents.files import read
from llm_fsm.documents.loader import load_dict
from llm_fsm.documents.procedure import procedure
from llm_fsm.documents.subflows import gather
from llm_fsm.errors import DefinitionError, Finding

TEXTS: Mapping[str, Callable[[Picture], str]] = {
    "text": listing,
    "outline": outline,
    "mermaid": mermaid,
    "dot": dot,
}
IMAGES = ("svg", "png")
SUFFIXES: TextMap = {
    ".txt": "text", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png",
}  # fmt: skip
_WITH_CALLED = ("text", "outline", "boxes")
_WITH_IDS = ("text", "outline")
_PAUSE = 0.3


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The drawing that the command line asks for."""

    file: str = argument("file", required=False)
    fsm: str | None = option("--fsm", metavar="FILE", help="The same as FILE.")
    form: str = option(
        "--format",
        "form",
        type=click.Choice([*TEXTS, *IMAGES, "boxes", "procedure"]),
        help="What to draw. By default what the name of -o says, else text. svg and png need Graphviz. "
        "procedure: in plain words, what is asked and who agrees.",
    )
    conditions: bool = option(
        "--conditions/--no-conditions", default=False, help="Show the conditions of moves."
    )
    keys: bool = option("--keys", is_flag=True, help="Show the context keys that states collect.")
    tools: bool = option("--tools", is_flag=True, help="Show the tools of states.")
    states: tuple[str, ...] = option(
        "--state", "states", metavar="ID", multiple=True, help="Highlight a state; may be repeated."
    )
    path: str | None = option(
        "--path", metavar="A,B,C", help="Highlight states and the moves between them."
    )
    findings: bool = option(
        "--findings",
        is_flag=True,
        help="Mark what the checker found, each place by its worst level.",
    )
    coverage: str | None = option(
        "--coverage",
        metavar="FILE",
        help="Mark what tests touched; the file is that of `test --coverage`.",
    )
    called: bool = option(
        "--called",
        is_flag=True,
        help="Draw the definitions that are called, too: text, outline and boxes.",
    )
    output: str | None = option("-o", "--output", metavar="FILE", help="Write to a file.")
    watch: bool = option(
        "--watch", is_flag=True, help="Draw again whenever the file changes, until Ctrl-C."
    )

    @property
    def details(self) -> Details:
        """The parts of states and moves to show."""
        return Details(conditions=self.conditions, keys=self.keys, tools=self.tools)

    @property
    def way(self) -> tuple[str, ...]:
        """The states of `--path`."""
        return tuple(step.strip() for step in self.path.split(",")) if self.path else ()


@command(
    "llm-fsm show order --conditions", "llm-fsm show flow.json -o flow.svg", options=ShowOptions
)
def show(ctx: click.Context, wanted: ShowOptions) -> int:
    """Draw a definition: text, boxes, Mermaid, DOT, SVG or PNG. Or tell its procedure in plain
    words.

    FILE is a definition, the name of a shipped one, or - for standard input. One with errors is
    drawn as far as it goes, the errors are told, and the exit code is 1.
    """
    file, output = wanted.file or wanted.fsm, wanted.output
    if wanted.coverage is not None and wanted.findings:
        ctx.fail("--coverage and --findings mark the same places: give one of them")
    if file is None or (wanted.file and wanted.fsm):
        ctx.fail("one FILE is needed" if file is None else "FILE is given twice")
    suffix = os.path.splitext(output)[1].lower() if output else ""
    wanted = replace(wanted, file=file_of(file), form=wanted.form or SUFFIXES.get(suffix, "text"))
    if wanted.called and wanted.form not in _WITH_CALLED:
        ctx.fail(f"--called draws {', '.join(_WITH_CALLED)}, not {wanted.form}")
    if wanted.form == "png" and output is None and sys.stdout.isatty():
        ctx.fail("a PNG does not go to a terminal; name a file with -o")
    if wanted.watch and wanted.file == "-":
        ctx.fail("--watch needs a file, not standard input")
    return _watch(wanted) if wanted.watch else draw(wanted)


def draw(wanted: ShowOptions) -> int:
    """Draw once and give the exit code. Raises DefinitionError for what cannot be drawn, and
    Failure.
    """
    document = documents.read_document(wanted.file)
    if wanted.form == "procedure":
        _give(procedure(load_dict(document.value).definition), wanted.output)
        return exits.OK
    picture = extract(document.value, wanted.details)
    if not picture.nodes:
        raise DefinitionError(document.findings)
    faults = [*faults_of_path(picture, wanted.way)]
    for state in wanted.states:
        faults += faults_of_path(picture, (state,))
    if faults:
        raise Failure(f"{document.name}: {'; '.join(dict.fromkeys(faults))}")
    picture = light(picture, wanted.states, wanted.way)
    if wanted.findings:
        picture = mark(picture, document.findings, document.origin)
    if wanted.coverage is not None:
        picture = cover(picture, _touched(wanted.coverage, picture.name))
    drawing = rendered(picture, wanted.form)
    others = (
        list(called(document, wanted.file, wanted.details))
        if wanted.called and not document.faulty
        else []
    )
    if isinstance(drawing, str) and others:
        drawings = (drawing, *(str(rendered(other, wanted.form)) for other in others))
        drawing = "\n\n\n".join(one.strip("\n") for one in drawings) + "\n"
    if isinstance(drawing, str) and wanted.output is None and wanted.form in _WITH_IDS:
        nodes = chain.from_iterable(one.nodes for one in (picture, *others))
        names = {node.id for node in nodes}
        console.out(*with_bold_ids(drawing.rstrip("\n"), names), wrapped=True)
    else:
        _give(drawing, wanted.output)
    _tell(
        document.findings
        if wanted.findings
        else [found for found in document.findings if found.level == "error"]
    )
    return exits.AT_FAULT if document.faulty else exits.OK


def called(document: documents.DraftDocument, file: str, details: Details) -> Iterator[Picture]:
    """Draw the definitions that one calls, at any depth. Raises DefinitionError for one that does
    not exist.
    """
    flows = gather(load_dict(document.value).definition, file=documents.named(file))
    for flow in flows.called.values():
        yield extract(json.loads(flow.definition.canonical), details)


def _touched(file: str, name: str) -> Mapping[str, int]:
    """Return how often the tests of a coverage file touched each part of this definition. Raises
    Failure.
    """
    try:
        counts = documents.counts_of(source.parse(read(file)), name)
    except DefinitionError as error:
        raise Failure(f"{file}: {error.findings[0].message}") from error
    except (source.SourceError, ValueError) as error:
        raise Failure(f"{file}: {error}") from error
    if counts is None:
        raise Failure(f"{file}: no tests of the definition {name!r} were counted in it")
    return counts


def rendered(picture: Picture, form: str) -> str | bytes:
    """The picture in one of the forms."""
    if form == "boxes":
        return boxes(picture, shutil.get_terminal_size((100, 40)).columns)
    if form in TEXTS:
        return TEXTS[form](picture)
    try:
        drawing = image(dot(picture), form)
    except GraphvizError as error:
        raise Failure(f"{error}; --format mermaid, dot and boxes need no Graphviz") from error
    return drawing.decode() if form == "svg" else drawing


def with_bold_ids(drawing: str, names: Collection[str]) -> Iterator[console.Line]:
    """Yield the lines of a drawing; ids at the beginning of a title or a move are bold."""
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"((?: *\*?-> )?)({longest_first})(?=[ :]|$)(.*)")
    for line in drawing.split("\n"):
        found = pattern.fullmatch(line) if names else None
        yield (
            [(line, "")] if found is None else [(found[1], ""), (found[2], "bold"), (found[3], "")]
        )


def _give(drawing: str | bytes, output: str | None) -> None:
    if output is not None:
        write_output(output, drawing)
        console.note(f"wrote {output}")
    elif isinstance(drawing, str):
        console.text(drawing.rstrip("\n"))
    else:
        sys.stdout.buffer.write(drawing)
        sys.stdout.flush()


def _tell(findings: list[Finding] | tuple[Finding, ...]) -> None:
    console.err(*map(str, findings), wrapped=True)


def _watch(wanted: ShowOptions) -> NoReturn:
    """Draw now and at each change of the file's time or size; print a fault and go on."""
    seen = None
    while True:
        now = _stamp(wanted.file)
        if now != seen:
            seen = now
            if wanted.output is None and sys.stdout.isatty():
                click.clear()
            try:
                draw(wanted)
            except (DefinitionError, Failure) as error:
                exits.end(error, verbose=False)
        time.sleep(_PAUSE)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
