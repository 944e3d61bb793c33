"""A person takes over: messages are kept, a person speaks by name, and hands back. The same on
every store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llm_fsm import (
    AsyncMachine,
    ConversationConflict,
    ConversationEnded,
    Delivery,
    Machine,
    Message,
    observe,
    sink,
)
from llm_fsm.cli import transcript
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.session import events as ev
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Store
from machines import reply

HOLD: dict[str, Any] = {
    "kind": "wait",
    "wait_for": "colleague",
    "messages": "record",
    "reply": "A colleague will be with you soon.",
    "answer_schema": {
        "type": "object",
        "properties": {"settled": {"type": "boolean"}, "note": {"type": "string"}},
        "required": ["settled"],
    },
    "output": {"settled": "settled"},
    "timeout": 600,
    "on_timeout": "nobody",
    "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "settled"}, True]}}]},
        {"target_state": "talk", "priority": 200},
    ],
}
DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "talk",
    "patterns": ["silence"],
    "context_schema": {"properties": {"settled": {"type": "boolean", "x-source": "answer"}}},
    "states": {
        "talk": {
            "purpose": "How can I help you?",
            "transitions": [{"target_state": "human", "description": "The user wants a person"}],
        },
        "human": HOLD,
        "nobody": {"kind": "final", "reply": "Nobody is here today."},
        "bye": {"kind": "final", "reply": "Goodbye."},
    },
}
ASKS = reply("human", "Of course.")


class Desk:
    """A machine with a clock, and what its sink and its observer were told."""

    def __init__(self, store: Store, *replies: Any) -> None:
        self.now = 1_000.0
        self.model = ScriptedLLM([*replies])
        self.delivered: list[str] = []
        self.heard = threading.Event()
        self.machine = Machine.from_dict(
            DESK,
            model=self.model,
            store=store,
            clock=lambda: self.now,
            sinks=[sink(self.hear, name="crm")],
        )

    def hear(self, delivery: Delivery) -> None:
        if delivery.event["type"] == "UserSaid":
            self.delivered.append(delivery.event["text"])
            self.heard.set()

    def wait_for(self, text: str) -> None:
        """Wait until the sink was told what the user wrote."""
        while text not in self.delivered:
            assert self.heard.wait(30), f"{text} was not delivered"
            self.heard.clear()

    def begin(self, name: str = "c") -> Any:
        chat = self.machine.start(conversation_id=name, greet=False)
        chat.send("I want a person")
        return chat


@pytest.fixture
def desk(store: Store) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(*replies: Any) -> Desk:
        made.append(Desk(store, *replies))
        return made[-1]

    yield make
    for one in made:
        one.machine.close()


def test_what_a_user_writes_is_kept_and_answered_once_without_a_model(
    desk: Callable[..., Desk],
) -> None:
    chat = desk(ASKS).begin()
    assert chat.paused.messages == "record"
    first, second, third = (
        chat.send(text) for text in ("Hello?", "Are you there?", "It is about my bill.")
    )
    assert [first.text, second.text, third.text] == ["A colleague will be with you soon.", "", ""]
    assert [turn.usage.calls for turn in (first, second, third)] == [0, 0, 0]
    assert [turn.number for turn in (first, second, third)] == [2, 3, 4]
    assert {turn.state for turn in (first, second, third)} == {"human"}
    assert third.paused == chat.paused
    assert [message.text for message in chat.history if message.role == "user"] == [
        "I want a person", "Hello?", "Are you there?", "It is about my bill.",
    ]  # fmt: skip
    assert all(message.text for message in chat.history)


def test_a_person_speaks_by_name_and_hands_back_with_both_sides_in_the_prompt(
    desk: Callable[..., Desk],
) -> None:
    at = desk(ASKS, {"message": "Is there anything else?"})
    chat = at.begin()
    chat.send("Hello?")
    said = chat.say("Anna here. I have paid it back.", by="Anna", request_id="r1")
    assert said.text == "Anna here. I have paid it back."
    assert (
        chat.say("Anna here. I have paid it back.", by="Anna", request_id="r1").number
        == said.number
    )
    with pytest.raises(ConversationConflict, match="already used"):
        chat.say("Anna here. I have paid it back.", by="Ben", request_id="r1")
    assert chat.send("Thank you").text == ""
    back = chat.answer({"settled": False, "note": "paid"})
    assert (back.state, back.text, back.usage.calls) == ("talk", "Is there anything else?", 1)
    prompt = at.model.requests[-1].messages[-1].content
    for words in (
        '{"user":"Hello?"}',
        "Anna: Anna here. I have paid it back.",
        '{"user":"Thank you"}',
    ):
        assert words in prompt
    assert '<operator>"Anna"</operator>' in prompt
    assert '{"system":""}' not in prompt
    assert (
        Message(role="assistant", text="Anna here. I have paid it back.", turn=2, by="Anna")
        in chat.history
    )
    assert {message.by for message in chat.history} == {"", "Anna"}


def test_the_machine_says_nothing_where_a_person_has_spoken_first(
    desk: Callable[..., Desk],
) -> None:
    chat = desk(ASKS).begin()
    chat.say("Anna here.", by="Anna")
    assert chat.send("Hello!").text == ""


def test_sinks_and_observers_hear_each_message_at_once(desk: Callable[..., Desk]) -> None:
    at = desk(ASKS)
    chat = at.begin()
    seen: list[str] = []
    stop = observe(
        lambda _, event: seen.append(event.text) if isinstance(event, ev.UserSaid) else None
    )
    try:
        for text in ("Hello?", "Are you there?"):
            chat.send(text)
            assert seen[-1] == text
            at.wait_for(text)
    finally:
        stop()
    assert at.delivered == ["I want a person", "Hello?", "Are you there?"]


def test_silence_rests_and_the_time_out_of_the_state_runs(desk: Callable[..., Desk]) -> None:
    at = desk(ASKS)
    chat = at.begin()
    chat.send("Hello?")
    at.now += 400
    assert at.machine.run_due() == ()
    chat.send("Are you there?")
    at.now += 201
    (over,) = at.machine.run_due()
    assert (over.state, over.text, over.ended) == ("nobody", "Nobody is here today.", True)
    assert at.machine.paused() == ()
    with pytest.raises(ConversationEnded):
        chat.send("Hello?")


def test_what_waits_is_listed_until_it_is_answered(desk: Callable[..., Desk]) -> None:
    at = desk(ASKS, ASKS, ASKS)
    at.machine.start(conversation_id="talks", greet=False)
    chats = []
    for name in ("b", "a", "c"):
        at.now += 1
        chats.append(at.begin(name))
    at.now += 1
    chats[0].send("Hello?")
    waiting = at.machine.paused()
    assert [pause.conversation_id for pause in waiting] == ["a", "c", "b"]
    (first, *_) = waiting
    assert (first.kind, first.what, first.id, first.call) == (
        "wait",
        "colleague",
        chats[1].paused.id,
        None,
    )
    assert (first.state, first.definition, first.messages) == ("human", "desk", "record")
    assert at.machine.paused("approval") == ()
    assert [pause.conversation_id for pause in at.machine.paused("wait", limit=2)] == ["a", "c"]
    assert [pause.conversation_id for pause in at.machine.paused(after=waiting[1])] == ["b"]
    chats[2].say("Anna here.", by="Anna")
    assert {pause.conversation_id: pause.by for pause in at.machine.paused()} == {
        "a": "",
        "b": "",
        "c": "Anna",
    }
    chats[1].answer({"settled": True})
    assert [pause.conversation_id for pause in at.machine.paused()] == ["b", "c"]
    with pytest.raises(ValueError, match="kind= is one of wait, approval"):
        at.machine.paused("approvals")


def test_of_two_who_hand_back_one_wins_and_the_other_is_told(desk: Callable[..., Desk]) -> None:
    at = desk(ASKS)
    chat = at.begin()
    pause = at.machine.paused()[0].id
    other = at.machine.resume("c")
    assert chat.answer({"settled": True}, pause=pause).text == "Goodbye."
    with pytest.raises(
        ConversationConflict, match="was answered already; this answer was not used"
    ):
        other.answer({"settled": False}, pause=pause)


def test_another_process_goes_on_with_it(store: Store) -> None:
    one = Desk(store, ASKS)
    one.begin()
    other = Desk(store)
    chat = other.machine.resume("c")
    assert chat.send("Hello?").text == "A colleague will be with you soon."
    chat.say("Anna here.", by="Anna")
    assert chat.send("Hi").text == ""
    chat.undo()
    assert chat.history[-1].by == "Anna"
    assert [found.conversation_id for found in one.machine.paused()] == ["c"]
    one.machine.close()


def test_a_name_is_one_line(desk: Callable[..., Desk]) -> None:
    chat = desk(ASKS).begin()
    for name in ("An\nna", "x" * 101, 3):
        with pytest.raises(ValueError, match="by= is"):
            chat.say("Hello", by=name)
    assert chat.say("Hello", by=" Anna ").events[-1].by == "Anna"


def test_a_state_that_refuses_takes_no_message() -> None:
    document = {**DESK, "states": {**DESK["states"], "human": {**HOLD, "messages": "refuse"}}}
    machine = Machine.from_dict(document, model=ScriptedLLM([ASKS]))
    chat = machine.start(greet=False)
    chat.send("I want a person")
    with pytest.raises(ConversationConflict, match="takes no message until it is answered"):
        chat.send("Hello?")


@pytest.mark.anyio
async def test_a_conversation_that_a_person_took_over_is_replayed_without_a_difference() -> None:
    model = ScriptedLLM([ASKS, {"message": "Is there anything else?"}])
    machine = AsyncMachine.from_dict(DESK, model=model)
    chat = await machine.start(conversation_id="c", greet=False)
    for text in ("I want a person", "Hello?"):
        await chat.send(text)
    await chat.say("Anna here.", by="Anna")
    await chat.send("Hi")
    await chat.answer({"settled": False})
    records = [parse(text) for text in await machine.store.records("c")]
    shown = [
        transcript.plain(turn) for turn in transcript.turns(records, machine.program.is_secret)
    ]
    assert "Anna: Anna here." in shown[3]
    found = await replay_turns(machine.program, recorded_tools(machine.program), "c", records)
    assert (found.turns, found.divergence) == (6, None)


def held(*replies: Any) -> tuple[Machine, Any, list[float], ScriptedLLM]:
    """A conversation with a person, its clock, and its model."""
    clock = [1_000.0]
    schema = {
        "settled": {"type": "boolean", "x-source": "answer"},
        "order": {"type": "string", "x-said": "quote"},
        "phone": {"type": "string", "x-said": "digits"},
    }
    document = {**DESK, "context_schema": {"properties": schema}}
    model = ScriptedLLM([ASKS, *replies])
    machine = Machine.from_dict(document, model=model, clock=lambda: clock[0])
    chat = machine.start(conversation_id="c", greet=False)
    chat.send("I want a person")
    return machine, chat, clock, model


@pytest.mark.parametrize("speaks", ["user", "person", "both"])
def test_the_time_of_a_hold_is_the_silence_of_both_sides_once_the_person_has_spoken(
    speaks: str,
) -> None:
    machine, chat, clock, _ = held(reply("talk", "Is there anything else?"))
    chat.say("Anna here.", by="Anna")
    for _ in range(5):
        clock[0] += 500
        assert machine.run_due() == ()
        if speaks != "person":
            chat.send("Hm.")
        if speaks != "user":
            chat.say("One moment.", by="Anna")
    clock[0] += 599
    assert machine.run_due() == ()
    clock[0] += 1
    (over,) = machine.run_due()
    assert (over.state, over.ended, machine.paused()) == ("talk", False, ())


def test_nobody_who_speaks_only_as_the_machine_ends_the_wait_for_a_person() -> None:
    machine, chat, clock, _ = held()
    clock[0] += 400
    chat.say("You are number two in the line.")
    clock[0] += 201
    (over,) = machine.run_due()
    assert (over.state, over.ended) == ("nobody", True)


@pytest.mark.parametrize(
    ("human", "state"),
    [
        ({"transitions": [{"target_state": "bye"}]}, "talk"),
        ({"transitions": [{"target_state": "work"}, {"target_state": "bye"}]}, "talk"),
        ({"transitions": [{"target_state": "bye"}], "on_timeout": "more"}, "more"),
        ({"transitions": [{"target_state": "bye"}, {"target_state": "more"}]}, "more"),
    ],
)
def test_silence_hands_back_to_a_state_that_talks_and_never_to_an_end_or_an_act(
    human: dict[str, Any], state: str
) -> None:
    clock = [1_000.0]
    states = {
        **DESK["states"],
        "human": {**HOLD, "output": {}, **human},
        "more": {"purpose": "What else?", "transitions": [{"target_state": "bye"}]},
        "work": {"kind": "task", "execute": "work", "transitions": [{"target_state": "bye"}]},
    }
    model = ScriptedLLM([ASKS, {"message": "What else?"}])
    worked: list[str] = []

    def work(_: Any) -> None:
        worked.append("work")

    machine = Machine.from_dict(
        {**DESK, "states": states}, model=model, clock=lambda: clock[0], functions=[work]
    )
    chat = machine.start(greet=False)
    chat.send("I want a person")
    chat.say("Anna here.", by="Anna")
    clock[0] += 601
    (over,) = machine.run_due()
    assert (over.state, over.ended, worked) == (state, False, [])


@pytest.mark.parametrize("by_answer", [True, False])
def test_what_the_user_told_the_person_is_read_once_when_they_hand_back(by_answer: bool) -> None:
    update = {"order": "K-77", "phone": "030 1234", "_quotes": {"order": "my order is K-77"}}
    read = reply("talk", "I see. What else?", **update)
    machine, chat, clock, model = held(read, reply("talk", "All right."))
    chat.send("Hello, my order is K-77.")
    chat.say("Anna here. And your number, is it 555?", by="Anna")
    chat.send("No, it is 030 1234.")
    if by_answer:
        back = chat.answer({"settled": False})
    else:
        clock[0] += 600
        (back,) = machine.run_due()
    assert (back.state, back.text, back.usage.calls) == ("talk", "I see. What else?", 1)
    assert (chat.context["order"], chat.context["phone"]) == ("K-77", "030 1234")
    user_input = model.requests[-1].messages[-1].content.partition("<user_input>")[2]
    assert "K-77" in user_input
    assert "030 1234" in user_input
    assert "Anna" not in user_input
    chat.send("Thanks")
    assert "K-77" not in model.requests[-1].messages[-1].content.partition("<user_input>")[2]
    assert [message.text for message in chat.history if message.role == "user"] == [
        "I want a person", "Hello, my order is K-77.", "No, it is 030 1234.", "Thanks",
    ]  # fmt: skip


def test_what_the_person_said_is_no_word_of_the_user_at_the_hand_back() -> None:
    read = reply("talk", "What else?", phone="555")
    _, chat, _, _ = held(read)
    chat.send("Hello?")
    chat.say("Is your number 555?", by="Anna")
    chat.answer({"settled": False})
    assert "phone" not in chat.context
