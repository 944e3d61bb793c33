"""The choices of the user where a conversation talks: the state's `choices`, or those of the key that it asks for.

A choice that the user picked needs no reading by a model where its value is certain. It is then a value of the only
key that is asked for, or the state that a transition leads to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm.session.session import Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn.available import lacking
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.recognize import YES_NO, folded


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that the user can choose.

    Attributes:
        label: The words for it, as a button shows them.
        value: What it stands for, as JSON: a value of the key that is asked for, a state, or a text.
    """

    label: str
    value: Any


def choices_of(root: CompiledMachine, session: Session) -> tuple[Choice, ...]:
    """Return the choices of a conversation as it stands; () where there is nothing to choose.

    Args:
        root: The definition that was started.
        session: The conversation.
    """
    if session.ended or session.pause is not None or not root.knows(session):
        return ()
    machine = root.of(session)
    state = machine.states[session.state]
    if state.kind != "converse":
        return ()
    if state.definition.choices:
        found = [Choice(one.label, one.label if one.value is None else one.value) for one in state.definition.choices]
    else:
        key = asked_key(session, state)
        found = _of_key(machine, key) if key else []
    return tuple({choice.label: choice for choice in found if choice.label.strip()}.values())


def asked_key(session: Session, state: CompiledState) -> str:
    """Return the one key that a state still wants; "" where it wants none, or several."""
    wanted = lacking(session, state)
    return wanted[0] if len(wanted) == 1 else ""


def pick(choices: Iterable[Choice], said: str) -> Choice | None:
    """Return the choice that a text stands for: its label in any letters, or its number as shown, from 1.

    A number counts only where no label is a number. None: the text is something else.

        >>> pick([Choice("small", "s"), Choice("large", "l")], "2")
        Choice(label='large', value='l')
    """
    known = list(choices)
    word = folded(said)
    same = [choice for choice in known if folded(choice.label) == word]
    if same:
        return same[0] if len(same) == 1 else next((one for one in same if one.label == said.strip()), None)
    number = word.rstrip(".)")
    if not (number.isascii() and number.isdecimal()) or any(folded(one.label).isdecimal() for one in known):
        return None
    return known[int(number) - 1] if 0 < int(number[:9]) <= len(known) else None


def _of_key(machine: CompiledMachine, key: str) -> list[Choice]:
    """Return the values of an `enum`, or yes and no; none for a secret key, or where nothing has words for yes."""
    if machine.keys.is_secret(key):
        return []
    schema = part_schema(machine.keys.offered, key)
    labels, values = schema.get("x-labels"), schema.get("enum")
    words: Mapping[str, Any] = labels if isinstance(labels, dict) else {}
    if isinstance(values, list):
        return [Choice(_label(words, value), value) for value in values if value is not None]
    if schema.get("type") != "boolean":
        return []
    known = YES_NO.get((machine.definition.language or "en").partition("-")[0].lower())
    named = dict(zip(("true", "false"), (one.split()[0] for one in known), strict=True)) if known else {}
    named |= {name: str(words[name]) for name in ("true", "false") if words.get(name)}
    return [Choice(named[json.dumps(value)], value) for value in (True, False)] if len(named) == 2 else []


def _label(words: Mapping[str, Any], value: Any) -> str:
    """Return the words of `x-labels` for a value, else its own."""
    name = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    given = words.get(name)
    return given if isinstance(given, str) and given else name
