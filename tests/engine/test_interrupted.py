"""A caller interrupts: the turn is kept, history and prompts show what was heard, and nothing is
lost or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_fsm import AsyncMachine, Machine, ModelError
from llm_fsm.engine.conversation import AsyncConversation, TurnStream
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.session.turn_record import parse
from llm_fsm.testing import ScriptedLLM, reply

pytestmark = pytest.mark.anyio
LOOP: dict[str, Any] = {
    "name": "loop",
    "initial_state": "a",
    "states": {
        "a": {
            "purpose": "Answer",
            "transitions": [{"target_state": "end", "description": "The user says goodbye"}],
        },
        "end": {"purpose": "Say goodbye"},
    },
}
TEXT = "Your table is booked for eight. Do you need anything else?"


class Speaker:
    """A model that says its number, in pieces with pauses between them."""

    def __init__(self) -> None:
        self.asked: list[LLMRequest] = []

    def _text(self, request: LLMRequest) -> str:
        self.asked.append(request)
        said = f"Answer {len(self.asked)}: one two three four five. Anything else?"
        return f'{{"transition": {{"target_state": "a"}}, "message": "{said}"}}'

    async def complete(self, request: LLMRequest) -> ModelReply:
        return ModelReply(text=self._text(request))

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        text = self._text(request)
        for start in range(0, len(text), 9):
            yield text[start : start + 9]
            await asyncio.sleep(0)
        yield ModelReply(text=text)


async def talk(llm: Any = None) -> tuple[AsyncMachine, AsyncConversation]:
    machine = AsyncMachine.from_dict(LOOP, model=llm or Speaker())
    return machine, await machine.start(conversation_id="c", greet=False)


async def left_after(stream: TurnStream, events: int) -> str:
    """Read so many events, leave, and return the words that were heard."""
    heard = ""
    async with aclosing(aiter(stream)) as read:
        async for event in read:
            if isinstance(event, ev.MessageDelta):
                heard = event.text if event.restart else heard + event.text
            events -= 1
            if events <= 0:
                break
    return heard


# -- a turn that is kept


async def test_a_kept_turn_is_finished_although_its_reader_leaves() -> None:
    machine, chat = await talk()
    stream = chat.stream("a", request_id="m1", keep=True)
    heard = await left_after(stream, 4)
    turn = await stream.finish()
    assert turn.text.startswith(heard)
    assert heard != turn.text
    again = await chat.send("a", request_id="m1")
    assert (again.text, again.number) == (turn.text, turn.number)
    assert len(await machine.store.records("c")) == 2


async def test_without_keep_the_turn_is_gone_as_before() -> None:
    machine, chat = await talk()
    stream = chat.stream("a", request_id="m1")
    await left_after(stream, 4)
    assert len(await machine.store.records("c")) == 1
    with pytest.raises(asyncio.CancelledError):
        await stream.finish()


async def test_the_next_message_may_come_at_once() -> None:
    machine, chat = await talk()
    await left_after(chat.stream("a", request_id="m1", keep=True), 3)
    turn = await chat.send("b", request_id="m2")
    assert turn.number == 2
    assert [message.text for message in await chat.history() if message.role == "user"] == [
        "a",
        "b",
    ]
    assert len(await machine.store.records("c")) == 3


async def test_a_reader_that_is_cancelled_leaves_its_turn_running() -> None:
    machine, chat = await talk()
    stream = chat.stream("a", keep=True)
    reader = asyncio.create_task(left_after(stream, 10_000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    assert (await stream.finish()).text
    assert len(await machine.store.records("c")) == 2


async def test_closing_the_machine_waits_for_kept_turns() -> None:
    machine, chat = await talk()
    await left_after(chat.stream("a", keep=True), 1)
    records = machine.store.records
    await machine._engine.kept.finish()
    assert len(await records("c")) == 2
    await machine.close()


async def test_a_kept_turn_that_fails_changes_nothing_and_may_be_sent_again() -> None:
    llm = ScriptedLLM([ModelError("away"), reply("a", "Here I am.")])
    _, chat = await talk(llm)
    stream = chat.stream("a", request_id="m1", keep=True)
    with pytest.raises(ModelError):
        await left_after(stream, 10_000)
    with pytest.raises(ModelError):
        await stream.finish()
    assert (await chat.send("a", request_id="m1")).text == "Here I am."


async def test_a_stream_that_nobody_reads_can_be_finished_and_played() -> None:
    _, chat = await talk()
    assert (await chat.stream("a", keep=True).finish()).number == 1
    seen: list[str] = []
    turn = await chat.stream("b", keep=True).play(lambda event: seen.append(type(event).__name__))
    assert (turn.number, seen[0]) == (2, "UserSaid")


def test_the_synchronous_stream_keeps_its_turn() -> None:
    with Machine.from_dict(LOOP, model=Speaker()) as machine:
        chat = machine.start(greet=False)
        stream = chat.stream("a", request_id="m1", keep=True)
        for event in stream:
            if isinstance(event, ev.MessageDelta):
                break
        turn = stream.finish()
        assert chat.send("a", request_id="m1").text == turn.text
        chat.heard(turn.number, "answer 1")
        assert chat.history[-1].text == "Answer 1… [interrupted]"


Cut = tuple[int, Literal["leave", "cancel"], Literal["next", "again", "heard", "finish"]]
CUTS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["leave", "cancel"]),
        st.sampled_from(["next", "again", "heard", "finish"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(cuts=CUTS)
def test_whatever_a_caller_interrupts_no_turn_is_lost_or_doubled(cuts: list[Cut]) -> None:
    async def run() -> None:
        machine, chat = await talk()
        parts: dict[int, str] = {}
        for number, (events, how, then) in enumerate(cuts, start=1):
            stream = chat.stream(f"m{number}", request_id=f"id{number}", keep=True)
            heard = ""
            if how == "leave":
                heard = await left_after(stream, events)
            else:
                reader = asyncio.create_task(left_after(stream, 10_000))
                for _ in range(events + 1):
                    await asyncio.sleep(0)
                reader.cancel()
                with suppress(asyncio.CancelledError):
                    await reader
            if then == "again":
                assert (await chat.send(f"m{number}", request_id=f"id{number}")).number == number
            elif then != "next":
                turn = await stream.finish()
                assert turn.number == number
                if then == "heard":
                    await chat.heard(number, heard)
                    parts[number] = heard
        await machine._engine.kept.finish()
        records = [parse(text) for text in await machine.store.records("c")]
        said = [record.user_message for record in records if record.user_message is not None]
        assert [(one.text, one.request_id) for one in said] == [
            (f"m{number}", f"id{number}") for number in range(1, len(cuts) + 1)
        ]
        history = await chat.history()
        assert len(history) == 2 * len(cuts)
        for number, heard in parts.items():
            shown = history[2 * number - 1]
            assert (
                heard.startswith(shown.text.removesuffix("… [interrupted]").rstrip())
                or not shown.interrupted
            )

    asyncio.run(run())


# -- what was heard


def machine_of(*replies: Any) -> tuple[Machine, ScriptedLLM]:
    llm = ScriptedLLM(list(replies))
    return Machine.from_dict(LOOP, model=llm), llm


def test_history_and_prompts_show_what_was_heard_and_mark_it() -> None:
    machine, llm = machine_of(
        reply("a", TEXT), reply("a", "Sorry. What else?"), reply("a", "Fine. Else?")
    )
    chat = machine.start(greet=False)
    turn = chat.send("a table, please")
    chat.heard(turn.number, "your TABLE, is")
    shown = chat.history[-1]
    assert (shown.text, shown.interrupted, shown.turn) == ("Your table is… [interrupted]", True, 1)
    assert chat.turns[1].text == TEXT, "the record keeps the whole text"
    chat.send("no, for nine")
    prompt = llm.requests[-1].messages[-1].content
    assert ':"Your table is… [interrupted]"}' in prompt
    assert "booked for eight" not in prompt
    assert "the user heard only the words before it" in prompt
    chat.heard(2, "Sorry. What else?")
    assert chat.history[-1] == chat.history[-1].__class__(
        role="assistant", text="Sorry. What else?", turn=2
    )
    assert "interrupted" not in llm.requests[0].messages[-1].content


@pytest.mark.parametrize(
    ("heard", "shown"),
    [
        (["Your", "Your table"], "Your table… [interrupted]"),
        (["Your table", "Your"], "Your… [interrupted]"),
        (["Your table", TEXT], TEXT),
        ([""], "… [interrupted]"),
        (["Ihr Tisch"], "Ihr Tisch… [interrupted]"),
        (["your table is booked for eight do you need anything else"], TEXT),
    ],
)
def test_a_later_call_replaces_what_was_heard(heard: list[str], shown: str) -> None:
    machine, llm = machine_of(reply("a", TEXT), reply("a", "Fine. Else?"))
    chat = machine.start(greet=False)
    chat.send("a table, please")
    for text in heard:
        chat.heard(1, text)
    assert chat.history[-1].text == shown
    chat.send("and")
    assert f':"{shown}"}}' in llm.requests[-1].messages[-1].content


def test_an_older_turn_may_be_named_and_an_unknown_one_is_a_value_error() -> None:
    machine, _ = machine_of(
        {"message": "Hello, caller. What can I do?"}, reply("a", TEXT), reply("a", TEXT)
    )
    chat = machine.start()
    chat.send("one")
    chat.send("two")
    chat.heard(0, "Hello")
    chat.heard(1, "Your table")
    assert [message.text for message in chat.history if message.role == "assistant"] == [
        "Hello… [interrupted]", "Your table… [interrupted]", TEXT,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no turn 9"):
        chat.heard(9, "Your")
    with pytest.raises(TypeError, match="a text"):
        chat.heard(1, None)  # type: ignore[arg-type]


def test_what_was_heard_lasts_in_another_process_and_undo_takes_the_turn_back() -> None:
    machine, _ = machine_of(reply("a", TEXT), reply("a", "Fine. Else?"))
    chat = machine.start(greet=False)
    chat.send("a table")
    chat.heard(1, "Your table")
    assert machine.resume(chat.id).history[-1].text == "Your table… [interrupted]"
    copy = machine.take_in(machine.export(chat.id), "copy")
    assert machine.resume(copy).history[-1].interrupted
    chat.undo()
    assert chat.history == ()
    assert chat.send("a table").text == "Fine. Else?"


def test_the_end_of_a_conversation_may_be_interrupted_too() -> None:
    machine, _ = machine_of(reply("end", "Bye, and have a nice day."))
    chat = machine.start(greet=False)
    chat.send("bye")
    assert chat.ended
    chat.heard(1, "Bye")
    assert chat.history[-1].text == "Bye… [interrupted]"


def test_values_whose_read_back_was_interrupted_are_not_agreed_to_yet() -> None:
    states = {
        "ask": {"purpose": "How many?", "required_context_keys": ["guests"], "transitions": [
            {"target_state": "sure", "conditions": [{"requires_context_keys": ["guests"]}]}]},
        "sure": {"reply": "A table for {{ guests }}. Right?", "confirms": ["guests"], "transitions": [
            {"target_state": "end", "agrees": True, "description": "The user says yes"}]},
        "end": {"reply": "Booked."},
    }  # fmt: skip
    keys = {"properties": {"guests": {"type": "integer"}}}
    document = {"name": "table", "initial_state": "ask", "context_schema": keys, "states": states}
    llm = ScriptedLLM([reply("sure", "", guests=4), reply("end", ""), reply("end", "")])
    chat = Machine.from_dict(document, model=llm).start(greet=False)
    turn = chat.send("four")
    chat.heard(turn.number, "A table")
    turn = chat.send("yes")
    assert (turn.state, "A table for 4. Right?" in turn.text) == ("sure", True)
    assert chat.send("yes").text == "Booked."
