"""The clauses about listings, one function each. `suite.py` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from llm_fsm.stores.base import ANY_PAUSE, ListQuery, Store, every_line
from llm_fsm.testing.store_contract.documents import HOSTILE, Checks, expect, ids, turn

NEWEST_FIRST = ListQuery(order="-updated")
_TIMES: Mapping[str, float] = {"a": 30.25, "b": 10.5, "c": 20.0, "d": 20.0, "\U0001f600": 20.0}
"""Ids, and the times of their last commits. Three of them are equal."""
_BY_TIME = ("b", "c", "d", "\U0001f600", "a")


async def filters_of_a_listing_join(store: Store) -> None:
    """A line is listed if it matches every filter. `count` counts the lines of all pages."""
    for name in ("a", "b", "c"):
        await store.save(replace(turn(name, 1), time=100.0))
    await store.save(replace(turn("b", 2), time=200.0))
    await store.save(replace(turn("c", 2), time=200.0))
    await store.save(replace(turn("c", 3), time=300.0, definition="other"))
    for query, wanted in (
        (ListQuery(definition="greeting"), ["a", "b"]),
        (ListQuery(definition="other"), ["c"]),
        (ListQuery(definition="nothing"), []),
        (ListQuery(state="state 2"), ["b"]),
        (ListQuery(ended=True), ["c"]),
        (ListQuery(ended=False), ["a", "b"]),
        (ListQuery(ended=False, state="state 1", definition="greeting"), ["a"]),
        (ListQuery(updated_since=200.0), ["b", "c"]),
        (ListQuery(updated_since=200.5), ["c"]),
        (ListQuery(updated_before=200.0), ["a"]),
        (ListQuery(updated_since=150.0, updated_before=300.0), ["b"]),
        (ListQuery(after="a", ended=False), ["b"]),
        (ListQuery(ids=frozenset(("c", "a", "nobody"))), ["a", "c"]),
        (ListQuery(ids=frozenset(("c", "a")), ended=False), ["a"]),
        (ListQuery(ids=frozenset()), []),
    ):
        await _expect_listed(store, query, wanted)
    expect("limit 1", ids(await store.list(ListQuery(ended=False, limit=1))), ["a"])
    expect("count, whatever the limit", await store.count(ListQuery(ended=False, limit=1)), 2)
    expect("limit 0", await store.list(ListQuery(limit=0)), [])


async def a_listing_can_begin_with_any_text(store: Store) -> None:
    """`begins` matches the beginning of ids by code points, and nothing in it is a pattern."""
    for name in HOSTILE:
        await store.save(turn(name, 1))
    for begins in (*HOSTILE, "%", "_", "\U0001f600" * 3, "x" * 199, "a", "\u00e9"):
        wanted = sorted(name for name in HOSTILE if name.startswith(begins))
        await _expect_listed(store, ListQuery(begins=begins), wanted)


async def conversations_are_listed_by_time(store: Store) -> None:
    """`updated` orders by the time of the last commit, then by id; `-updated` reverses that. Both
    page.
    """
    for name in _TIMES:
        await store.save(replace(turn(name, 1), time=5.0))
    for name, time in _TIMES.items():
        await store.save(replace(turn(name, 2), time=time))
    for size in (1, 2, 5, 100):
        for what, query, wanted in (
            ("oldest", ListQuery(order="updated"), _BY_TIME),
            ("newest", NEWEST_FIRST, _BY_TIME[::-1]),
        ):
            found = [line async for line in every_line(store, replace(query, limit=size))]
            expect(f"the {what} first, by {size}", ids(found), list(wanted))
    gone = replace(NEWEST_FIRST, after="cc", after_updated=20.0)
    expect("after what is not there", ids(await store.list(gone)), ["c", "b"])
    since = replace(NEWEST_FIRST, updated_since=20.0, begins="c")
    expect("with filters", ids(await store.list(since)), ["c"])
    expect("count", await store.count(gone), 2)


async def labels_find_conversations(store: Store) -> None:
    """The labels of the first commit stay. A listing finds the conversations that have all the
    labels of a query.
    """
    given = {
        "ada-1": {"user": "ada", "tier": "gold"},
        "ada-2": {"user": "ada"},
        "bob-1": {"user": "bob", "tier": "gold"},
        "none": {},
    }
    for name, metadata in given.items():
        await store.save(replace(turn(name, 1), metadata=metadata))
    await store.save(replace(turn("ada-2", 2), metadata={"user": "eve"}))
    await store.save(turn("bob-1", 2))
    expect(
        "the labels",
        {line.conversation_id: dict(line.metadata) for line in await store.list(ListQuery())},
        given,
    )
    for metadata, wanted in (
        ({"user": "ada"}, ["ada-1", "ada-2"]),
        ({"tier": "gold"}, ["ada-1", "bob-1"]),
        ({"user": "ada", "tier": "gold"}, ["ada-1"]),
        ({"user": "eve"}, []),
        ({"ada": "user"}, []),
        ({"user": "ad"}, []),
    ):
        await _expect_listed(store, ListQuery(metadata=metadata), wanted)
    ada = ListQuery(metadata={"user": "ada"})
    expect("by time", ids(await store.list(replace(ada, order="-updated"))), ["ada-2", "ada-1"])
    expect("a page", ids(await store.list(replace(ada, after="ada-1"))), ["ada-2"])
    await _expect_listed(store, replace(ada, ids=frozenset(("ada-2", "bob-1"))), ["ada-2"])


async def labels_go_with_their_conversation(store: Store) -> None:
    """A deleted conversation is found by no label, and a new one with its id has its own labels."""
    await store.save(replace(turn("c", 1), metadata={"user": "ada"}))
    await store.save(replace(turn("other", 1), metadata={"user": "ada"}))
    expect("delete", await store.delete("c"), True)
    await _expect_listed(store, ListQuery(metadata={"user": "ada"}), ["other"])
    await store.save(replace(turn("c", 1), metadata={"user": "bob"}))
    await _expect_listed(store, ListQuery(metadata={"user": "ada"}), ["other"])
    await _expect_listed(store, ListQuery(metadata={"user": "bob"}), ["c"])


async def hostile_labels_are_only_labels(store: Store) -> None:
    """Labels that look like code, paths or one another stay apart and come back unchanged."""
    for name in HOSTILE:
        await store.save(replace(turn(name, 1), metadata={"key": name, name: "value"}))
    for name in HOSTILE:
        await _expect_listed(store, ListQuery(metadata={"key": name}), [name])
        await _expect_listed(store, ListQuery(metadata={name: "value"}), [name])
    lines = {line.conversation_id: dict(line.metadata) for line in await store.list(ListQuery())}
    expect("the labels", lines, {name: {"key": name, name: "value"} for name in HOSTILE})


async def waiting_conversations_are_listed(store: Store) -> None:
    """`paused` finds the conversations that wait for an answer, by its kind, until a commit answers
    it.
    """
    for name, kind in (
        ("a", "approval"),
        ("b", ""),
        ("c", "wait"),
        ("d", "approval"),
        ("e", "wait"),
    ):
        await store.save(replace(turn(name, 1), paused=kind, time=1_000.0 - ord(name)))
    await store.save(replace(turn("a", 2), paused="wait"))
    await store.save(turn("d", 2))
    await store.save(replace(turn("b", 2), paused="approval", metadata={}, time=5_000.0))
    await store.delete("e")
    for query, wanted in (
        (ListQuery(paused=ANY_PAUSE), ["a", "b", "c"]),
        (ListQuery(paused="wait"), ["a", "c"]),
        (ListQuery(paused="approval"), ["b"]),
        (ListQuery(paused="break"), []),
        (ListQuery(paused="wait", state="state 2"), ["a"]),
        (ListQuery(paused=ANY_PAUSE, definition="greeting", ended=False), ["a", "b", "c"]),
        (ListQuery(paused=ANY_PAUSE, definition="other"), []),
        (ListQuery(paused=ANY_PAUSE, begins="b"), ["b"]),
        (ListQuery(paused=ANY_PAUSE, ids=frozenset(("c", "d"))), ["c"]),
        (ListQuery(paused=ANY_PAUSE, after="a"), ["b", "c"]),
        (ListQuery(paused=ANY_PAUSE, order="updated"), ["c", "a", "b"]),
        (ListQuery(paused=ANY_PAUSE, order="updated", after="a", after_updated=1_002.5), ["b"]),
    ):
        await _expect_listed(store, query, wanted)
    expect("limit 1", ids(await store.list(ListQuery(paused=ANY_PAUSE, limit=1))), ["a"])
    lines = {line.conversation_id: line.paused for line in await store.list(ListQuery())}
    expect("the kinds", lines, {"a": "wait", "b": "approval", "c": "wait", "d": ""})


async def _expect_listed(store: Store, query: ListQuery, wanted: Sequence[str]) -> None:
    expect(f"list {query}", ids(await store.list(query)), list(wanted))
    expect(f"count {query}", await store.count(query), len(wanted))


LISTING_CHECKS: Checks = (
    filters_of_a_listing_join,
    a_listing_can_begin_with_any_text,
    conversations_are_listed_by_time,
    labels_find_conversations,
    labels_go_with_their_conversation,
    hostile_labels_are_only_labels,
    waiting_conversations_are_listed,
)
