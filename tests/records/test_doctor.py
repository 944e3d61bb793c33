"""The doctor finds what is wrong with the conversations of a store, and touches nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.engine.outbox.sinks import sink
from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import StoreProblem, examine
from llm_fsm.records.transfer import export, fork
from llm_fsm.stores.base import Commit, OutboxQuery
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.registry import resolve
from orders import ORDER, REPLIES, machine, talked

pytestmark = pytest.mark.anyio


async def test_the_doctor_names_what_does_not_agree_and_touches_nothing():
    store = MemoryStore()
    await talked(store)
    await fork(store, "c", "wrong")
    loaded = await store.load("wrong")
    session = {**json.loads(loaded.session), "state": "ask", "ended": False, "outcome": None}
    record = (await store.records("c"))[-1]
    await store.save(
        Commit(
            conversation_id="wrong",
            expected=loaded.version,
            session=json.dumps(session),
            record=record,
        )
    )
    await store.save(Commit(conversation_id="odd", expected=0, session="{}", record="{}"))
    odd, *wrong = await examine(store)
    assert odd.conversation_id == "odd"
    assert "format None" in odd.what
    assert [(complaint.conversation_id, complaint.what) for complaint in wrong] == [
        (
            "wrong",
            "its records do not lead to its session: ended, fruitless, outcome, path, state, turn, window differ",
        ),
        ("wrong", "the listing shows another state than the session has"),
        ("wrong", "the listing shows another value of 'updated' than its records have"),
    ]
    assert (await store.load("wrong")).version == loaded.version + 1


async def damaged(tmp_path, sql):
    """A store with the conversations a and b, changed behind its back."""
    store = resolve(f"sqlite:///{tmp_path / 'x.db'}")
    for name in "ab":
        await talked(store, name, turns=2)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.executescript(sql)
    return resolve(f"sqlite:///{tmp_path / 'x.db'}")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "UPDATE conversations SET definition = 'x' WHERE id = 'a'",
            "another value of 'definition'",
        ),
        (
            "UPDATE conversations SET created = created + 1 WHERE id = 'a'",
            "another value of 'created'",
        ),
        (
            "UPDATE conversations SET updated = updated - 1 WHERE id = 'a'",
            "another value of 'updated'",
        ),
        (
            "UPDATE conversations SET session = 'null' WHERE id = 'a'",
            "a stored conversation cannot be read",
        ),
        (
            "UPDATE conversations SET session = '[]' WHERE id = 'a'",
            "a stored conversation cannot be read",
        ),
        (
            "UPDATE conversations SET session = replace(hex(zeroblob(60000)), '00', '[') WHERE id = 'a'",
            "a stored conversation cannot be read",
        ),
        (
            "UPDATE records SET record = 'x' WHERE conversation = 'a' AND number = 2",
            "a turn record cannot be read",
        ),
        (
            "UPDATE conversations SET session = replace(session, 'Which', 'What') WHERE id = 'a'",
            "its records do not lead to its session: window differ",
        ),
        (
            "DELETE FROM inbox WHERE request_id = 'r1' AND conversation = 'a'",
            "'r1' is not answered by record 2",
        ),
        (
            "UPDATE inbox SET number = 3 WHERE conversation = 'a' AND request_id = 'r1'",
            "request 'r1' is not answered by record 2",
        ),
    ],
)
async def test_the_doctor_finds_what_was_done_to_one_conversation(tmp_path, sql, says):
    store = await damaged(tmp_path, sql)
    (found,) = await examine(store)
    assert found.conversation_id == "a"
    assert says in found.what
    await store.close()


async def test_a_definition_that_is_not_the_one_begun_with_is_damage_and_never_played(tmp_path):
    store = await damaged(
        tmp_path, "UPDATE definitions SET text = replace(text, 'Ask for', 'Demand')"
    )
    assert [
        (found.conversation_id, "is damaged" in found.what) for found in await examine(store)
    ] == [("a", True), ("b", True)]
    with pytest.raises(UnreadableError, match="its conversations were begun with another text"):
        await export(store, "a")
    changed = {**ORDER, "persona": "A waiter"}
    other = AsyncMachine.from_dict(changed, model=ScriptedLLM(REPLIES, loop=True), store=store)
    with pytest.raises(UnreadableError, match="Restore the store from a backup"):
        await (await other.resume("a")).send("soup")
    await other.close()


class Talking(MemoryStore):
    """A store in which somebody takes one more turn between two looks of whoever reads it."""

    def __init__(self):
        super().__init__()
        self.more = False

    async def records(self, conversation_id, after=0, limit=None):
        if self.more:
            self.more = False
            await (await machine(self).resume(conversation_id)).send("one more")
        return await super().records(conversation_id, after, limit)


async def test_the_doctor_does_not_take_a_turn_in_between_for_damage():
    store = Talking()
    await talked(store, turns=1)
    store.more = True
    assert list(await examine(store)) == []
    assert (await store.load("c")).version == 3


async def test_a_session_that_was_damaged_in_the_store_is_not_played(tmp_path):
    store = await damaged(
        tmp_path,
        "UPDATE conversations SET session = json_set(session, '$.turn', 'x') WHERE id = 'a'",
    )
    with pytest.raises(UnreadableError, match=r"session\.turn: expected a whole number, got text"):
        await machine(store).resume("a")
    reason = "session.turn: expected a whole number, got text"
    assert [(found.conversation_id, reason in found.what) for found in await examine(store)] == [
        ("a", True)
    ]
    await store.close()


async def test_records_that_do_not_fit_together_are_a_complaint(tmp_path):
    store = await damaged(
        tmp_path,
        "UPDATE records SET record = json_set(record, '$.events[0].context', 5) WHERE rowid = 1",
    )
    (found,) = await examine(store)
    assert (found.conversation_id, found.what) == (
        "a",
        "record 1 cannot be used: a turn record cannot be read: record.events[0].context: "
        "expected an object, got a whole number",
    )
    await store.close()


WAITING = {
    "name": "wait",
    "initial_state": "ask",
    "states": {
        "ask": {
            "kind": "wait",
            "purpose": "Wait.",
            "remind": [60],
            "timeout": 600,
            "on_timeout": "late",
        },
        "late": {"kind": "final", "reply": "Too late."},
    },
}


async def owing(url):
    """A store in which one conversation waits, and one has still to be told of."""

    async def down(_):
        raise ConnectionError

    waiting = AsyncMachine.from_dict(WAITING, model=ScriptedLLM([]), store=url)
    await waiting.run(conversation_id="w")
    await waiting.close()
    told = AsyncMachine.from_dict(
        ORDER,
        model=ScriptedLLM(REPLIES, loop=True),
        store=url,
        sinks=[sink(down, events=["UserSaid"])],
    )

    @told.on("end_conversation")
    async def stop(_):
        raise SystemExit

    chat = await told.start(conversation_id="t", greet=False)
    await chat.send("hello")
    await chat.send("soup")
    with pytest.raises(SystemExit):
        await chat.send("no")
    await told.store.close()


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgresql", "redis"])
async def test_what_waits_and_what_is_owed_is_no_complaint(kind, tmp_path, request):
    urls = {"sqlite": f"sqlite:///{tmp_path / 'x.db'}", "file": f"file://{tmp_path / 'x'}"}
    url = urls.get(kind) or request.getfixturevalue(f"{kind}_url")
    await owing(url)
    store = resolve(url)
    assert len(await store.due(1e12)) == 2
    assert len(await store.outbox(OutboxQuery())) == 4
    assert list(await examine(store)) == []
    await store.close()


@pytest.mark.parametrize(
    ("sql", "whose", "says"),
    [
        ("DELETE FROM due", "w", "its rows of the due table are not those of its session"),
        ("UPDATE due SET time = time + 1 WHERE kind = 'expire'", "w", "its rows of the due table"),
        ("INSERT INTO due VALUES ('t', 1, 'expire')", "t", "its rows of the due table"),
        (
            "UPDATE outbox SET number = number + 40 WHERE number = 4",
            "t",
            "'t/4/0', is not in its records",
        ),
        (
            "UPDATE outbox SET text = '[' WHERE number = 2",
            "t",
            "has still to be told, 't/2/0', is not in its records",
        ),
        (
            "UPDATE outbox SET text = json_set(text, '$.index', 99) WHERE number = 2",
            "t",
            "is not in its records",
        ),
        (
            "UPDATE outbox SET text = json_set(text, '$.event.type', 'X') WHERE number = 2",
            "t",
            "is not in its records",
        ),
        (
            "UPDATE outbox SET text = '{}' WHERE sink = 'llm_fsm:end_conversation'",
            "t",
            "is not in its records",
        ),
        (
            "PRAGMA foreign_keys = 0; UPDATE due SET conversation = 'x'",
            "",
            "table due belong to no conversation",
        ),
    ],
)
async def test_the_doctor_finds_what_was_done_to_due_rows_and_outbox(tmp_path, sql, whose, says):
    await owing(f"sqlite:///{tmp_path / 'x.db'}")
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.executescript(sql)
    store = resolve(f"sqlite:///{tmp_path / 'x.db'}")
    found = await examine(store)
    assert any(
        complaint.conversation_id == whose and says in complaint.what for complaint in found
    ), found
    await store.close()


@pytest.mark.parametrize("table", ["outbox", "due", "inbox", "journal", "records"])
async def test_a_table_that_is_gone_is_said(tmp_path, table):
    store = await damaged(tmp_path, f"DROP TABLE {table}")
    with pytest.raises(StoreError, match=f"no such table: (main.)?{table}"):
        await examine(store)
    await store.close()


async def test_what_a_store_says_of_itself_is_passed_on():
    class Leaking(MemoryStore):
        async def faults(self):
            return ["it leaks"]

    assert await examine(Leaking()) == [StoreProblem(conversation_id="", what="it leaks")]


async def test_what_sqlite_itself_finds_damaged_is_said(tmp_path):
    store = await damaged(
        tmp_path, "PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE name = 'due_by_time'"
    )
    (found,) = await examine(store)
    assert (found.conversation_id, "never used" in found.what) == ("", True)
    await store.close()
