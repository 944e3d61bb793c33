"""A definition in another of its languages: what users read is translated, and all else stays."""

from __future__ import annotations

from dataclasses import replace

from llm_fsm._json import JsonDict, object_at, unescape, value_at
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flow, Flows

_WAYS = "/transitions/"
"""Their descriptions are for the model. Where the machine says one, it looks for the text itself."""
_LABELS = "/x-labels"


def translated(definition: Definition, tag: str) -> Definition:
    """Return a definition with its texts in another language.

    A text that is missing stays as it is. Descriptions of keys are left out, because they have no
    translation.

    Args:
        definition: The definition.
        tag: BCP 47 tag of the language.
    """
    document: JsonDict = dict(definition.document)
    for schema in object_at(document.get("context_schema"), "properties").values():
        if isinstance(schema, dict):
            schema.pop("description", None)
    for pointer, text in definition.texts.get(tag, {}).items():
        place, _, last = pointer.rpartition("/")
        # The values of an `enum` may have no labels in the definition's own language.
        schema = value_at(document, place.removesuffix(_LABELS))
        if place.endswith(_LABELS) and isinstance(schema, dict):
            schema.setdefault("x-labels", {})
        holder = value_at(document, place)
        if not isinstance(holder, dict) or _WAYS in place:
            continue
        # A choice without a value means its label, in whatever words that is shown.
        if last == "label" and "label" in holder:
            holder.setdefault("value", holder["label"])
        holder[unescape(last)] = text
    return Definition.model_validate({**document, "language": tag, "languages": [*definition.tags]})


def translated_flows(flows: Flows, tag: str) -> Flows:
    """Return a definition and all that it calls in another language, as far as they have it."""
    called: dict[str, Flow] = {}
    for name, flow in flows.called.items():
        called[name] = _in_language(flow, tag)
    return Flows(root=_in_language(flows.root, tag), called=called)


def _in_language(flow: Flow, tag: str) -> Flow:
    speaks = tag in flow.definition.tags
    return replace(flow, definition=translated(flow.definition, tag)) if speaks else flow
