"""The clauses about the outbox, definitions, filters and imported conversations, one function
each.
"""

from __future__ import annotations

import json
from dataclasses import replace

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, ListQuery, Loaded, OutboxQuery, Outgoing, Posted, Store
from llm_fsm.testing.store_contract.documents import (
    DOCUMENTS,
    HOSTILE,
    Checks,
    expect,
    expect_conflict,
    expect_error,
    expect_loaded,
    expect_recorded,
    expect_steps,
    ids,
    turn,
)

SHA = "a" * 64
OTHER_SHA = "b" * 64


def posting(name: str, number: int, *events: tuple[str, str]) -> Commit:
    """Return the commit of a turn with these (sink, key) events."""
    outbox = tuple(Outgoing(sink=sink, key=key, text=json.dumps(key)) for sink, key in events)
    return replace(turn(name, number), outbox=outbox)


def pinned(name: str, number: int, sha: str | None, text: str | None = None) -> Commit:
    """Return the commit of a turn under a definition."""
    return replace(turn(name, number), definition_sha=sha, definition_text=text)


async def keys(store: Store, sink: str, **narrowed: object) -> list[str]:
    """Return the keys of the events that a sink has not received."""
    query = OutboxQuery(sink=sink, **narrowed)  # type: ignore[arg-type]
    return [row.key for row in await store.outbox(query)]


async def the_outbox_is_read_in_order(store: Store) -> None:
    """Each sink has its own rows: by conversation, then in the order of commits and within each."""
    await store.save(posting("b", 1, ("crm", "b1"), ("log", "b1"), ("crm", "b2")))
    await store.save(posting("a", 1, ("crm", "a1")))
    await store.save(turn("a", 2))
    for number in range(2, 13):
        await store.save(posting("b", number, ("crm", f"b{number + 1}")))
    wanted = ["a1", *(f"b{number}" for number in range(1, 14))]
    narrowings: tuple[tuple[str, dict[str, object], list[str]], ...] = (
        ("all of a sink", {}, wanted),
        ("three of them", {"limit": 3}, wanted[:3]),
        ("none of them", {"limit": 0}, []),
        ("after a", {"after": "a", "limit": 2}, ["b1", "b2"]),
        ("of a", {"conversation_id": "a"}, ["a1"]),
        ("of no conversation", {"conversation_id": "c"}, []),
        ("of the definition", {"definition": "greeting"}, wanted),
        ("of another definition", {"definition": "order"}, []),
    )
    for what, narrowed, found in narrowings:
        expect(what, await keys(store, "crm", **narrowed), found)
    expect("another sink", await keys(store, "log"), ["b1"])
    expect("an unknown sink", await keys(store, "nobody"), [])
    every = [("a1", "crm"), ("b1", "crm"), ("b1", "log"), ("b2", "crm")]
    expect(
        "all of all",
        [(row.key, row.sink) for row in await store.outbox(OutboxQuery(limit=4))],
        every,
    )
    expect(
        "all of a",
        [row.sink for row in await store.outbox(OutboxQuery(conversation_id="a"))],
        ["crm"],
    )
    rows = await store.outbox(OutboxQuery(sink="crm", conversation_id="b", limit=2))
    wanted_row = Posted(conversation_id="b", number=1, index=2, sink="crm", key="b2", text='"b2"')
    expect("a row", list(rows)[1], wanted_row)


async def what_was_told_is_dropped(store: Store) -> None:
    """Acknowledging a row drops it and the sink's rows before it in the conversation. Repeating
    changes nothing.
    """
    await store.save(posting("a", 1, ("crm", "a1"), ("log", "a1"), ("crm", "a2"), ("crm", "a3")))
    await store.save(posting("a", 2, ("crm", "a4")))
    await store.save(posting("b", 1, ("crm", "b1")))
    second = (await store.outbox(OutboxQuery(sink="crm", conversation_id="a")))[1]
    for _ in range(2):
        await store.acknowledge(second)
        expect("the sink's rows", await keys(store, "crm"), ["a3", "a4", "b1"])
    expect("another sink's", await keys(store, "log"), ["a1"])
    await store.acknowledge((await store.outbox(OutboxQuery(sink="crm", conversation_id="a")))[-1])
    await store.save(posting("a", 3, ("crm", "a5")))
    await store.acknowledge(second)
    expect("after an old acknowledgement", await keys(store, "crm"), ["a5", "b1"])
    await store.acknowledge(replace(second, conversation_id="gone"))


