"""What a caller holds of a conversation changes nothing of it, and never stands for what others have written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session import turn_record as records
from llm_fsm.session.messages import Paused
from llm_fsm.session.session import Frame, Session, Work, loose_parts, with_parts
from llm_fsm.stores.memory import MemoryStore
from machines import GREETER, reply

pytestmark = pytest.mark.anyio


async def begun(*replies: Any) -> tuple[AsyncConversation, MemoryStore]:
    store = MemoryStore()
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)), store=store)
    return await machine.start(greet=False), store


@pytest.mark.parametrize("value", ["Rome", ["Rome", "Oslo"], {"at": {"day": 1}}])
async def test_turns_can_be_changed_by_whoever_holds_them_and_the_conversation_stays(value: Any) -> None:
    chat, store = await begun(
        reply("hello", "one", city=value), reply("hello", "two"), reply("hello", "three")
    )
    for message in ("first", "second"):
        turn = await chat.send(message)
        held: Any = [
            turn.context,
            chat.context,
            *(event.values for event in turn.events if hasattr(event, "values")),
        ]
        for values in held:
            found = values.get("city")
            if isinstance(found, list | dict):
                found.clear()
            values["city"] = values["more"] = "changed"
    assert (await chat.send("third")).context == {"city": value}
    stored = await store.load(chat.id)
    assert stored is not None
    assert records.parse_session(stored.session).context == {"city": value}


async def test_a_failed_turn_leaves_nothing_of_what_a_handler_changed_in_place() -> None:
    store = MemoryStore()
    model = ScriptedLLM([reply("hello", "one", city=["Rome"]), ModelError("down"), reply("hello", "two")])
    machine = AsyncMachine.from_dict(GREETER, model=model, store=store)

    @machine.on("pre_processing")
    def spoils(occasion: Any) -> None:
        if occasion.user_input == "second":
            occasion.context["city"].append("Oslo")

    chat = await machine.start(greet=False)
    await chat.send("first")
    with pytest.raises(ModelError):
        await chat.send("second")
    assert (await chat.send("third")).context == {"city": ["Rome"]}


async def test_a_conversation_with_lists_is_not_read_again_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    chat, _ = await begun(reply("hello", "one", city=["Rome"]), reply("hello", "two"))
    await chat.send("first")
    monkeypatch.delattr("llm_fsm.engine.engine.parse_session")
    assert (await chat.send("second")).context == {"city": ["Rome"]}


async def test_a_resumed_conversation_is_read_once_and_changes_of_its_lists_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with AsyncMachine.from_dict(GREETER, model=ScriptedLLM([reply("hello")], loop=True)) as machine:
        chat = await machine.start(context={"tags": ["a"]}, greet=False)
        resumed = await machine.resume(chat.id)
        resumed.context["tags"].append("b")
        monkeypatch.delattr("llm_fsm.engine.engine.parse_session")
        assert (await resumed.send("m")).context == {"tags": ["a"]}


async def test_a_conversation_in_a_digression_is_not_read_again_and_what_it_left_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aside = {"target_state": "why", "description": "Asks why", "return": True}
    document = {
        "name": "trip",
        "initial_state": "ask",
        "context_schema": {"type": "object", "properties": {"cities": {"type": "array"}, "sure": {"type": "boolean"}}},
        "global_transitions": [aside],
        "states": {
            "ask": {"purpose": "Where to?", "transitions": [{"target_state": "end", "description": "All is said"}]},
            "why": {"purpose": "Say why", "transitions": [{"target_state": "done", "description": "It was said"}]},
            "done": {"reply": "Well."},
            "end": {"purpose": "Goodbye"},
        },
    }
    model = ScriptedLLM(
        [
            reply("ask", "And?", cities=["Rome"]),
            reply("why", "For the ticket. All right?"),
            reply("why", "Really?"),
            reply("done", "Good."),
        ]
    )
    machine = AsyncMachine.from_dict(document, model=model, store=MemoryStore())
    chat = await machine.start(greet=False, background={"goals": ["a trip"]})
    known = copy.deepcopy(chat.memory)
    monkeypatch.delattr("llm_fsm.engine.engine.parse_session")
    for message, state in (("Rome", "ask"), ("why?", "why"), ("hm", "why"), ("yes", "ask")):
        turn = await chat.send(message)
        assert (turn.state, turn.context, chat.memory) == (state, {"cities": ["Rome"]}, known)
        turn.context["cities"].clear()
        chat.memory["background"].clear()


async def test_what_another_writes_meanwhile_is_seen() -> None:
    chat, store = await begun(reply("hello", "one", city="Rome"), reply("hello", "three"))
    await chat.send("first")
    other = AsyncMachine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "two", city="Oslo")]), store=store
    )
    await (await other.resume(chat.id)).send("second")
    turn = await chat.send("third")
    assert (turn.number, turn.context) == (3, {"city": "Oslo"})


async def test_what_was_taken_back_meanwhile_is_gone() -> None:
    chat, store = await begun(
        reply("hello", "one", city="Rome"), reply("hello", "two", city="Oslo"), reply("hello", "3")
    )
    await chat.send("first")
    await chat.send("second")
    again = await AsyncMachine.from_dict(GREETER, model=ScriptedLLM([]), store=store).resume(chat.id)
    await again.undo()
    turn = await chat.send("third")
    assert (turn.number, turn.context) == (2, {"city": "Rome"})


_CALLED = Frame(kind="subflow", kept={"flow": "", "state": "a", "context": {"name": "Ada", "cities": ["Rome"]}})
_DIGRESSION = Frame(kind="digression", kept={"state": "b", "turns_in_state": 1}, before={"cities": [{"at": 2}]})


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, True),
        ({"context": {"name": "Ada", "age": 36, "sure": True, "height": 1.7}}, True),
        ({"context": {"cities": [{"at": [1.5, None]}], "name": "Ada \ud83e"}}, True),
        ({"context": {"at": {}}}, True),
        ({"input": [{"at": 1}]}, True),
        ({"input": {"at": 1}, "context": {"at": [1]}}, True),
        ({"input": "words"}, True),
        ({"work": Work(state="a")}, False),
        ({"pause": Paused(id="p", kind="wait", what="", state="a", call=None, schema={}, expires=None)}, False),
        ({"memory": {"1": "words"}, "shared": {"count": 1}}, True),
        ({"memory": {"background": {"goal": ["a"]}}, "context": {"at": [1]}}, True),
        ({"shared": {"notes": ["b"]}, "input": [2]}, True),
        ({"stack": (_DIGRESSION, _CALLED), "flow": "sub", "context": {"at": {"day": 1}}}, True),
        ({"stack": (Frame(kind="digression", kept={"state": "a"}, before={"n": 1}),)}, True),
    ],
)
def test_values_that_others_change_are_known_as_they_were(fields: dict[str, Any], known: bool) -> None:
    session, same = (Session(conversation_id="c", **copy.deepcopy(fields)) for _ in range(2))
    loose = loose_parts(session)
    assert (loose is not None) is known
    if loose is not None:
        held = [session.context, session.memory, session.shared]
        for frame in session.stack:
            held += (frame.kept.get("context", {}), frame.before)
        for value in (*(value for values in held for value in values.values()), session.input):
            if isinstance(value, list | dict):
                value.clear()
        assert with_parts(session, loose) == same
        assert [*with_parts(session, loose).context] == [*same.context]


@pytest.mark.parametrize("stack", [(), (_CALLED,), (_CALLED, _DIGRESSION)])
@pytest.mark.parametrize("other", [(), (_DIGRESSION,), (_CALLED, _DIGRESSION, _DIGRESSION)])
def test_parts_of_another_turn_are_no_error(stack: tuple[Frame, ...], other: tuple[Frame, ...]) -> None:
    loose = loose_parts(Session(conversation_id="c", context={"at": [1]}, stack=other))
    assert loose
    assert with_parts(Session(conversation_id="c", stack=stack), loose).context == {"at": [1]}


def test_a_closed_session_is_what_its_text_says() -> None:
    session = Session(
        conversation_id="c",
        state="a",
        context={"name": "Ada 🦊", "age": 36, "height": 1.7, "none": None},
        origins={"name": (1, "model")},
        window=((None, "Hi"), ("a\ud800", "b")),
        notes=(("age", "too old"),),
        time=1763767000.123456,
        skipped=("age",),
        path=(("a", "/states/a/transitions/0"),),
        misses=(1, 2),
        settled=("id", "answered"),
        reminders=(1.5,),
        spent={"money": 0.25},
    )
    assert loose_parts(session) == ""
    assert records.parse_session(records.dump_session(session)) == session
