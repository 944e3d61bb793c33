"""Limits for a conversation, a user and a day: what is counted, and what happens at each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from llm_fsm import AsyncMachine, Delivery, sink
from llm_fsm import events as ev
from llm_fsm._json import of_kind
from llm_fsm.definition.models import Definition
from llm_fsm.errors import StoreError
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.records.transfer import fork
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Commit, Store
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM
from machines import reply

pytestmark = pytest.mark.anyio
NOON = 1_795_000_000.0 - 1_795_000_000.0 % 86_400 + 43_200
HOUR = 3600.0
TALK: dict[str, Any] = {
    "name": "talk",
    "initial_state": "talk",
    "states": {
        "talk": {
            "reply": "What else?",
            "transitions": [{"target_state": "bye", "description": "Nothing else"}],
        },
        "bye": {"kind": "final", "reply": "Goodbye."},
    },
}


class Priced:
    """A model whose every call reads 40 tokens, writes 10 and costs 5 cents."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.calls += 1
        text = reply("talk", f"Answer {self.calls}.")
        return ModelReply(text=text, model="priced", input_tokens=40, output_tokens=10, cost=0.05)


def limited(**per: Any) -> dict[str, Any]:
    return {**TALK, "limits": {"per": per}}


class Desk:
    """A machine with a clock and a model whose calls are counted."""

    def __init__(self, store: Store, model: Priced | None = None, **per: Any) -> None:
        self.now = NOON
        self.model = model or Priced()
        self.machine = AsyncMachine.from_dict(
            limited(**per), model=self.model, store=store, clock=lambda: self.now
        )

    async def talk(self, name: str, messages: int, **labels: str) -> list[str]:
        """The outcomes of messages, a second apart."""
        chat = await self.machine.open(name, metadata=labels)
        outcomes = []
        for _ in range(messages):
            self.now += 1
            outcomes.append((await chat.send("Go on")).outcome)
        return outcomes


Opened = Callable[..., Desk]


@pytest.fixture
async def opened(store: Store) -> AsyncIterator[Opened]:
    """Opens desks over one store of each kind."""
    made: list[Desk] = []

    def make(model: Priced | None = None, **per: Any) -> Desk:
        made.append(Desk(store, model, **per))
        return made[-1]

    yield make
    for one in made:
        await one.machine.close()


@pytest.mark.parametrize(
    ("figure", "most"),
    [("turns", 3), ("llm_calls", 3), ("tokens", 150), ("tokens", 101), ("money", 0.15)],
)
@pytest.mark.parametrize("scope", ["conversation", "user", "day"])
async def test_no_model_is_called_from_the_limit_on(
    opened: Opened, scope: str, figure: str, most: float
) -> None:
    by = {"by": "metadata.user"} if scope == "user" else {}
    desk = opened(**{scope: {figure: most, **by}})
    assert await desk.talk("a", 5, user="ada") == ["", "", "", "limited", "limited"]
    assert desk.model.calls == 3


async def test_a_limit_of_a_conversation_is_its_own(opened: Opened) -> None:
    desk = opened(conversation={"turns": 2})
    assert await desk.talk("a", 3, user="ada") == ["", "", "limited"]
    assert await desk.talk("b", 3, user="ada") == ["", "", "limited"]
    desk.now += 24 * HOUR
    assert await desk.talk("a", 1) == ["limited"]


async def test_a_limit_of_a_user_is_for_all_their_conversations(opened: Opened) -> None:
    desk = opened(user={"by": "metadata.user", "turns": 3})
    assert await desk.talk("a", 2, user="ada") == ["", ""]
    assert await desk.talk("b", 2, user="ada") == ["", "limited"]
    assert await desk.talk("c", 4, user="bob") == ["", "", "", "limited"]
    assert await desk.talk("d", 4) == ["", "", "", ""]


async def test_a_limit_of_a_day_is_for_everybody(store: Store, opened: Opened) -> None:
    desk = opened(day={"turns": 3})
    assert await desk.talk("a", 2, user="ada") == ["", ""]
    assert await desk.talk("b", 2) == ["", "limited"]
    other = AsyncMachine.from_dict(
        {**limited(day={"turns": 3}), "name": "other"}, model=Priced(), store=store
    )
    assert (await (await other.start()).send("Go on")).outcome == ""


