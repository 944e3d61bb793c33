"""Carry a conversation from an older definition over to a newer one, by a map of states and keys.

The map is data: {"states": {old id: new id}, "keys": {old key: new key, or null to drop it}}. Other
states and keys keep their names. A value that its new key refuses is dropped, so that it is asked
for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from llm_fsm._json import JsonMap, TextMap, only
from llm_fsm._text import nearest
from llm_fsm.errors import ConfigurationError
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import apply
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Old state id to new one; old context key to new one, None: dropped."""

    states: TextMap = field(default_factory=dict)
    keys: Mapping[str, str | None] = field(default_factory=dict)


def read_change(document: JsonMap) -> Change:
    """Read the map as written. Raises ConfigurationError with the right form."""
    unknown = [name for name in document if name not in ("states", "keys")]
    states, keys = document.get("states", {}), document.get("keys", {})
    # A misspelt part would be skipped in silence, and values would be lost.
    if unknown or not isinstance(states, Mapping) or not isinstance(keys, Mapping):
        raise _wrong_form(unknown)
    if not all(isinstance(name, str) for name in (*states, *keys, *states.values())):
        raise _wrong_form(unknown)
    for old, new in keys.items():
        if new is None:
            continue
        if not isinstance(new, str) or not new:
            raise ConfigurationError(
                "a map of a changed definition names each new key, or null to drop the old one"
            )
        if new.startswith("_"):
            raise ConfigurationError(
                f"the map of keys leads {old!r} to {new!r}: "
                "names that begin with _ belong to the system"
            )
    return Change(states=dict(states), keys=dict(keys))


def _wrong_form(unknown: list[str]) -> ConfigurationError:
    reason = (
        "a map of a changed definition is "
        '{"states": {"old id": "new id"}, "keys": {"old key": "new key"}}, where null drops a key'
    )
    if unknown:
        reason += f"; {unknown[0]!r} is neither states nor keys"
    return ConfigurationError(reason)


def check_change(change: Change, machine: CompiledMachine) -> None:
    """Check that the definition has the states and keys that the map names.

    A key that the definition does not name may be the host's own. It is an error only if a declared
    key has nearly the same name.

    Raises:
        ConfigurationError: The map names a state that the definition does not have, or misspells a
            key.
    """
    name = machine.definition.name
    for old, new in change.states.items():
        if new not in machine.states:
            guess = nearest(new, machine.states)
            hint = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigurationError(
                f"the map of states leads {old!r} to {new!r}, "
                f"which the definition {name!r} does not have{hint}"
            )
    declared = machine.definition.key_schemas
    for old, key in change.keys.items():
        if key is None or key.partition(".")[0] in declared:
            continue
        # A definition without a schema still names the keys that it reads.
        if _names(machine.definition.canonical, key):
            continue
        guess = nearest(key, declared)
        if guess is not None:
            raise ConfigurationError(
                f"the map of keys leads {old!r} to {key!r}, "
                f"which the definition {name!r} does not have; did you mean {guess!r}?"
            )


def _names(definition: str, key: str) -> bool:
    """Return True if a definition has this name, also as the beginning of a path, or in a fixed
    reply.
    """
    name = re.escape(json.dumps(key)[1:-1])
    in_json = rf'"{name}["\.]'
    in_reply = rf'\{{[{{%][^}}]*(?<![\w."\\]){name}(?!\w)'
    return re.search(f"{in_json}|{in_reply}", definition) is not None


def carried(
    session: Session, old: CompiledMachine | None, new: CompiledMachine, change: Change
) -> ev.Migrated | str:
    """Return the event that moves a conversation to `new`, or the reason why it must stay.

    Args:
        session: The conversation.
        old: The older definition; None if it is not known any more.
        new: The newer definition.
        change: The map from the older to the newer definition.
    """
    state = change.states.get(session.state, session.state)
    obstacle = _obstacle(session, old, new, state)
    if obstacle is not None:
        return obstacle
    named = {*session.context, *session.skipped, *session.begun}
    for agreement in session.agreed:
        named.update(agreement.keys)
    keys = only(change.keys, named)
    conflict = _conflict(session.context, keys)
    if conflict is not None:
        one, other = conflict
        return f"the keys {one!r} and {other!r} would be one, and it has another value for each"
    event = ev.Migrated(definition=new.identity, states=change.states, keys=keys)
    # The new schemas judge the values under their new names.
    context = apply(session, event).context
    removed = {key for key, value in context.items() if new.keys.fault(key, value) is not None}
    if old is not None:
        # A secret value stays secret, so it goes unless the new definition declares its key.
        secrets = old.keys.secrets & context.keys()
        removed |= {key for key in secrets if key not in new.keys.sources}
    watches = new.states[state].kind == "converse" and _has_silence(new)
    unwatched = session.silence is not None and not watches
    return replace(event, removed=tuple(sorted(removed)), unwatched=unwatched)


def _obstacle(
    session: Session, old: CompiledMachine | None, new: CompiledMachine, state: str
) -> str | None:
    """Return why a conversation cannot be moved to a state of `new`; None if it can."""
    if old is not None and old.definition.name != new.definition.name:
        return f"it belongs to another machine, {old.definition.name!r}"
    if state not in new.states:
        return f"the definition has no state {state!r} any more, and the map names no other"
    # Frames hold states and values of the old definition, which no map covers.
    if session.stack:
        return "it is within a subflow or a digression"
    # The loop of calls is about tools of the old definition.
    if session.work is not None:
        return "it is in the middle of a task or of a call of a tool"
    if session.pause is None:
        return None
    if session.pause.kind != "wait" or new.states[state].kind != "wait":
        return f"it waits for {session.pause.what!r}, and {state!r} does not"
    return None


def _has_silence(machine: CompiledMachine) -> bool:
    return "silence" in machine.patterns or "silence" in machine.own_patterns


def _conflict(context: JsonMap, keys: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Find two keys with different values that the map makes one."""
    holders = {name: name for name in context if name not in keys}
    for old, new in keys.items():
        if old not in context:
            continue
        # Whoever comes second to a name finds the first one there.
        other = old if new is None else holders.setdefault(new, old)
        if context[other] != context[old]:
            return other, old
    return None
