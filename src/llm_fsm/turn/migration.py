"""Carry a conversation from an older definition over to a newer one, by a map of states and keys.

The map is data: {"states": {old id: new id}, "keys": {old key: new key, or null to drop it}}; what it does not
name keeps its name. A value that its new key refuses is dropped, so that it is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from llm_fsm._text import nearest
from llm_fsm.errors import ConfigurationError
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import apply
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Old state id to new one; old context key to new one, None: dropped."""

    states: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str | None] = field(default_factory=dict)


def read_change(document: Mapping[str, Any]) -> Change:
    """Read the map as written. Raises ConfigurationError that says what it must look like."""
    unknown = [name for name in document if name not in ("states", "keys")]
    states, keys = document.get("states", {}), document.get("keys", {})
    sound = not unknown and isinstance(states, Mapping) and isinstance(keys, Mapping)
    if not sound or not all(isinstance(name, str) for name in (*states, *keys, *states.values())):
        raise ConfigurationError(
            'a map of a changed definition is {"states": {"old id": "new id"}, "keys": {"old key": "new key"}}, '
            "where null drops a key" + (f"; {unknown[0]!r} is neither states nor keys" if unknown else "")
        )
    if not all(name is None or (isinstance(name, str) and name) for name in keys.values()):
        raise ConfigurationError(
            "a map of a changed definition names each new key, or null to drop the old one"
        )
    for old, new in keys.items():
        if new is not None and new.startswith("_"):
            raise ConfigurationError(
                f"the map of keys leads {old!r} to {new!r}: names that begin with _ belong to the system"
            )
    return Change(states=dict(states), keys=dict(keys))


def check_change(change: Change, machine: CompiledMachine) -> None:
    """Check that the definition has the states and keys that the map leads to.

    A key that the definition does not name may be the host's own. It is an error only where a declared key has nearly
    the same name.

    Raises:
        ConfigurationError: The map leads to a state that the definition does not have, or misspells a key.
    """
    for old, new in change.states.items():
        if new not in machine.states:
            guess = nearest(new, machine.states)
            hint = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigurationError(
                f"the map of states leads {old!r} to {new!r}, which the definition "
                f"{machine.definition.name!r} does not have{hint}"
            )
    declared = machine.definition.key_schemas
    for old, key in change.keys.items():
        if key is None or key.split(".", 1)[0] in declared or _names(machine.definition.canonical, key):
            continue
        guess = nearest(key, declared)
        if guess is not None:
            raise ConfigurationError(
                f"the map of keys leads {old!r} to {key!r}, which the definition {machine.definition.name!r} "
                f"does not have; did you mean {guess!r}?"
            )


def _names(definition: str, key: str) -> bool:
    """Return True where a definition has this name; the path of one of its parts, or a placeholder, counts, too."""
    name = re.escape(json.dumps(key)[1:-1])
    return re.search(rf'"{name}["\.]|\{{[{{%][^}}]*(?<![\w."\\]){name}(?!\w)', definition) is not None


def carried(session: Session, old: CompiledMachine | None, new: CompiledMachine, change: Change) -> ev.Migrated | str:
    """Return the event that takes a conversation over to `new`; a sentence instead where it cannot go, and stays.

    Args:
        session: The conversation.
        old: The older definition; None where nobody knows it any more.
        new: The newer definition.
        change: The map from the older to the newer definition.
    """
    if old is not None and old.definition.name != new.definition.name:
        return f"it belongs to another machine, {old.definition.name!r}"
    state = change.states.get(session.state, session.state)
    if state not in new.states:
        return f"the definition has no state {state!r} any more, and the map names no other"
    if session.stack:
        return "it is within a subflow or a digression"
    if session.work is not None:
        return "it is in the middle of a task or of a call of a tool"
    if session.pause is not None and (session.pause.kind != "wait" or new.states[state].kind != "wait"):
        return f"it waits for {session.pause.what!r}, and {state!r} does not"
    named = {*session.context, *session.skipped, *session.begun}
    keys = {name: key for name, key in change.keys.items() if name in named}
    if (met := _meeting(session.context, keys)) is not None:
        return f"the keys {met[0]!r} and {met[1]!r} would be one, and it has another value for each"
    event = ev.Migrated(definition=new.identity, states=change.states, keys=keys)
    context = apply(session, event).context
    removed = {key for key, value in context.items() if new.keys.fault(key, value) is not None}
    if old is not None:  # what was secret stays so, unless the new definition says what it is
        kept = {key for key in context if key in new.keys.sources}
        removed |= (old.keys.secrets & context.keys()) - kept
    watches = new.states[state].kind == "converse" and ("silence" in new.patterns or "silence" in new.own_patterns)
    return replace(event, removed=tuple(sorted(removed)), unwatched=session.silence is not None and not watches)


def _meeting(context: Mapping[str, Any], keys: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Find two keys of different values that the map makes one; a key that it does not name keeps its name."""
    holders = {name: name for name in context if name not in keys}
    for old, new in keys.items():
        if old not in context:
            continue
        other = old if new is None else holders.setdefault(new, old)
        if context[other] != context[old]:
            return other, old
    return None
