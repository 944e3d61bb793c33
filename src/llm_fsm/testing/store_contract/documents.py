"""The clauses about documents, one function each. `suite.py` lists them."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from llm_fsm.errors import ConversationConflict
from llm_fsm.stores.base import Commit, DueRow, Listed, ListQuery, Loaded, Store

HOSTILE = (
    " leading and trailing ",
    "a",
    "A",
    "\u00e9",
    "e\u0301",
    "'; DROP TABLE conversations; --",
    '"quoted" \\ back\\slash `tick`',
    "../../etc/passwd",
    "/absolute/path.db",
    "C:\\windows\\system32",
    "nul.txt",
    ".",
    "%00%2e%2e%2f",
    "100%_like_*?[glob]",
    "{$ne: 1}",
    "key:with:colons\u2028and a line separator",
    "<script>alert(1)</script>",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "\u200b\ufeffinvisible",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 family",
    "x" * 200,
    "\U0001f600" * 200,
    "null",
    "0",
)
"""Conversation and request ids that a store must tell apart and never interpret."""

DOCUMENTS = (
    json.dumps({"text": "\x00\x01\x7f\x85 \ud800 \udfff \U0001f600 \u2028"}),
    '{"text":"Привіт 世界 \U0001f600 \x7f\x85\u2028 \\ud800"}',
    json.dumps({"number": 10**400, "small": 5e-324, "nested": [[[[]]]]}),
    json.dumps("'; DELETE FROM records; -- \\ \" ` $1 ? :a @b"),
    '{"b":1,"a":2,"b":3}',
    " \t{} \n",
    json.dumps("x" * 1_000_000),
)
"""Documents that must come back byte for byte, with the order of keys and the spaces."""


E = TypeVar("E", bound=Exception)
Checks: TypeAlias = tuple[Callable[..., Awaitable[None]], ...]


def expect(what: str, found: object, wanted: object) -> None:
    """Raise AssertionError if `found` is not `wanted`. Sequences are compared by their items."""
    found, wanted = _plain(found), _plain(wanted)
    if found != wanted:
        raise AssertionError(f"{what}: expected {_short(wanted)}, found {_short(found)}")


def turn(name: str, number: int, session: str = "{}", request_id: str | None = None) -> Commit:
    """Return the commit of turn `number` of the conversation `name`, with a record that names
    both.
    """
    record = json.dumps({"of": name, "turn": number})
    return Commit(
        conversation_id=name,
        expected=number - 1,
        session=session,
        record=record,
        request_id=request_id,
        definition="greeting",
        state=f"state {number}",
        ended=number > 2,
        time=1_000.5 + number,
    )


def due(name: str, number: int, *rows: tuple[float, str]) -> Commit:
    """Return the commit of a turn with rows for the due table."""
    return replace(turn(name, number), due=rows)


async def expect_error(what: str, kind: type[E], attempt: Awaitable[object]) -> E:
    """Return the error of a kind that `attempt` must raise."""
    try:
        await attempt
    except kind as error:
        return error
    raise AssertionError(f"{what}: expected {kind.__name__}, found no error")


async def expect_conflict(what: str, attempt: Awaitable[object]) -> None:
    """Raise AssertionError if `attempt` does not raise ConversationConflict."""
    await expect_error(what, ConversationConflict, attempt)


async def expect_loaded(
    what: str, store: Store, name: str, session: str, version: int, *, by: str | None = None
) -> None:
    """Raise AssertionError unless a conversation is loaded like this, and no record with it.

    `by`: the request id of the call.
    """
    expect(what, await store.load(name, by), Loaded(session=session, version=version))


async def expect_recorded(
    store: Store, session: str, version: int, records: Mapping[Any, str | None]
) -> None:
    """Raise AssertionError unless "c" is loaded with the record of each request id."""
    for request_id, record in records.items():
        wanted = Loaded(session=session, version=version, recorded=record)
        expect(f"load with {request_id}", await store.load("c", request_id), wanted)


async def expect_steps(what: str, store: Store, name: str, wanted: Sequence[str]) -> None:
    """Raise AssertionError unless the journal of a conversation has these steps."""
    expect(what, await store.journalled(name), wanted)


def ids(rows: Iterable[Listed | DueRow]) -> list[str]:
    """Return the conversations of rows."""
    return [row.conversation_id for row in rows]


async def an_unknown_conversation_is_none(store: Store) -> None:
    """An unknown conversation has no session, record, journal or line."""
    expect("load", await store.load("nobody"), None)
    expect("load with a request id", await store.load("nobody", "request"), None)
    expect("records", await store.records("nobody"), [])
    await expect_steps("journalled", store, "nobody", [])
    expect("list", await store.list(ListQuery()), [])
    expect("delete", await store.delete("nobody"), False)
    await store.forget_journal("nobody")


async def a_saved_session_is_loaded_with_its_version(store: Store) -> None:
    """Each save raises the version by one and replaces the session."""
    for number in (1, 2, 3):
        session = json.dumps({"after": number})
        await store.save(turn("c", number, session))
        await expect_loaded(f"after save {number}", store, "c", session, number)


async def a_version_that_does_not_fit_is_refused(store: Store) -> None:
    """Nothing is written unless the expected version is the stored one."""
    first = turn("c", 1, '"first"')
    await store.save(first)
    await expect_conflict("create twice", store.save(turn("c", 1, '"second"')))
    await expect_conflict("a version ahead", store.save(turn("c", 3, '"third"')))
    await expect_conflict("an unknown conversation", store.save(turn("gone", 2)))
    await store.save(turn("c", 2, '"fine"'))
    await expect_conflict("a version behind", store.save(turn("c", 2, '"late"')))
    await expect_loaded("the session", store, "c", '"fine"', 2)
    expect("the records", await store.records("c"), [first.record, turn("c", 2).record])
    expect("the refused conversation", await store.load("gone"), None)


async def a_known_request_id_brings_its_record(store: Store) -> None:
    """The store finds the record that answered a request id, per conversation, for ever."""
    first = turn("c", 1, request_id="r1")
    second = turn("c", 2, request_id="r2")
    await store.save(first)
    await store.save(second)
    await store.save(turn("c", 3, '"now"'))
    await store.save(turn("other", 1))
    known = {"r1": first.record, "r2": second.record, "r3": None, None: None}
    await expect_recorded(store, '"now"', 3, known)
    await expect_loaded("another conversation", store, "other", "{}", 1, by="r1")


async def a_request_id_is_answered_once(store: Store) -> None:
    """A second save under a known request id is refused as a whole. In other conversations, the id
    is free.
    """
    await store.save(turn("c", 1, '"first"', "r"))
    await store.journal("c", 1, '"kept"')
    await expect_conflict("the same request", store.save(turn("c", 2, '"second"', "r")))
    await expect_loaded("the session", store, "c", '"first"', 1)
    expect("the records", await store.records("c"), [turn("c", 1).record])
    await expect_steps("the journal", store, "c", ['"kept"'])
    await store.save(turn("other", 1, request_id="r"))


async def a_turn_may_answer_several_requests(store: Store) -> None:
    """The store finds a turn by the request id of each message that was merged into it. A save is
    refused if one of its ids is known.
    """
    await store.save(turn("c", 1))
    several = replace(turn("c", 2, request_id="a"), merged=(("b", 2), ("c", 2)))
    await store.save(several)
    await store.save(turn("c", 3, request_id="d"))
    await expect_recorded(store, "{}", 3, dict.fromkeys(("a", "b", "c"), several.record))
    late = replace(turn("c", 4, request_id="e"), merged=(("f", 4), ("b", 4)))
    await expect_conflict("a known id among new ones", store.save(late))
    await expect_conflict("a known id alone", store.save(turn("c", 4, request_id="c")))
    await expect_loaded("load with e", store, "c", "{}", 3, by="e")
    await store.save(turn("other", 1, request_id="b"))


async def records_come_in_order_and_in_pages(store: Store) -> None:
    """`after` and `limit` page through the records by their numbers."""
    for number in range(1, 13):
        await store.save(turn("c", number))
    records = [turn("c", number).record for number in range(1, 13)]
    expect("all", await store.records("c"), records)
    expect("after 9", await store.records("c", 9), records[9:])
    expect("after 2, 3 of them", await store.records("c", after=2, limit=3), records[2:5])
    expect("after the last", await store.records("c", after=12), [])
    expect("limit 0", await store.records("c", limit=0), [])


async def the_journal_keeps_steps_in_order(store: Store) -> None:
    """Steps come back by their numbers, not by time of writing, and also before the first save."""
    for step in (2, 10, 1, 3):
        await store.journal("c", step, f'"step {step}"')
    wanted = [f'"step {step}"' for step in (1, 2, 3, 10)]
    await expect_steps("journalled", store, "c", wanted)
    await expect_steps("another conversation's journal", store, "other", [])
    expect("the conversation, which was never saved", await store.load("c"), None)
    expect("the listing", await store.list(ListQuery()), [])


async def a_step_is_written_once(store: Store) -> None:
    """A second result for a step is refused and the first one stays."""
    await store.journal("c", 1, '"first"')
    await expect_conflict("the same step", store.journal("c", 1, '"second"'))
    await expect_steps("journalled", store, "c", ['"first"'])


async def a_save_empties_the_journal(store: Store) -> None:
    """A commit ends the turn. Only this conversation's steps go, and step 1 is free again."""
    await store.journal("c", 1, '"mine"')
    await store.journal("other", 1, '"theirs"')
    await store.save(turn("c", 1))
    await expect_steps("after the save", store, "c", [])
    await expect_steps("the other's", store, "other", ['"theirs"'])
    await store.journal("c", 1, '"next turn"')
    await expect_conflict("a refused save", store.save(turn("c", 1)))
    await expect_steps("after a refused save", store, "c", ['"next turn"'])


