"""Write SCXML (W3C recommendation, 2015): states, transitions, conditions, ends.

Attributes of an own namespace carry the parts that SCXML has no word for: the kind and purpose of a
state, and a transition's description and conditions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import quoteattr

from llm_fsm.conditions import infix
from llm_fsm.definition.models import Definition, Transition
from llm_fsm.documents.convert.chart import UNSEEN
from llm_fsm.documents.convert.xstate import event_name

_SCXML = "http://www.w3.org/2005/07/scxml"
_OWN = "urn:llm-fsm"


def write(definition: Definition) -> str:
    """Return a definition as an SCXML document."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<scxml xmlns="{_SCXML}" xmlns:llm="{_OWN}" version="1.0" datamodel="ecmascript"'
        f" name={_quoted(definition.name)} initial={_quoted(definition.initial_state)}>",
    ]
    for name in definition.states:
        lines += _state(definition, name)
    lines += [f"  {_transition(one, eventless=one.auto)}" for one in definition.global_transitions]
    return "\n".join((*lines, "</scxml>")) + "\n"


def _quoted(text: str) -> str:
    """Return an attribute's value, with line breaks and without characters that XML cannot hold."""
    plain = "".join(
        char for char in text if char in "\t\n\r" or (char >= " " and char not in "\ufffe\uffff")
    )
    quoted = quoteattr(plain, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
    return UNSEEN.sub(lambda found: f"&#{ord(found[0])};", quoted)


def _state(definition: Definition, name: str) -> Iterator[str]:
    state = definition.states[name]
    kind = definition.kind_of(name)
    words = state.purpose or state.description
    purpose = ""
    if words:
        purpose = f" llm:purpose={_quoted(words)}"
    if kind == "final":
        yield f"  <final id={_quoted(name)}{purpose}/>"
        return
    own = ""
    if kind != "converse":
        own = f" llm:kind={_quoted(kind)}"
    yield f"  <state id={_quoted(name)}{own}{purpose}>"
    for one in state.transitions:
        yield f"    {_transition(one, eventless=one.auto or kind == 'decide')}"
    yield "  </state>"


def _transition(transition: Transition, *, eventless: bool) -> str:
    parts = [] if eventless else [f"event={_quoted(event_name(transition))}"]
    conditions = [
        one.model_dump(mode="json", exclude_defaults=True) for one in transition.conditions
    ]
    rules: list[Any] = []
    for one in transition.conditions:
        rules += [{"!=": [{"var": key}, None]} for key in one.requires_context_keys]
        if one.logic is not None:
            rules.append(one.logic)
    if rules:
        expression = infix.write(rules[0] if len(rules) == 1 else {"and": rules})
        if expression is not None:
            parts.append(f"cond={_quoted(expression)}")
    parts.append(f"target={_quoted(transition.target_state)}")
    parts.append(f"llm:description={_quoted(transition.description)}")
    if conditions:
        parts.append(f"llm:conditions={_quoted(json.dumps(conditions))}")
    return f"<transition {' '.join(parts)}/>"
