"""`llm-fsm texts`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.documents import read_document, text_of
from llm_fsm.cli.options import command
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console, escape, excerpt
from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import file_of
from llm_fsm.documents.files import stem_of
from llm_fsm.documents.translations import (
    as_po,
    catalog_of,
    file_of_language,
    languages_of,
    read_catalog,
    texts_of,
    updated,
)

_RULES = ("missing-translation", "unspoken-language", "taken-key")
"""Rules about translations that name a place in the definition. Others name one in a `.po` file."""


@command("llm-fsm texts update order.json", "llm-fsm texts check order.json")
@click.argument("action", type=click.Choice(["extract", "update", "check"]))
@click.argument("file")
def texts(*, action: str, file: str) -> int:
    """Write and check the texts of a definition in its further languages.

    extract writes NAME.pot, with every text that users read. update writes NAME.TAG.po for each of
    the "languages". It adds new texts, and marks the translations of changed ones as fuzzy. check
    reports what is missing, fuzzy or wrong. The files are gettext, as tools of translators read it.

    Exit codes: 0 done, or nothing found. 1 check found something, or FILE cannot be used.
    """
    file = file_of(file)
    if action == "check":
        return _check(file)
    document = read_document(file).value
    found = texts_of(document)
    if action == "extract":
        place = f"{os.path.splitext(file)[0]}.pot"
        write_output(place, as_po(catalog_of(found, stem_of(file))))
        console.note(f"wrote {place}: {escape.plural(len(found), 'text')}")
        return exits.OK
    for tag in languages_of(document):
        catalog = updated(read_catalog(file, tag), found)
        place = file_of_language(file, tag)
        write_output(place, as_po(catalog))
        left = sum(1 for entry in catalog if entry.id and (entry.fuzzy or not entry.string))
        console.note(f"wrote {place}: {escape.plural(left, 'text')} to translate")
    return exits.OK


def _check(file: str) -> int:
    findings = [one for one in check(file) if one.file != file or one.name in _RULES]
    console.out(*excerpt.report(findings, text_of), wrapped=True)
    console.note(f"{Path(file).name}: {escape.plural(len(findings), 'finding')}")
    return exits.AT_FAULT if findings else exits.OK