async def test_the_next_day_goes_on_by_itself(opened: Opened) -> None:
    desk = opened(user={"by": "metadata.user", "turns": 2}, day={"llm_calls": 3})
    assert await desk.talk("a", 3, user="ada") == ["", "", "limited"]
    desk.now += 11 * HOUR
    assert await desk.talk("a", 1, user="ada") == ["limited"]
    desk.now += 1 * HOUR
    assert await desk.talk("a", 3, user="ada") == ["", "", "limited"]
    # A process that begins now counts the same.
    again = opened(day={"llm_calls": 3})
    again.now = desk.now
    assert await again.talk("b", 2) == ["", "limited"]


async def test_a_day_begins_at_midnight_in_the_timezone() -> None:
    now = [NOON]
    document = {**limited(day={"turns": 1}), "timezone": "America/Los_Angeles"}
    machine = AsyncMachine.from_dict(document, model=Priced(), clock=lambda: now[0])
    chat = await machine.start()
    assert (await chat.send("Go on")).outcome == ""
    now[0] += 19 * HOUR  # past midnight in London, and not in Los Angeles
    assert (await chat.send("Go on")).outcome == "limited"
    now[0] += 2 * HOUR
    assert (await chat.send("Go on")).outcome == ""


async def test_two_machines_over_one_store_count_together(opened: Opened) -> None:
    model = Priced()
    desks = [opened(model, day={"turns": 4}) for _ in range(2)]
    outcomes = []
    for number in range(6):
        desks[number % 2].now = NOON + number
        outcomes += await desks[number % 2].talk(f"c{number}", 1)
    assert outcomes == ["", "", "", "", "limited", "limited"]
    assert model.calls == 4


async def test_one_conversation_on_two_machines_is_counted_once_each(opened: Opened) -> None:
    desks = [opened(conversation={"turns": 4}, day={"turns": 100}) for _ in range(2)]
    outcomes = []
    for number in range(6):
        desks[number % 2].now = NOON + number
        outcomes += await desks[number % 2].talk("same", 1)
    assert outcomes == ["", "", "", "", "limited", "limited"]


async def test_only_what_is_new_is_read_again() -> None:
    read = []

    class Counting(MemoryStore):
        async def records(self, conversation_id: str, *args: Any, **options: Any) -> Any:
            found = await super().records(conversation_id, *args, **options)
            read.extend(found)
            return found

    desk = Desk(Counting(), conversation={"turns": 500}, day={"turns": 500})
    await desk.talk("a", 50)
    # Both sums read each record once, and the last one has no turn behind it.
    assert len(read) == 2 * 50


async def test_undo_takes_no_cost_back(opened: Opened) -> None:
    desk = opened(conversation={"turns": 2})
    await desk.talk("a", 2)
    chat = await desk.machine.resume("a")
    await chat.undo()
    await chat.undo()
    assert await desk.talk("a", 1) == ["limited"]


async def test_a_fork_has_used_what_its_original_had(store: Store, opened: Opened) -> None:
    desk = opened(conversation={"turns": 2})
    await desk.talk("a", 1)
    await fork(store, "a", "b")
    assert await desk.talk("b", 2) == ["", "limited"]


async def test_a_conversation_that_begins_anew_has_used_nothing(opened: Opened) -> None:
    desk = opened(conversation={"turns": 1}, day={"turns": 3})
    assert await desk.talk("a", 2) == ["", "limited"]
    await (await desk.machine.resume("a")).end()
    await desk.machine.open("a", anew=True)
    assert await desk.talk("a", 2) == ["", "limited"]


async def test_an_id_that_was_deleted_is_counted_anew(opened: Opened) -> None:
    desk = opened(conversation={"turns": 1})
    assert await desk.talk("a", 2) == ["", "limited"]
    await desk.machine.delete("a")
    desk.now += 1
    assert await desk.talk("a", 2) == ["", "limited"]


async def test_what_was_deleted_stays_in_the_sum_of_this_process(opened: Opened) -> None:
    desk = opened(day={"turns": 3})
    assert await desk.talk("a", 2) == ["", ""]
    assert await desk.talk("b", 1) == [""]
    await desk.machine.delete("a")
    desk.now += 1
    assert await desk.talk("a", 1) == ["limited"]


WORDS = {
    "conversation": {"turns": 1, "on_limit": "Please begin a new talk."},
    "user": {"by": "metadata.user", "turns": 2, "on_limit": "Please write again tomorrow."},
}


