"""The clauses about unfinished turns, one function each. `suite.py` lists them."""

from __future__ import annotations

import json

from llm_fsm.stores.base import CLOSING_KINDS, Store, every_unfinished
from llm_fsm.testing.store_contract.documents import HOSTILE, Checks, expect, turn
from llm_fsm.testing.store_contract.locks import expect_busy


async def leave(store: Store, name: str, *kinds: str, definition: str = "greeting") -> None:
    """Leave a journal: its first entry, then one entry of each kind."""
    first = {"kind": "message", "time": 1.0, "definition": definition, "step": 0}
    await store.journal(name, 0, json.dumps(first))
    for step, kind in enumerate(kinds, 1):
        await store.journal(name, step, json.dumps({"kind": kind, "step": step}))


async def open_journals_are_found(store: Store) -> None:
    """A journal with a step 0 is unfinished, also of a conversation that was never saved."""
    await store.save(turn("idle", 1))
    await store.save(turn("b", 1))
    await leave(store, "b", "keyed")
    await leave(store, "a")
    await store.journal("no step 0", 7, "{}")
    expect("unfinished", await store.unfinished(), ["a", "b"])


async def a_closed_journal_is_not_found(store: Store) -> None:
    """A journal whose last entry closes it is left out, until another entry follows."""
    for kind in CLOSING_KINDS:
        await leave(store, kind, "keyed", kind)
    await leave(store, "error", "error")
    expect("unfinished", await store.unfinished(), ["error"])
    expect("parked", await store.unfinished(parked=True), ["parked"])
    await store.journal("stopped", 3, json.dumps({"kind": "attempt", "step": 3}))
    expect("after an attempt", await store.unfinished(), ["error", "stopped"])


async def unfinished_turns_come_by_definition_and_in_pages(store: Store) -> None:
    """`definitions` narrows what is found, and `after` goes on behind an id."""
    for number in range(6):
        definition = "even" if number % 2 == 0 else "odd"
        await leave(store, f"c{number}", definition=definition)
    await store.journal("nameless", 0, json.dumps({"kind": "message", "time": 1.0}))
    expect("even", await store.unfinished(10, ["even"]), ["c0", "c2", "c4"])
    expect("nobody's", await store.unfinished(10, ["nobody"]), [])
    expect("both", await store.unfinished(2, {"even", "odd"}), ["c0", "c1"])
    expect("after", await store.unfinished(2, ["odd"], after="c1"), ["c3", "c5"])
    pages = [name async for name in every_unfinished(store, ["even", "odd"], page=2)]
    expect("page by page", pages, [f"c{number}" for number in range(6)])


async def a_finished_turn_is_not_found(store: Store) -> None:
    """A save, `forget_journal` and `delete` empty the journal, and with it the list."""
    for name in ("forgotten", "removed", "saved"):
        await leave(store, name)
    expect("before", await store.unfinished(), ["forgotten", "removed", "saved"])
    await store.save(turn("saved", 1))
    await store.forget_journal("forgotten")
    await store.delete("removed")
    expect("afterwards", await store.unfinished(), [])


async def hostile_names_are_found_as_they_are(store: Store) -> None:
    """Ids and names of definitions are compared, never interpreted."""
    for name in HOSTILE:
        await leave(store, name, definition=name)
    expect("all of them", await store.unfinished(1000), sorted(HOSTILE))
    for name in HOSTILE:
        expect(f"that of {name!r:.40}", await store.unfinished(5, [name]), [name])


async def a_turn_under_way_is_not_free(store: Store, other: Store) -> None:
    """Another store may find a turn under way, but then its lock is taken. Afterwards it finds it."""
    async with store.lock("c"):
        await leave(store, "c")
        for name in await other.unfinished():
            await expect_busy("a turn under way", other, name)
    expect("after the release", await other.unfinished(), ["c"])


UNFINISHED_CHECKS: Checks = (
    open_journals_are_found,
    a_closed_journal_is_not_found,
    unfinished_turns_come_by_definition_and_in_pages,
    a_finished_turn_is_not_found,
    hostile_names_are_found_as_they_are,
)
SHARED_UNFINISHED_CHECKS: Checks = (a_turn_under_way_is_not_free,)