async def a_journal_can_be_forgotten(store: Store) -> None:
    """`forget_journal` drops the steps and nothing else."""
    await store.save(turn("c", 1, '"kept"'))
    await store.journal("c", 1, '"dropped"')
    await store.journal("other", 1, '"theirs"')
    await store.forget_journal("c")
    await expect_steps("the journal", store, "c", [])
    await expect_steps("the other's", store, "other", ['"theirs"'])
    await expect_loaded("the session", store, "c", '"kept"', 1)


async def conversations_are_listed_by_id(store: Store) -> None:
    """The listing is ordered by id (by code points), shows the last turn, and pages."""
    for name in ("b", "a", "C", "\u00e4", "\U0001f600", "\uffee"):
        await store.save(turn(name, 1))
    for number in (2, 3):
        await store.save(turn("b", number))
    wanted = ["C", "a", "b", "\u00e4", "\uffee", "\U0001f600"]
    lines = list(await store.list(ListQuery()))
    expect("the order", ids(lines), wanted)
    expect("a line", lines[2], _line("b", 3))
    expect("a line of one turn", lines[1], _line("a", 1))
    page = await store.list(ListQuery(after="a", limit=2))
    expect("after a, 2 of them", ids(page), ["b", "\u00e4"])
    page = await store.list(ListQuery(after="aa", limit=1))
    expect("after what is not there", ids(page), ["b"])
    expect("after the last", await store.list(ListQuery(after="\U0001f600")), [])


