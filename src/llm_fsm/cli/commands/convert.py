"""`llm-fsm convert`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from llm_fsm.cli import documents
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import command
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console, escape
from llm_fsm.documents.convert.chart import ConversionError, Note
from llm_fsm.documents.convert.check import check_written
from llm_fsm.documents.convert.registry import (
    DEFINITION,
    READ_FORMS,
    WRITERS,
    WRITTEN_FORMS,
    Converted,
    detect,
    form_of_name,
    left_out,
    unfenced,
)
from llm_fsm.documents.convert.registry import convert as converted
from llm_fsm.documents.discovery import file_of


@command("llm-fsm convert flow.mmd -o flow.json")
@click.argument("file")
@click.option(
    "--from", "given", type=click.Choice(READ_FORMS), help="The form of FILE; by default found out."
)
@click.option(
    "--to",
    "wanted",
    type=click.Choice(WRITTEN_FORMS),
    help="The form to write; by default what the name of -o says, else a definition.",
)
@click.option("-o", "--output", metavar="OUT", help="Write to a file.")
@click.option(
    "--report",
    type=click.Choice(["text", "json", "none"]),
    default="text",
    show_default=True,
    help="How to tell, on standard error, what was mapped and what was not.",
)
def convert(
    *, file: str, given: str | None, wanted: str | None, output: str | None, report: str
) -> int:
    """Read Mermaid, XState and older definitions; write those, DOT and SCXML.

    FILE is a definition, the name of a shipped one, a Mermaid state diagram or an XState machine as
    JSON. - is standard input. Also read: versions 3.x and 4.x, a workflow of version 2.0, and
    {"states": {"a": ["b"]}}. Every definition that comes out can be loaded. If `validate` finds
    errors in it, they are reported, and the exit code is 1.
    """
    file = file_of(file)
    text = documents.text_of(file)
    name = documents.named(file)
    target = wanted or (form_of_name(output) if output else None) or DEFINITION
    try:
        found = converted(text, given or detect(unfenced(text), name), name)
    except ConversionError as error:
        place = name if error.line is None else f"{name}:{error.line}"
        raise Failure(f"{place}: {error}", exits.AT_FAULT) from error
    written = _written(found, target)
    with exits.failing(ConversionError, place=f"{name}: ", code=exits.INTERNAL):
        faults = check_written(found, target, written)
    if output is None:
        console.text(written.rstrip("\n"))
    else:
        write_output(output, written)
    notes = [*found.notes, *(left_out(found.definition, target) if target != DEFINITION else ())]
    _tell(name, notes, report)
    for fault in faults:
        console.err(f"{name}: to mend: {fault.message} ({fault.name} {fault.code})", wrapped=True)
    if output is not None:
        console.note(f"wrote {output}")
    return exits.AT_FAULT if faults else exits.OK


def _written(found: Converted, form: str) -> str:
    if form == DEFINITION:
        return escape.as_json(found.document) + "\n"
    return WRITERS[form](found.definition)


def _tell(name: str, notes: Sequence[Note], report: str) -> None:
    if report == "json":
        console.json({"file": name, "report": [note.to_dict() for note in notes]}, to=sys.stderr)
    elif report == "text":
        for note in notes:
            place = name if note.line is None else f"{name}:{note.line}"
            console.err(
                f"{place}: {'not mapped' if note.lost else 'mapped'}: {note.message}", wrapped=True
            )
