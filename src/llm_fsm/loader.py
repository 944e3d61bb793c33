"""From a file, a text or a mapping to a definition that can be used.

Everything that is wrong is said at once (`checking`). Only here are the models needed: what fits the
published schema fits them. Loading runs nothing, imports nothing and fetches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm.checking import Court, Judged, blocking, check, check_data, judge_text, judge_value
from llm_fsm.definition import Definition
from llm_fsm.errors import DefinitionError
from llm_fsm.findings import Finding
from llm_fsm.lint.subject import TemplateFault
from llm_fsm.reading import MAX_BYTES, FilePath, name_of, read
from llm_fsm.templates import template_fault

__all__ = ["MAX_BYTES", "Loaded", "check", "check_data", "load", "load_dict", "load_text", "read"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A definition that can be used, and what was noticed on the way (warnings and notes), in file order.

    `check` says more: loading runs only the rules that find what keeps a machine from running.
    """

    definition: Definition
    findings: tuple[Finding, ...]


def load(path: FilePath) -> Definition:
    """The definition of a file. Raises DefinitionError with all findings if one of them keeps it from running."""
    return load_text(read(path), file=name_of(path)).definition


def load_text(text: str, *, file: str | None = None, template: TemplateFault = template_fault) -> Loaded:
    """The definition of a JSON text; comments and trailing commas are accepted.

    `file` is the name that findings carry. `template` tells why a fixed reply does not compile.
    Raises DefinitionError with all findings if one of them keeps the machine from running.
    """
    return _loaded(judge_text(text, Court(file=file, template=template, loading=True)))


def load_dict(
    document: Mapping[str, Any], *, file: str | None = None, template: TemplateFault = template_fault
) -> Loaded:
    """The definition of a mapping, as `load_text`; findings have pointers and no positions."""
    return _loaded(judge_value(document, Court(file=file, template=template, loading=True)))


def _loaded(judged: Judged) -> Loaded:
    document, findings = judged
    if document is None or any(blocking(found) for found in findings):
        raise DefinitionError(findings)
    return Loaded(Definition.model_validate(document), tuple(findings))