async def deleting_removes_everything(store: Store) -> None:
    """A new conversation with the id of a deleted one finds nothing of it. Other conversations
    stay.
    """
    for name in ("c", "other"):
        await store.save(turn(name, 1, request_id="r"))
        await store.save(turn(name, 2))
        await store.journal(name, 1, '"step"')
    expect("delete", await store.delete("c"), True)
    await an_id_is_free(store)
    expect("delete again", await store.delete("c"), False)
    await store.save(turn("c", 1, '"new"'))
    await expect_loaded("the new one", store, "c", '"new"', 1, by="r")
    expect("the new one's records", len(await store.records("c")), 1)
    await expect_loaded("the other's version", store, "other", "{}", 2)
    await expect_steps("the other's journal", store, "other", ['"step"'])


async def due_rows_come_in_order_of_time(store: Store) -> None:
    """The due table holds the rows of the last commit of each conversation, and can be filtered."""
    await store.save(due("b", 1, (30.5, "remind"), (10.0, "expire")))
    await store.save(due("a", 1, (10.0, "expire"), (1e12, "expire")))
    await store.save(turn("quiet", 1))
    wanted = [DueRow(conversation_id=name, time=10.0, kind="expire") for name in ("a", "b")]
    later = DueRow(conversation_id="b", time=30.5, kind="remind")
    rows = [*wanted, later]
    for what, now, limit, definition, found in (
        ("due at 10", 10.0, 100, None, wanted),
        ("due at 9.9", 9.9, 100, None, []),
        ("due at 100", 100.0, 100, None, rows),
        ("one of them", 100.0, 1, None, wanted[:1]),
        ("of a definition", 100.0, 100, "greeting", rows),
        ("of another definition", 100.0, 100, "other", []),
    ):
        expect(what, await store.due(now, limit, definition), found)
    ever = await store.due(math.inf, 2**31 - 1)
    expect("ever", [row.time for row in ever], [10.0, 10.0, 30.5, 1e12])
    await store.save(due("b", 2, (20.0, "remind")))
    expect("replaced", await store.due(100.0), [wanted[0], replace(later, time=20.0)])
    await expect_conflict("a refused save", store.save(turn("b", 2)))
    expect("after a refused save", len(await store.due(100.0)), 2)
    await store.save(turn("b", 3))
    await store.delete("a")
    expect("nothing left", await store.due(1e13), [])


