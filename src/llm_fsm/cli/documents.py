"""The functions that commands about files share: they read a file, and tell its kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.definition import json_source as source
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import upgrade
from llm_fsm.documents.files import MAX_BYTES, read
from llm_fsm.documents.loader import load_text
from llm_fsm.errors import DefinitionError, Finding

STDIN = "<stdin>"
GENERATED = "x-generated"
"""The key that is true in files of tests which `llm-fsm test --generate` made."""
COVERAGE = 1
"""The version of the coverage files that `llm-fsm test --coverage` writes."""


@dataclass(frozen=True, slots=True)
class DraftDocument:
    """A definition as written, however faulty: in today's form, with everything there is to say
    about it.

    `origin` tells where something of today's form stands in the file.
    """

    name: str
    value: JsonMap
    findings: tuple[Finding, ...]
    origin: Callable[[str], str]

    @property
    def faulty(self) -> bool:
        """True when it cannot be loaded."""
        return any(found.level == "error" for found in self.findings)


def text_of(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises DefinitionError or Failure."""
    if path != "-":
        return read(path)
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Failure(f"{STDIN}: larger than {MAX_BYTES // 1_000_000} MB, the most that is read", 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(
            f"{STDIN}: byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8", 1
        ) from error


def named(path: str) -> str:
    """The name of a file in messages."""
    return STDIN if path == "-" else path


def read_document(path: str) -> DraftDocument:
    """A definition, faulty or not. Raises DefinitionError for what is no JSON object."""
    return document_of(text_of(path), named(path))


def document_of(text: str, name: str) -> DraftDocument:
    """As `read_document`, from a text."""
    try:
        findings = load_text(text, file=name).findings
    except DefinitionError as error:
        findings = error.findings
    try:
        value = source.parse(text)
    except source.SourceError:
        raise DefinitionError(findings) from None
    if not isinstance(value, dict) or any(found.code.startswith("E") for found in findings):
        raise DefinitionError(findings)
    upgraded = upgrade(value, partial(rewrite, stem=Path(name).stem))
    return DraftDocument(name, upgraded.document, findings, upgraded.origin)


def precious(path: str) -> str | None:
    """Return the kind of a file that no report may overwrite: a definition or tests; None for any
    other file.

    A report may overwrite tests that `GENERATED` marks.
    """
    try:
        value = source.parse(read(path))
    except (DefinitionError, source.SourceError):
        return None
    if not isinstance(value, dict) or value.get(GENERATED) is True:
        return None
    if "states" in value:
        return "a definition"
    return "a file of tests" if "definition" in value else None


def counts_of(value: Any, name: str) -> Mapping[str, int] | None:
    """Return pointer to count for the definition of this name in a coverage file; None: not in it.

    Raises:
        ValueError: It is no coverage file.
    """
    document = value if isinstance(value, dict) else {}
    definitions = document.get("definitions")
    if document.get("coverage") != COVERAGE or not isinstance(definitions, list):
        raise ValueError("this is no coverage file; `llm-fsm test --coverage FILE.json` makes one")
    for one in definitions:
        if isinstance(one, dict) and one.get("name") == name:
            found = {}
            for kind in ("states", "transitions"):
                counts = one.get(kind)
                if isinstance(counts, dict):
                    found.update({place: int(count) for place, count in counts.items()})
            return found
    return None