async def a_refused_commit_posts_nothing(store: Store) -> None:
    """The outbox belongs to the turn's transaction. A refused commit posts nothing and pins
    nothing.
    """
    await store.save(replace(turn("c", 1), request_id="r"))
    late = replace(posting("c", 1, ("crm", "late")), definition_sha=SHA, definition_text="{}")
    await expect_conflict("a version behind", store.save(late))
    again = replace(posting("c", 2, ("crm", "again")), request_id="r")
    await expect_conflict("the same request", store.save(again))
    expect("the outbox", await keys(store, "crm"), [])
    expect("the definition", await store.definition(SHA), None)
    await expect_loaded("the pin", store, "c", "{}", 1)


async def a_definition_is_kept_while_it_is_used(store: Store) -> None:
    """The store keeps one copy of each definition, from the first commit that is pinned to it to
    the last.
    """
    text = DOCUMENTS[0]
    await store.save(pinned("a", 1, SHA, text))
    await store.save(pinned("b", 1, SHA, "something else under the same name is not looked at"))
    await store.save(pinned("b", 2, SHA))
    expect("the definition", await store.definition(SHA), text)
    expect("an unknown one", await store.definition(OTHER_SHA), None)
    wanted = Loaded(session="{}", version=2, definition_sha=SHA)
    expect("the pin", await store.load("b"), wanted)
    expect(
        "the pin, listed",
        [line.definition_sha for line in await store.list(ListQuery())],
        [SHA, SHA],
    )
    await store.delete("a")
    expect("still used", await store.definition(SHA), text)
    await store.save(pinned("b", 3, OTHER_SHA, '{"new":1}'))
    expect("no longer used", await store.definition(SHA), None)
    expect("the new one", await store.definition(OTHER_SHA), '{"new":1}')
    await store.delete("b")
    expect("nobody is left", await store.definition(OTHER_SHA), None)
    await expect_conflict("a later turn of one that is gone", store.save(pinned("b", 4, OTHER_SHA)))


async def a_pin_needs_its_definition(store: Store) -> None:
    """A commit that names a definition unknown to the store writes nothing."""
    await expect_error("a first turn", StoreError, store.save(pinned("c", 1, SHA)))
    expect("load", await store.load("c"), None)
    await store.save(turn("c", 1))
    await expect_error("a later turn", StoreError, store.save(pinned("c", 2, SHA)))
    await expect_loaded("load", store, "c", "{}", 1)
    expect("records", len(await store.records("c")), 1)


async def the_listing_can_be_narrowed(store: Store) -> None:
    """The listing can be filtered by definition, state and end, as the last commit has them. Paging
    works on the rest.
    """
    for number in range(1, 8):
        for step in range(1, number % 4 + 2):
            kind = "order" if number % 2 else "greeting"
            await store.save(replace(turn(f"c{number}", step), definition=kind))
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({}, "1234567"),
        ({"definition": "order"}, "1357"),
        ({"state": "state 3"}, "26"),
        ({"ended": True}, "2367"),
        ({"ended": False}, "145"),
        ({"definition": "order", "ended": True}, "37"),
        ({"definition": "nothing"}, ""),
        ({"definition": "order", "after": "c3", "limit": 1}, "5"),
    )
    for narrowed, wanted in cases:
        found = await store.list(ListQuery(**narrowed))  # type: ignore[arg-type]
        expect(f"list {narrowed}", ids(found), [f"c{n}" for n in wanted])