async def hostile_ids_are_only_ids(store: Store) -> None:
    """Ids that look like code, paths or one another stay apart and come back unchanged."""
    for name in HOSTILE:
        await store.save(turn(name, 1, json.dumps(name), request_id=name))
        await store.journal(name, 1, json.dumps(name))
    for name in HOSTILE:
        wanted = Loaded(session=json.dumps(name), version=1, recorded=turn(name, 1).record)
        expect(f"load {name!r}", await store.load(name, name), wanted)
        await expect_steps(f"journal of {name!r}", store, name, [json.dumps(name)])
    expect("the listing", ids(await store.list(ListQuery())), sorted(HOSTILE))
    expect("delete", await store.delete(HOSTILE[0]), True)
    expect("the rest", len(await store.list(ListQuery())), len(HOSTILE) - 1)


async def documents_come_back_byte_for_byte(store: Store) -> None:
    """A store neither parses nor repairs documents, which may have a million characters."""
    for number, text in enumerate(DOCUMENTS, start=1):
        await store.journal("c", 1, text)
        await expect_steps(f"journal {number}", store, "c", [text])
        commit = Commit(
            conversation_id="c",
            expected=number - 1,
            session=text,
            record=text,
            request_id=f"r{number}",
        )
        await store.save(commit)
        expect(f"load {number}", await store.load("c", f"r{number}"), _loaded(text, number))
    expect("records", await store.records("c"), list(DOCUMENTS))


async def two_stores_on_one_place_see_each_other(store: Store, other: Store) -> None:
    """A second store reads at once what the first has saved, and the version check holds between
    them.
    """
    expect("before", await other.load("c"), None)
    await store.save(turn("c", 1, '"one"', "r"))
    found = Loaded(session='"one"', version=1, recorded=turn("c", 1).record)
    expect("the other loads", await other.load("c", "r"), found)
    await other.save(turn("c", 2, '"two"'))
    await expect_conflict("a late save", store.save(turn("c", 2, '"late"')))
    await expect_loaded("the first loads", store, "c", '"two"', 2)
    await store.journal("c", 1, '"step"')
    await expect_steps("the other's journal", other, "c", ['"step"'])
    expect("the other deletes", await other.delete("c"), True)
    await an_id_is_free(store)


async def what_was_saved_outlives_its_store(store: Store, other: Store) -> None:
    """After `close` another store finds everything."""
    await store.save(turn("c", 1, '"kept"', "r"))
    await store.journal("c", 1, '"step"')
    await store.save(due("d", 1, (5.0, "expire")))
    await store.close()
    expect("due", ids(await other.due(5.0)), ["d"])
    expect("load", await other.load("c", "r"), _loaded('"kept"', 1, turn("c", 1).record))
    await expect_steps("journalled", other, "c", ['"step"'])


async def an_id_is_free(store: Store) -> None:
    """Raise AssertionError if the store holds anything under the id "c"."""
    expect("load", await store.load("c", "r"), None)
    expect("records", await store.records("c"), [])
    await expect_steps("journalled", store, "c", [])
    listed = ids(await store.list(ListQuery()))
    expect("listed", "c" in listed, False)


def _loaded(session: str, version: int, record: str | None = None) -> Loaded:
    return Loaded(session=session, version=version, recorded=session if record is None else record)


def _line(name: str, turns: int) -> Listed:
    return Listed(
        conversation_id=name,
        definition="greeting",
        state=f"state {turns}",
        ended=turns > 2,
        turns=turns,
        created=1_001.5,
        updated=1_000.5 + turns,
    )


def _plain(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value


def _short(value: object) -> str:
    text = repr(value)
    if len(text) <= 500:
        return text
    return f"{text[:500]}… ({len(text)} characters)"


DOCUMENT_CHECKS: Checks = (
    an_unknown_conversation_is_none,
    a_saved_session_is_loaded_with_its_version,
    a_version_that_does_not_fit_is_refused,
    a_known_request_id_brings_its_record,
    a_request_id_is_answered_once,
    a_turn_may_answer_several_requests,
    records_come_in_order_and_in_pages,
    the_journal_keeps_steps_in_order,
    a_step_is_written_once,
    a_save_empties_the_journal,
    a_journal_can_be_forgotten,
    conversations_are_listed_by_id,
    deleting_removes_everything,
    due_rows_come_in_order_of_time,
    hostile_ids_are_only_ids,
    documents_come_back_byte_for_byte,
)
SHARED_CHECKS: Checks = (two_stores_on_one_place_see_each_other, what_was_saved_outlives_its_store)
