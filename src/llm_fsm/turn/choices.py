"""The choices of the user: those of the state, or those of the key that it asks for.

A choice that the user picked needs no reading by a model where its value is certain. It is then a
value of the only key that is asked for, or the state that a transition leads to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from llm_fsm._json import JsonMap, as_text
from llm_fsm.languages import truth_word
from llm_fsm.session.session import Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.localized import label_of
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.recognize import place_of

LOSS = "_loss"
"""The question before a loss, in place of a key."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that the user can choose.

    Attributes:
        label: The words for it, as a button shows them.
        value: What it stands for, as JSON. It is a value of the key that is asked for, a state, or
            a text.
        question: The question that it answers. A choice of a question that is gone is refused. ""
            is not checked.
    """

    label: str
    value: Any
    question: str = field(default="", compare=False, repr=False)


def choices_of(root: CompiledMachine, session: Session) -> tuple[Choice, ...]:
    """Return the choices of a conversation as it stands; () where there is nothing to choose.

    Args:
        root: The definition that was started.
        session: The conversation.
    """
    # A stored conversation may be in a state that this definition no longer has.
    if session.ended or session.pause is not None or not root.knows(session):
        return ()
    machine = root.of(session)
    state = machine.states[session.state]
    # A question that could not be said has no answers.
    if state.kind != "converse" or session.unsaid is not None:
        return ()
    own = _of_state(machine, state)
    key = "" if own else asked_key(session, state)
    offered = own or _of_key(machine, key) or _of_read_back(machine, state)
    # The question before a loss stands above that of the state.
    if session.at_stake(turns=0) is not None:
        key, offered = LOSS, _yes_or_no(machine, {})
    # Two buttons with one label could not be told apart.
    by_label = {choice.label: choice for choice in offered if choice.label.strip()}
    question = f"{session.flow}/{state.id}/{key}"
    return tuple(replace(choice, question=question) for choice in by_label.values())


def picked_of(choices: Iterable[Choice], label: str, question: str) -> Choice | None:
    """Return the choice that a user picked; None if it belongs to a question that is gone.

    Args:
        choices: The choices that the user has now.
        label: The label that was picked.
        question: The question that it answers; "" is not checked.
    """
    same = (choice for choice in choices if choice.label == label)
    return next((choice for choice in same if question in ("", choice.question)), None)


def _of_state(machine: CompiledMachine, state: CompiledState) -> list[Choice]:
    """Return the choices that a state names itself; a label without a value is its own value.

    A state whose yes is picked has one for each of its transitions, if it names none.
    """
    choices = []
    for named in state.definition.choices:
        value = named.label if named.value is None else named.value
        choices.append(Choice(named.label, value))
    if state.picks and not choices and any(move.agrees == "picked" for move in state.own):
        choices += [Choice(machine.said(move) or move.target, move.target) for move in state.own]
    return choices


def asked_key(session: Session, state: CompiledState) -> str:
    """Return the one key that a state still wants; "" where it wants none, or several."""
    wanted = lacking(session, state)
    return wanted[0] if len(wanted) == 1 else ""


def pick(choices: Iterable[Choice], said: str) -> Choice | None:
    """Return the choice that a text stands for: its label in any letters, or its number as shown,
    from 1.

    A number counts only where no label is a number. None: the text is something else.

        >>> pick([Choice("small", "s"), Choice("large", "l")], "2")
        Choice(label='large', value='l')
    """
    known = list(choices)
    place = place_of([choice.label for choice in known], said, numbered=True)
    return None if place is None else known[place]


def _of_key(machine: CompiledMachine, key: str) -> list[Choice]:
    """Return the values of an `enum`, or yes and no; none for a secret key, or where nothing has
    words for yes.
    """
    # A button would show what must not be shown.
    if not key or machine.keys.is_secret(key):
        return []
    schema = part_schema(machine.keys.offered, key)
    values = schema.get("enum")
    if isinstance(values, list):
        # Null means that nothing is chosen, which is no button.
        known = (value for value in values if value is not None)
        return [Choice(label_of(schema, value) or as_text(value), value) for value in known]
    return _yes_or_no(machine, schema) if schema.get("type") == "boolean" else []


def _of_read_back(machine: CompiledMachine, state: CompiledState) -> list[Choice]:
    """Return yes and no to the values that a state reads back, if one move is its yes. A no is read
    as words.
    """
    ways = [move.target for move in state.own if move.agrees]
    if len(ways) != 1 or not state.definition.confirms:
        return []
    known = _yes_or_no(machine, {})
    return [replace(choice, value=ways[0]) for choice in known[:1]] + known[1:]


def _yes_or_no(machine: CompiledMachine, schema: JsonMap) -> list[Choice]:
    """Return yes and no; none where the language has no words for them."""
    language = machine.definition.language
    choices = [
        Choice(label_of(schema, value) or truth_word(language, value), value)
        for value in (True, False)
    ]
    return choices if all(choice.label for choice in choices) else []