async def a_conversation_can_come_whole(store: Store) -> None:
    """`earlier` records are written before the last one in the same commit, with their request ids,
    under one version.
    """
    earlier = ((turn("c", 1).record, None), (turn("c", 2).record, "r2"))
    whole = replace(
        turn("c", 1),
        record=turn("c", 3).record,
        earlier=earlier,
        created=5.5,
        request_id="r3",
        merged=(("r2 too", 2), ("r3 too", 3)),
    )
    await store.save(whole)
    records = [turn("c", number).record for number in (1, 2, 3)]
    expect("records", await store.records("c"), records)
    _, second, third = records
    known = {"r2": second, "r2 too": second, "r3": third, "r3 too": third, "r1": None}
    await expect_recorded(store, "{}", 3, known)
    (line,) = await store.list(ListQuery())
    expect("turns and times", (line.turns, line.created, line.updated), (3, 5.5, whole.time))
    await expect_conflict("once more", store.save(whole))
    await store.save(turn("c", 4))
    await expect_loaded("the version after a turn", store, "c", "{}", 4)


async def nothing_outlives_its_conversation(store: Store) -> None:
    """Deleting also removes outbox, due rows and the unused definition, and a journal without a
    conversation.
    """
    for name in ("c", "other"):
        commit = replace(posting(name, 1, ("crm", name)), due=((1.0, "expire"),))
        await store.save(replace(commit, definition_sha=name * 8, definition_text="{}"))
    await store.delete("c")
    expect("the outbox", await keys(store, "crm"), ["other"])
    expect("due", ids(await store.due(2.0)), ["other"])
    expect("the definition", await store.definition("c" * 8), None)
    expect("the other's", await store.definition("other" * 8), "{}")
    await store.save(turn("c", 1))
    expect("the outbox of a new one", await keys(store, "crm"), ["other"])
    await store.journal("unborn", 1, "{}")
    expect("delete what was never saved", await store.delete("unborn"), False)
    await expect_steps("its journal", store, "unborn", [])


async def hostile_words_are_only_words(store: Store) -> None:
    """Names of sinks, keys, states and definitions are any text, and so are the outbox's
    documents.
    """
    for number, word in enumerate(HOSTILE, start=1):
        event = Outgoing(sink=word, key=word, text=DOCUMENTS[number % len(DOCUMENTS)])
        commit = replace(turn(f"c{number:02}", 1), definition=word, state=word, outbox=(event,))
        await store.save(commit)
    for number, word in enumerate(HOSTILE, start=1):
        (row,) = await store.outbox(OutboxQuery(sink=word, definition=word))
        wanted = (f"c{number:02}", word, word, DOCUMENTS[number % len(DOCUMENTS)])
        expect(
            f"the outbox of {word!r}", (row.conversation_id, row.sink, row.key, row.text), wanted
        )
        (line,) = await store.list(ListQuery(definition=word, state=word))
        expect(f"the line of {word!r}", (line.definition, line.state), (word, word))


async def the_outbox_outlives_its_store(store: Store, other: Store) -> None:
    """After `close`, another store finds the undelivered events and the definitions."""
    await store.save(
        replace(posting("c", 1, ("crm", "c1")), definition_sha=SHA, definition_text="{}")
    )
    await store.close()
    expect("the outbox", await keys(other, "crm"), ["c1"])
    expect("the definition", await other.definition(SHA), "{}")
    await other.acknowledge((await other.outbox(OutboxQuery(sink="crm")))[0])
    expect("the outbox after it was told", await keys(other, "crm"), [])


KEEPING_CHECKS: Checks = (
    the_outbox_is_read_in_order,
    what_was_told_is_dropped,
    a_refused_commit_posts_nothing,
    a_definition_is_kept_while_it_is_used,
    a_pin_needs_its_definition,
    the_listing_can_be_narrowed,
    a_conversation_can_come_whole,
    nothing_outlives_its_conversation,
    hostile_words_are_only_words,
)
SHARED_KEEPING_CHECKS: Checks = (the_outbox_outlives_its_store,)
