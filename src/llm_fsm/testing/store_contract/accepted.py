"""The clauses about accepted messages, one function each. `suite.py` lists them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from llm_fsm.stores.base import AcceptedMessage, AcceptedQuery, Store
from llm_fsm.testing.store_contract.documents import HOSTILE, Checks, expect, turn


def message(
    name: str, request_id: str, due: float = 1.0, definition: str = "greeting"
) -> AcceptedMessage:
    """Return a message to accept."""
    return AcceptedMessage(
        conversation_id=name,
        request_id=request_id,
        definition=definition,
        text='{"text":"hello"}',
        due=due,
    )


async def found(store: Store, query: AcceptedQuery) -> list[tuple[str, str]]:
    """Return the conversations and request ids of the messages that a query finds."""
    return [(one.conversation_id, one.request_id) for one in await store.accepted(query)]


async def accepted_messages_are_found_when_they_are_due(store: Store) -> None:
    """Messages come in order of their times, then of acceptance, also of unknown conversations."""
    await store.save(turn("idle", 1))
    await store.accept(message("b", "r1", due=5.0))
    await store.accept(message("a", "r2", due=5.0))
    await store.accept(message("a", "r1", due=3.0, definition="other"))
    await store.accept(message("c", "r1", due=9.25))
    every = [("a", "r1"), ("b", "r1"), ("a", "r2"), ("c", "r1")]
    whole = await found(store, AcceptedQuery())
    expect("all", sorted(whole), sorted(every))
    expect("in order of time", (whole[0], whole[-1]), (every[0], every[-1]))
    expect("due", len(await found(store, AcceptedQuery(now=5.0))), 3)
    expect("not due", len(await found(store, AcceptedQuery(now=9.0))), 3)
    expect("the first", await found(store, AcceptedQuery(limit=1)), every[:1])
    of_one = AcceptedQuery(conversation_id="a")
    expect("of one", await found(store, of_one), [every[0], every[2]])
    named = AcceptedQuery(definition="greeting", now=5.0)
    expect("by definition", sorted(await found(store, named)), sorted(every[1:3]))
    (last,) = await store.accepted(AcceptedQuery(conversation_id="c"))
    expect("whole", replace(last, place=0), message("c", "r1", due=9.25))


async def a_request_id_is_accepted_once(store: Store) -> None:
    """The same request id gives the message from before, in whatever state it is."""
    first = await store.accept(message("c", "r"))
    again = await store.accept(replace(message("c", "r", due=7.0), text='{"text":"other"}'))
    expect("again", again, first)
    await store.mark_accepted("c", "r", "begun", ["waiting"])
    expect("begun", (await store.accept(message("c", "r"))).state, "begun")
    many = await asyncio.gather(*(store.accept(message("d", "r")) for _ in range(5)))
    expect("at once", len(set(many)), 1)


async def places_grow_in_order_of_acceptance(store: Store) -> None:
    """A later message has a higher place than an earlier one that is still kept."""
    places = [(await store.accept(message("c", f"r{number}"))).place for number in range(4)]
    expect("growing", places, sorted(set(places)))
    await store.drop_accepted("c", "r1")
    later = await store.accept(message("c", "r9"))
    expect("higher", later.place > places[-1], True)


async def the_first_mark_wins(store: Store) -> None:
    """A state changes only from one of those that the caller names."""
    waiting = ["waiting"]
    for name in ("begun", "cancelled"):
        await store.accept(message(name, "r"))
        expect(name, await store.mark_accepted(name, "r", name, waiting), name)
        expect("again", await store.mark_accepted(name, "r", name, waiting), name)
    late = await store.mark_accepted("begun", "r", "cancelled", waiting)
    expect("too late to cancel", late, "begun")
    late = await store.mark_accepted("cancelled", "r", "begun", waiting)
    expect("too late to begin", late, "cancelled")
    refused = await store.mark_accepted("begun", "r", "refused", ["waiting", "begun"])
    expect("from either", refused, "refused")
    expect("unknown", await store.mark_accepted("begun", "other", "begun", waiting), None)
    expect("closed", await found(store, AcceptedQuery()), [])
    (kept,) = await store.accepted(AcceptedQuery(conversation_id="cancelled", closed=True))
    expect("still known", kept.state, "cancelled")


async def an_accepted_message_is_dropped(store: Store) -> None:
    """`drop_accepted` removes one, and `delete` all of a conversation, even if it never began."""
    for name in ("a", "b"):
        await store.accept(message(name, "r1"))
        await store.accept(message(name, "r2"))
    await store.drop_accepted("a", "r1")
    await store.drop_accepted("a", "r1")
    of_one = AcceptedQuery(conversation_id="a")
    expect("dropped", await found(store, of_one), [("a", "r2")])
    await store.save(turn("a", 1))
    expect("after a save", await found(store, of_one), [("a", "r2")])
    expect("never began", await store.delete("b"), False)
    await store.delete("a")
    expect("deleted", await found(store, AcceptedQuery()), [])
    expect("free again", (await store.accept(message("a", "r2"))).state, "waiting")


async def hostile_ids_are_accepted_as_they_are(store: Store) -> None:
    """Ids are compared, never interpreted."""
    for name in HOSTILE:
        await store.accept(message(name, name, definition=name))
    every = await store.accepted(AcceptedQuery(limit=1000))
    expect("all of them", sorted(one.conversation_id for one in every), sorted(HOSTILE))
    for name in HOSTILE:
        mine = await found(store, AcceptedQuery(definition=name))
        expect(f"that of {name!r:.40}", mine, [(name, name)])
        await store.mark_accepted(name, name, "cancelled", ["waiting"])
    expect("none left", await found(store, AcceptedQuery()), [])


async def a_load_says_if_there_is_a_journal(store: Store) -> None:
    """A conversation with a step 0 is loaded as `LoadedWithJournal`, until a save."""
    await store.save(turn("c", 1))
    expect("none", await _has_journal(store), False)
    await store.journal("c", 0, "{}")
    expect("one step", await _has_journal(store), True)
    await store.save(turn("c", 2))
    expect("after the save", await _has_journal(store), False)
    await store.journal("c", 0, "{}")
    await store.forget_journal("c")
    expect("forgotten", await _has_journal(store), False)


async def _has_journal(store: Store) -> bool | None:
    loaded = await store.load("c")
    return None if loaded is None else loaded.has_journal


async def accepted_messages_are_shared(store: Store, other: Store) -> None:
    """A message that one store accepts is found and marked by another one on the same place."""
    await store.accept(message("c", "r"))
    expect("there", await found(other, AcceptedQuery(now=2.0)), [("c", "r")])
    marks = [
        each.mark_accepted("c", "r", name, ["waiting"])
        for each, name in ((store, "begun"), (other, "cancelled"))
    ]
    states = await asyncio.gather(*marks)
    expect("one state", len(set(states)), 1)


ACCEPTED_CHECKS: Checks = (
    accepted_messages_are_found_when_they_are_due,
    a_request_id_is_accepted_once,
    places_grow_in_order_of_acceptance,
    the_first_mark_wins,
    an_accepted_message_is_dropped,
    hostile_ids_are_accepted_as_they_are,
    a_load_says_if_there_is_a_journal,
)
SHARED_ACCEPTED_CHECKS: Checks = (accepted_messages_are_shared,)
