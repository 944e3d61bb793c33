"""`llm-fsm rename`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click

from llm_fsm._json import JsonMap, member, object_at, step, value_at
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.documents import read_document, text_of
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.options import command
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents import patch
from llm_fsm.documents.files import beside
from llm_fsm.documents.renaming import Renaming, followed, renamed
from llm_fsm.documents.translations import as_po, file_of_language, languages_of, read_catalog
from llm_fsm.testing.scenarios import names
from llm_fsm.testing.scenarios.loader import ENDING


@command("llm-fsm rename order.json pay till", "llm-fsm rename order.json mail email --key")
@click.argument("file")
@click.argument("old")
@click.argument("new")
@click.option("--key", is_flag=True, help="OLD is a context key, also where a state has this name.")
def rename(*, file: str, old: str, new: str, key: bool) -> int:
    """Rename a state or a context key in a definition, its tests and its texts.

    Conditions, fixed replies and all other places follow. So do tests (*.test.json) in the folder
    of FILE, positions of the studio, and the .po files of further languages. All other bytes stay.

    Exit codes: 0 done. 1 a file cannot follow, and nothing was written. 2 usage.
    """
    document = read_document(file).value
    renaming = Renaming(_kind_of(document, old, key=key), old, new)
    if not new or new in _names(document, renaming.kind):
        said = f"there is a {renaming.kind} {new!r} already" if new else "NEW is empty"
        raise Failure(f"{file}: {said}; choose another name")
    changed = dict(_followers(file, document, renaming))
    for place, data in changed.items():
        write_output(place, data)
    console.note(f"renamed the {renaming.kind} {old} to {new} in {', '.join(changed)}")
    return exits.OK


def _names(document: JsonMap, kind: str) -> JsonMap:
    if kind == "state":
        return object_at(document, "states")
    return object_at(object_at(document, "context_schema"), "properties")


def _kind_of(document: JsonMap, old: str, *, key: bool) -> Literal["state", "key"]:
    if not key and old in _names(document, "state"):
        return "state"
    if old in _names(document, "key"):
        return "key"
    raise Failure(f"there is no {'' if key else 'state and no '}context key {old!r}")


def _followers(
    file: str, document: JsonMap, renaming: Renaming
) -> Iterator[tuple[str, str | bytes]]:
    """Yield each file that the renaming changes, with its new content."""
    one = [renaming]
    with failing(patch.PatchError, place=f"{file}: ", code=exits.AT_FAULT):
        yield file, renamed(text_of(file), one)
    for place in sorted(map(str, Path(file).absolute().parent.glob(f"*{ENDING}"))):
        text = text_of(place)
        with failing(SourceError, patch.PatchError, place=f"{place}: ", code=exits.AT_FAULT):
            tested = member(parse(text), "definition")
            if isinstance(tested, str) and beside(place, tested) == os.path.abspath(file):
                yield place, names.renamed(text, one)
    layout = file.removesuffix(".json") + ".layout.json"
    position = f"/positions{step(renaming.name)}"
    if renaming.kind == "state" and os.path.exists(layout):
        text = text_of(layout)
        with failing(SourceError, patch.PatchError, place=f"{layout}: ", code=exits.AT_FAULT):
            if value_at(parse(text), position) is not None:
                yield layout, patch.rename_keys(text, [(position, renaming.to)])
    for tag in languages_of(document):
        place = file_of_language(file, tag)
        if os.path.exists(place):
            yield place, as_po(followed(read_catalog(file, tag), one))