async def test_the_text_of_the_limit_is_read() -> None:
    desk = Desk(MemoryStore(), **WORDS)
    chat = await desk.machine.start(metadata={"user": "ada"})
    assert (await chat.send("Go on")).text == "Answer 1.\n\nWhat else?"
    turn = await chat.send("Go on")
    assert (turn.text, turn.state, turn.ended) == ("Please begin a new talk.", "talk", False)
    assert turn.usage.calls == 0
    assert of_kind(turn.events, ev.LimitReached) == [
        ev.LimitReached(limit="turns", value=1, per="conversation", spent=1)
    ]
    # The limit of a user is the wider one: a new talk would not help.
    assert (await chat.send("Go on")).text == "Please write again tomorrow."


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"model": {"on_failure": "The line is busy."}}, "The line is busy."),
        ({}, "Sorry, I cannot continue with this."),
        ({"language": "de"}, "Leider kann ich hier nicht weitermachen."),
    ],
)
async def test_without_a_text_the_definition_apologises(more: dict[str, Any], text: str) -> None:
    document = {**limited(day={"turns": 1}), **more}
    chat = await AsyncMachine.from_dict(document, model=Priced()).start()
    await chat.send("Go on")
    assert (await chat.send("Go on")).text == text


async def test_a_conversation_that_begins_at_the_limit_says_so() -> None:
    asks = {**TALK["states"], "talk": {"purpose": "Ask what is wanted"}}
    asks["talk"]["transitions"] = TALK["states"]["talk"]["transitions"]
    day = {"llm_calls": 1, "on_limit": "Please write again tomorrow."}
    document = {**limited(day=day), "states": asks}
    machine = AsyncMachine.from_dict(document, model=Priced())
    assert (await machine.start()).greeting == "Answer 1."
    assert (await machine.start()).greeting == "Please write again tomorrow."


SIZES: dict[str, Any] = {
    "name": "sizes",
    "initial_state": "size",
    "limits": {"per": {"day": {"llm_calls": 1, "on_limit": "Enough for today."}}},
    "context_schema": {
        "type": "object",
        "properties": {"size": {"enum": ["small", "large"], "x-fast": True}},
    },
    "states": {
        "size": {
            "reply": "Small or large?",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "known", "conditions": [{"requires_context_keys": ["size"]}]}
            ],
        },
        "known": {"reply": "Noted.", "transitions": [{"target_state": "size"}]},
    },
}


async def test_turns_that_need_no_model_go_on() -> None:
    machine = AsyncMachine.from_dict(SIZES, model=ScriptedLLM([reply("size", "Pardon?")]))
    await (await machine.start()).send("Hm")
    chat = await machine.start()
    turn = await chat.send("large")
    assert (turn.text, turn.state, turn.outcome) == ("Noted.", "known", "")
    assert (await chat.send("Hm")).text == "Enough for today."
    chat = await machine.start()
    assert (await chat.send("Hm")).text == "Enough for today."
    assert (await chat.send(chat.choices[0])).text == "Noted."


async def test_a_message_at_the_limit_is_no_miss() -> None:
    document = {**SIZES, "patterns": ["cannot_handle"]}
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([reply("size", "Pardon?")]))
    chat = await machine.start()
    for _ in range(6):
        turn = await chat.send("Hm")
    assert (turn.text, turn.ended) == ("Enough for today.", False)
    assert of_kind(turn.events, ev.Missed) == []


async def test_the_same_request_is_answered_once_at_the_limit(opened: Opened) -> None:
    desk = opened(day={"turns": 1})
    chat = await desk.machine.start()
    await chat.send("Go on", request_id="m1")
    first = await chat.send("And now?", request_id="m2")
    desk.now += 24 * HOUR
    again = await chat.send("And now?", request_id="m2")
    assert (first.outcome, again.outcome, again.number) == ("limited", "limited", first.number)
    assert (await chat.send("And now?", request_id="m3")).text.startswith("Answer 2.")
    assert [message.text for message in await chat.history()][-4:] == [
        "And now?",
        first.text,
        "And now?",
        "Answer 2.\n\nWhat else?",
    ]


async def test_a_sink_is_told() -> None:
    told: list[Delivery] = []
    machine = AsyncMachine.from_dict(
        limited(day={"turns": 1}),
        model=Priced(),
        sinks=[sink(told.append, events=["LimitReached"])],
    )
    chat = await machine.start()
    await chat.send("Go on")
    await chat.send("Go on")
    await machine.close()
    [delivery] = told
    assert delivery.event == {
        "type": "LimitReached",
        "limit": "turns",
        "value": 1,
        "per": "day",
        "spent": 1,
    }


