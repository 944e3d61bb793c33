"""The one place that says what a caller may do. Every door asks it, through `Service`, or directly.

A *right* belongs to a token. An *act* is something that a caller wants to do: the rights
themselves, and two acts that several rights allow: `read` and `say`. `check` refuses an act.
`check_start` and `check_answer` find the act first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Literal

from llm_fsm import AsyncMachine
from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import ALL_RIGHTS, DEFAULT_RIGHTS, Caller, Right
from llm_fsm.session.messages import Paused
from llm_fsm.session.values import reserved_fault

Act = Literal[Right, "read", "say"]

USER = "user"
"""The name in `wait_for` that lets the user of a conversation answer."""
_HOLDERS: Mapping[Act, frozenset[Right]] = {
    "talk": frozenset({"talk"}),
    "seed": frozenset({"seed"}),
    "answer": frozenset({"answer"}),
    "inspect": frozenset({"inspect"}),
    "manage": frozenset({"manage"}),
    "author": frozenset({"author"}),
    "metrics": frozenset({"metrics"}),
    "read": frozenset({"talk", "answer", "manage"}),
    "say": frozenset({"seed", "answer"}),
}
"""Act to the rights of which one is enough."""
_OPERATOR_ACTS: frozenset[Act] = frozenset({"read", "say", "answer", "inspect"})
"""What the right `answer` allows in conversations of other tokens. Everything else there needs
`manage`.
"""
_HEX = frozenset("0123456789abcdef")
_MIXED = 8
"""Different digits that a random id has at least. One with fewer comes once in ten million."""
_FORWARDING = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
)
"""Headers by which a proxy says that the client is somebody else."""


def may(caller: Caller, act: Act, stored: str | None = None) -> bool:
    """Return true if a caller may do something.

    Args:
        caller: The caller.
        act: The act.
        stored: The id in the store of the conversation that it concerns; None: it concerns no
            existing conversation.

    Returns:
        True if a right of the caller allows it.

    Example:
        may(served.caller, "manage", served.chat.id)
    """
    if _HOLDERS[act].isdisjoint(caller.rights):
        return False
    if stored is None or not caller.is_foreign(stored) or "manage" in caller.rights:
        return True
    return act in _OPERATOR_ACTS and "answer" in caller.rights


def check(caller: Caller, act: Act, doing: str, stored: str | None = None) -> None:
    """Refuse what a caller may not do.

    Args:
        caller: The caller.
        act: The act.
        doing: The act in words for the message, such as "delete a conversation".
        stored: As for `may`.

    Raises:
        Problem: The caller may not do it (403). The message names the right that is missing.

    Example:
        check(served.caller, "manage", "delete a conversation", served.chat.id)
    """
    if may(caller, act, stored):
        return
    held = not _HOLDERS[act].isdisjoint(caller.rights)
    missing = ["manage"] if held else sorted(_HOLDERS[act])
    who = "this token" if caller.name else "a caller without a token"
    of_others = " of another token" if held else ""
    raise Problem(
        "forbidden",
        f"{who} may not {doing}{of_others}: that needs the right {' or '.join(missing)}",
    )


def check_start(
    caller: Caller,
    machine: AsyncMachine,
    stored: str,
    *,
    context: JsonMap | None = None,
    state: str | None = None,
    background: JsonMap | None = None,
) -> None:
    """Refuse the beginning of a conversation or run that a caller may not begin so.

    Args:
        caller: The caller.
        machine: The machine that plays it.
        stored: Its id in the store.
        context: The values that it begins with.
        state: The state that it begins in; None: the definition's own.
        background: The background of a run.

    Raises:
        Problem: The caller may not begin any, or not with these values or this state (403).
    """
    check(caller, "talk", "begin a conversation", stored)
    if may(caller, "seed", stored):
        return
    seeded = [key for key, value in (context or {}).items() if not _is_spoken(machine, key, value)]
    if seeded:
        names = ", ".join(f"{key!r:.60}" for key in seeded[:3])
        check(caller, "seed", f"set {names}, which the conversation cannot bring by itself", stored)
    if state is not None and state != machine.definition.initial_state:
        check(caller, "seed", "choose the state that a conversation begins in", stored)
    if background:
        check(caller, "seed", "give a run its background", stored)


def check_list(caller: Caller) -> None:
    """Refuse a list of conversations that would hold those of others.

    Args:
        caller: The caller.

    Raises:
        Problem: The caller may not list any (403).
    """
    check(caller, "read", "list conversations")
    if is_shared(caller):
        check(caller, "manage", "list conversations, which belong to others, too")


def is_shared(caller: Caller) -> bool:
    """Return true for a caller that nothing tells from others: only an id that nobody can guess
    keeps them apart.

    Args:
        caller: The caller.

    Returns:
        True if it has no token, and may not see the conversations of others.
    """
    return not caller.name and not may(caller, "manage")


def is_random(name: str) -> bool:
    """Return true for an id or a key that nobody can guess: it ends with 32 hexadecimal digits, as
    a UUID does.

    Args:
        name: The id or key.

    Returns:
        True if its end looks random.

    Example:
        >>> is_random("conv_0b1e5c5e-4b3c-4f0e-9d7a-2f6b8c1d3e4a"), is_random("order-1")
        (True, False)
    """
    digits = name.replace("-", "")[-32:].lower()
    if len(digits) != 32 or not _HEX.issuperset(digits):
        return False
    return len(set(digits)) >= _MIXED


def check_own_id(caller: Caller, name: str | None) -> None:
    """Refuse an id of its own that others could guess, from a caller that nothing else protects.

    Args:
        caller: The caller.
        name: The id; None: the server makes one.

    Raises:
        Problem: The id could be guessed (403).
    """
    if name is not None and is_shared(caller) and not is_random(name):
        raise Problem(
            "forbidden",
            "without a token an id of your own must be random, such as a UUID; or leave it out",
        )


def spoken(machine: AsyncMachine, context: JsonMap) -> JsonDict:
    """Return the values of a context that a user could bring by talking.

    Args:
        machine: The machine of the conversation.
        context: Values by key, from a client that is not trusted.

    Returns:
        The values of keys that the model may write, and that need no proof.
    """
    return {key: value for key, value in context.items() if _is_spoken(machine, key, value)}


def may_answer(caller: Caller, paused: Paused, stored: str | None = None) -> bool:
    """Return true if a caller may answer a pause. Doors also ask it before they show how to answer.

    Args:
        caller: The caller.
        paused: The pause.
        stored: As for `may`.

    Returns:
        True if a right of the caller allows it.
    """
    return may(caller, _answering(paused), stored)


def check_answer(caller: Caller, paused: Paused, stored: str) -> None:
    """Refuse the answer to a pause that another person has to answer.

    Args:
        caller: The caller.
        paused: The pause.
        stored: The id of its conversation in the store.

    Raises:
        Problem: The caller may not answer it (403).
    """
    check(caller, _answering(paused), "answer this, because a colleague has to", stored)


def local_rights(client: str | None, host: str, headers: Mapping[bytes, bytes]) -> frozenset[Right]:
    """Return the rights of a caller without a token, on a server without tokens.

    Args:
        client: The address of the caller; None or a text that is no IP address: it calls within
            this process.
        host: The name in the Host header.
        headers: The headers, by name in small letters.

    Returns:
        All rights for a program on this machine, and `talk` for anybody else. A request that a
        proxy passed on comes from somebody else.
    """
    # also over a socket of this machine, which has no address
    if not _FORWARDING.isdisjoint(headers):
        return DEFAULT_RIGHTS
    if client is None or not _is_address(client):
        return ALL_RIGHTS
    is_local = _is_loopback(client) and _is_loopback(host)
    return ALL_RIGHTS if is_local else DEFAULT_RIGHTS


def _answering(paused: Paused) -> Act:
    """Return the act of answering a pause. The user answers a tool that asks, and what the
    definition leaves to them.
    """
    is_for_user = paused.kind == "break" or (paused.kind == "wait" and paused.what == USER)
    return "talk" if is_for_user else "answer"


def _is_spoken(machine: AsyncMachine, key: str, value: object) -> bool:
    keys = machine.program.keys
    if key in keys.said:  # only the user's own words prove it
        return False
    return keys.writable(key) and reserved_fault(keys.reserved, key, value) is None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
