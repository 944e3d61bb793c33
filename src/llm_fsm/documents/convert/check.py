"""Checks of what a conversion writes, made before anybody sees it."""

from __future__ import annotations

from xml.etree import ElementTree

from llm_fsm._json import JsonMap
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.documents.check import check
from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.registry import CHARTS, DEFINITION, Converted, convert
from llm_fsm.documents.loader import load_dict
from llm_fsm.errors import DefinitionError, Finding


def check_written(found: Converted, form: str, written: str) -> tuple[Finding, ...]:
    """Check a text that a conversion is about to give out.

    Args:
        found: The definition that it was made of.
        form: The form of the text, one of `WRITTEN_FORMS`.
        written: The text.

    Returns:
        The errors that `validate` finds in the definition, which its author must mend. The text
        can be used all the same.

    Raises:
        ConversionError: The text cannot be read, or means another machine.
    """
    try:
        _read_back(found.definition, form, written)
    except (DefinitionError, source.SourceError, ElementTree.ParseError, ConversionError) as error:
        raise ConversionError(f"what would be written as {form} cannot be read: {error}") from error
    if form != DEFINITION:
        return ()
    return tuple(finding for finding in check(found.document) if finding.level == "error")


def _read_back(definition: Definition, form: str, written: str) -> None:
    if form == DEFINITION:
        # Texts in further languages may stand in files of their own, which stay as they are.
        without_texts: dict[str, JsonMap] = {"texts": {}}
        back = load_dict(source.parse(written)).definition
        same = back.model_copy(update=without_texts) == definition.model_copy(update=without_texts)
    elif form in CHARTS:
        back = convert(written, form, "<stdin>").definition
        same = _places(back) == _places(definition)
    elif form == "scxml":
        ElementTree.fromstring(written)
        same = True
    else:
        same = True  # a picture has no reader
    if not same:
        raise ConversionError("it means another machine")


def _places(definition: Definition) -> tuple[str, frozenset[str]]:
    """Return the initial state and all states. Notations show some ways that they cannot say."""
    return definition.initial_state, frozenset(definition.states)