WORKS: dict[str, Any] = {
    "name": "works",
    "initial_state": "write",
    "limits": {"per": {"day": {"llm_calls": 2}}},
    "states": {
        "write": {"kind": "task", "purpose": "Write", "transitions": [{"target_state": "done"}]},
        "done": {"kind": "final"},
    },
}


async def test_a_run_without_a_user_ends_as_limited() -> None:
    machine = AsyncMachine.from_dict(WORKS, model=Priced())
    outcomes = [(await machine.run()).outcome for _ in range(3)]
    assert outcomes == ["passed", "passed", "limited"]


async def test_a_function_is_not_run_at_the_limit() -> None:
    ran: list[str] = []
    document = json.loads(json.dumps(WORKS))
    document["states"]["write"]["execute"] = "write"

    async def write(task: Any) -> str:
        ran.append("once")
        await task.llm.chat([{"role": "user", "content": "Write"}])
        return "written"

    machine = AsyncMachine.from_dict(document, model=Priced(), functions=[write])
    outcomes = [(await machine.run()).outcome for _ in range(3)]
    assert outcomes == ["passed", "passed", "limited"]
    assert len(ran) == 2


class Full(MemoryStore):
    """A store that takes no turn while it is full."""

    full = False

    async def save(self, commit: Commit) -> None:
        if self.full:
            raise StoreError("the disk is full")
        await super().save(commit)


async def test_a_turn_that_began_before_a_crash_is_finished_at_the_limit() -> None:
    """A step of it is on record, and may have acted."""
    store = Full()

    class Filling(Priced):
        async def complete(self, request: LLMRequest) -> ModelReply:
            store.full = self.calls == 0
            return await super().complete(request)

    document = {**WORKS, "limits": {"per": {"day": {"llm_calls": 1}}}}
    machine = AsyncMachine.from_dict(document, model=Filling(), store=store)
    with pytest.raises(StoreError, match="the disk is full"):
        await machine.run(conversation_id="a")
    store.full = False
    assert (await machine.run(conversation_id="b")).outcome == "passed"
    assert (await machine.run(conversation_id="c")).outcome == "limited"
    assert (await machine.run(conversation_id="a")).outcome == "passed"


async def test_the_text_of_a_limit_is_translated() -> None:
    day = {"turns": 1, "on_limit": "Please write again tomorrow."}
    document = {
        **limited(day=day),
        "languages": ["de"],
        "texts": {"de": {"/limits/per/day/on_limit": "Schreiben Sie bitte morgen wieder."}},
    }
    machine = AsyncMachine.from_dict(document, model=Priced())
    await (await machine.start()).send("Go on")
    for language, text in (("en", day["on_limit"]), ("de", "Schreiben Sie bitte morgen wieder.")):
        chat = await machine.start(language=language)
        assert (await chat.send("Go on")).text == text


async def test_turns_at_the_same_time_are_counted_before_the_next(store: Store) -> None:
    """Those under way may pass the limit; none that begins later does."""
    machine = AsyncMachine.from_dict(limited(day={"turns": 3}), model=Priced(), store=store)
    chats = [await machine.start() for _ in range(6)]
    first = await asyncio.gather(*(chat.send("Go on") for chat in chats))
    assert {turn.outcome for turn in first} <= {"", "limited"}
    assert [turn.outcome for turn in first].count("") >= 3
    later = await asyncio.gather(*(chat.send("Go on") for chat in chats))
    assert {turn.outcome for turn in later} == {"limited"}
    await machine.close()


async def test_a_limited_turn_is_replayed() -> None:
    desk = Desk(MemoryStore(), day={"turns": 1})
    await desk.talk("a", 3)
    records = await desk.machine.store.records("a")
    program = desk.machine.program
    found = await replay_turns(program, recorded_tools(program), "a", list(map(parse, records)))
    assert (found.turns, found.divergence) == (4, None)


async def test_a_limit_of_money_warns_where_no_cost_is_reported() -> None:
    text = reply("talk", "Yes?")

    class Free:
        async def complete(self, request: LLMRequest) -> ModelReply:
            return ModelReply(text=text, model="free", input_tokens=1, output_tokens=1)

    chat = await AsyncMachine.from_dict(limited(day={"money": 1}), model=Free()).start()
    with pytest.warns(RuntimeWarning, match="^limits of money stop nothing: model 'free'"):
        await chat.send("Go on")


def test_a_definition_without_such_limits_keeps_its_identity() -> None:
    assert Definition.model_validate(TALK).document == {**TALK}
