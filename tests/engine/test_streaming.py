"""A streamed turn: the same turn as without, with its words as early as they may be shown."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm import AsyncMachine, HandlerError, Machine, ModelError, Veto, create_handler
from llm_fsm.engine.conversation import AsyncConversation, Turn
from llm_fsm.engine.observers import observe
from llm_fsm.llm.fallbacks import Fallbacks
from llm_fsm.llm.openai.completion import ReplySettings
from llm_fsm.llm.openai.stream import Chunks, EventLines
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.testing import calls
from llm_fsm.testing.server.server import HttpReply, serve_scripted
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.task_context import Workbench
from machines import reply

pytestmark = pytest.mark.anyio

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "age": {"type": "integer", "minimum": 0},
            "vip": {"type": "boolean", "x-source": "host"},
        }
    },
    "states": {
        "ask": {
            "purpose": "Ask the age",
            "required_context_keys": ["age"],
            "transitions": [
                {"target_state": "adult", "conditions": [{"logic": {">=": [{"var": "age"}, 18]}}]},
                {"target_state": "fixed", "description": "The user is in a hurry"},
                {"target_state": "lost", "description": "The user is lost"},
                {
                    "target_state": "vip",
                    "auto": True,
                    "conditions": [{"requires_context_keys": ["vip"]}],
                },
            ],
        },
        "adult": {"purpose": "Serve", "transitions": [{"target_state": "ask"}]},
        "fixed": {"purpose": "Hurry", "reply": "Quick!", "transitions": [{"target_state": "done"}]},
        "lost": {
            "kind": "decide",
            "transitions": [{"target_state": "done", "conditions": [{"logic": False}]}],
        },
        "vip": {"purpose": "Serve well", "transitions": [{"target_state": "ask"}]},
        "done": {"purpose": "Say goodbye", "reply": "Bye."},
    },
}


class Pieces:
    """A model that gives its replies in these pieces; an exception among them is raised there."""

    def __init__(self, *replies: Sequence[str | Exception]) -> None:
        self._replies = list(replies)
        self.asked = 0

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.asked += 1
        return ModelReply(
            text="".join(piece for piece in self._replies.pop(0) if isinstance(piece, str))
        )

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        self.asked += 1
        reply = self._replies.pop(0)
        for piece in reply:
            if isinstance(piece, Exception):
                raise piece
            yield piece
            await asyncio.sleep(0)
        yield ModelReply(text="".join(piece for piece in reply if isinstance(piece, str)))


async def streamed(
    model: Any,
    said: str = "m",
    document: dict[str, Any] = DESK,
    start: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Turn, list[ev.Event]]:
    async with AsyncMachine.from_dict(document, model=model, store="memory", **options) as machine:
        chat = await machine.start(greet=False, **start or {})
        stream = chat.stream(said)
        events = [event async for event in stream]
        assert stream.turn is not None
        return stream.turn, events


async def plain(model: Any, said: str = "m", **options: Any) -> Turn:
    async with AsyncMachine.from_dict(DESK, model=model, store="memory", **options) as machine:
        return await (await machine.start(greet=False)).send(said)


def shown(events: Sequence[ev.Event]) -> list[str]:
    """What a screen has shown: one text after each delta."""
    screens = [""]
    for event in events:
        if isinstance(event, ev.MessageDelta):
            screens.append(event.text if event.restart else screens[-1] + event.text)
    return screens


def before_the_reply(events: Sequence[ev.Event]) -> str:
    """What had been shown when the first reply was whole."""
    end = next(n for n, event in enumerate(events) if isinstance(event, ev.ModelReplied))
    return shown(events[:end])[-1]


REPLIES = st.lists(
    st.sampled_from(
        [
            reply("adult", "Welcome in.", age=30),
            reply("adult", "Not yet.", age=7),
            reply("ask", "How old?", age=-1),
            reply("fixed", "All right."),
            reply("lost", "Let me see."),
            reply("nowhere", "Gone."),
            reply("ask", "One") + reply("ask", "Two"),
            f"```json\n{reply('ask', 'Fenced')}\n```",
            f"Sure: {reply('ask', 'Prose')}",
            reply("ask", "Cut off")[:-8],
            '{"message": "First", "transition": {"target_state": "ask"}}',
            "no JSON at all",
            "",
        ]
    ),
    min_size=3,
    max_size=3,
)


@given(REPLIES)
def test_a_streamed_turn_is_the_turn_without_streaming(replies: list[str]) -> None:
    with Machine.from_dict(DESK, model=ScriptedLLM(replies)) as machine:
        whole = machine.start(greet=False).send("m")
    with Machine.from_dict(DESK, model=ScriptedLLM(replies)) as machine:
        stream = machine.start(greet=False).stream("m")
        events = list(stream)
        assert stream.turn is not None

    def facts(happened: Sequence[ev.Event]) -> list[ev.Event]:
        return [event for event in happened if not isinstance(event, ev.UserSaid | ev.MessageDelta)]

    assert facts(stream.turn.events) == facts(whole.events) == facts(events)
    assert (stream.turn.text, stream.turn.state, stream.turn.usage) == (
        whole.text,
        whole.state,
        whole.usage,
    )
    assert shown(events)[-1] == whole.text
    assert not any("{" in screen or '"' in screen for screen in shown(events))


async def test_words_are_shown_before_the_reply_is_whole() -> None:
    _, events = await streamed(ScriptedLLM([reply("adult", "Welcome in, come in.", age=30)]))
    assert before_the_reply(events) == "Welcome in, come in."


async def test_a_greeting_is_heard_while_it_arrives() -> None:
    events: list[ev.Event] = []
    model = ScriptedLLM([f"```json\n{reply('ask', 'Good morning!')}\n```"])
    async with AsyncMachine.from_dict(DESK, model=model, store="memory") as machine:
        chat = await machine.start(on_event=lambda _, event: events.append(event))
    assert chat.greeting == shown(events)[-1] == "Good morning!"
    assert before_the_reply(events) == "Good morning!"


def test_a_greeting_is_heard_without_asyncio() -> None:
    events: list[ev.Event] = []
    with Machine.from_dict(DESK, model=ScriptedLLM([reply("ask", "Hello!")])) as machine:
        chat = machine.start(on_event=lambda _, event: events.append(event))
    assert chat.greeting == before_the_reply(events) == "Hello!"


async def test_nothing_is_kept_of_a_greeting_whose_hearer_raises() -> None:
    def gone(_: str, event: ev.Event) -> None:
        if isinstance(event, ev.MessageDelta):
            raise BrokenPipeError("the reader has gone")

    model = ScriptedLLM([reply("ask", "Hello!"), reply("ask", "Hello again!")])
    async with AsyncMachine.from_dict(DESK, model=model, store="memory") as machine:
        with pytest.raises(BrokenPipeError, match="the reader has gone"):
            await machine.start(conversation_id="c", on_event=gone)
        assert await machine.conversations() == ()
        assert (await machine.start(conversation_id="c")).greeting == "Hello again!"


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_hearer_raises_while_a_function_works_is_no_failure_of_that(
    is_async: bool,
) -> None:
    attempts = []

    def count(ctx: Workbench) -> int:
        attempts.append(ctx.attempt)
        ctx.emit("half done")
        return 1

    async def counted(ctx: Workbench) -> int:
        return count(ctx)

    def gone(_: str, event: ev.Event) -> None:
        if isinstance(event, ev.Progressed):
            raise BrokenPipeError("the reader has gone")

    function = counted if is_async else count
    work = {"kind": "task", "execute": function.__name__, "transitions": [{"target_state": "end"}]}
    desk = {
        "name": "counter",
        "initial_state": "work",
        "states": {"work": work, "end": {"reply": "Done."}},
    }
    async with AsyncMachine.from_dict(
        desk, model=ScriptedLLM([]), functions=[function], store="memory"
    ) as machine:
        with pytest.raises(BrokenPipeError, match="the reader has gone"):
            await machine.start(on_event=gone)
        assert (attempts, await machine.conversations()) == ([1], ())


def test_a_greeting_is_heard_by_no_async_function() -> None:
    class Ear:
        async def __call__(self, conversation_id: str, event: ev.Event) -> None: ...

    async def told(conversation_id: str, event: ev.Event) -> None: ...

    with Machine.from_dict(DESK, model=ScriptedLLM([reply("ask", "Hello!")])) as machine:
        for hear in (told, Ear()):
            with pytest.raises(TypeError, match="is async, and nobody would await it"):
                machine.start(on_event=hear)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="told is async"):
            observe(told)  # type: ignore[arg-type]
        assert machine.conversations() == ()


async def test_a_refused_move_shows_no_word() -> None:
    turn, events = await streamed(
        ScriptedLLM([reply("adult", "Welcome!", age=7), reply("ask", "Too young.")])
    )
    assert turn.text == "Too young."
    assert not any("W" in screen for screen in shown(events))


async def test_words_that_come_before_the_move_are_held_back() -> None:
    text = '{"message": "Welcome!", "transition": {"target_state": "ask"}}'
    turn, events = await streamed(ScriptedLLM([text]))
    assert turn.text == "Welcome!"
    assert before_the_reply(events) == ""


async def test_a_fixed_reply_follows_the_words() -> None:
    turn, events = await streamed(ScriptedLLM([reply("fixed", "All right.")]))
    assert turn.text == "All right.\n\nQuick!"
    assert before_the_reply(events) == "All right."
    assert not any(event.restart for event in events if isinstance(event, ev.MessageDelta))


@pytest.mark.parametrize(("target", "follows"), [("ask", ""), ("done", "\n\nBye.")])
async def test_words_that_leave_a_fixed_reply_are_heard_at_once(target: str, follows: str) -> None:
    hurry = {
        **DESK["states"]["fixed"],
        "transitions": [{"target_state": name} for name in ("ask", "done")],
    }
    document = {**DESK, "states": {**DESK["states"], "fixed": hurry}}
    turn, events = await streamed(
        ScriptedLLM([reply(target, "Take your time.")]), document=document, start={"state": "fixed"}
    )
    assert turn.text == f"Take your time.{follows}"
    assert before_the_reply(events) == "Take your time."


FORM: dict[str, Any] = {
    "name": "form",
    "initial_state": "kind",
    "patterns": [
        "correct",
        "cancel",
        "digress",
        "clarify",
        "skip",
        "restart",
        "handover",
        "cannot_handle",
    ],
    "context_schema": {
        "properties": {"kind": {"enum": ["short", "long"]}, "days": {"type": "integer"}}
    },
    "states": {
        "kind": {
            "purpose": "Which kind?",
            "required_context_keys": ["kind"],
            "transitions": [
                {
                    "target_state": "days",
                    "conditions": [{"logic": {"==": [{"var": "kind"}, "long"]}}],
                },
                {
                    "target_state": "end",
                    "conditions": [{"logic": {"==": [{"var": "kind"}, "short"]}}],
                },
            ],
        },
        "days": {
            "purpose": "How many days?",
            "required_context_keys": ["days"],
            "transitions": [
                {"target_state": "name", "conditions": [{"requires_context_keys": ["days"]}]}
            ],
        },
        "name": {
            "purpose": "Whose name?",
            "transitions": [{"target_state": "end"}, {"target_state": "days"}],
        },
        "end": {"purpose": "Say goodbye", "reply": "Bye."},
    },
}
ON_THE_WAY = (reply("days", "How many days?", kind="long"), reply("name", "Whose name?", days=3))


async def on_the_way(*replies: str) -> tuple[Turn, list[ev.Event]]:
    """The third turn of the form, streamed."""
    async with AsyncMachine.from_dict(FORM, model=ScriptedLLM([*ON_THE_WAY, *replies])) as machine:
        chat = await machine.start(greet=False)
        for said in ("long", "3"):
            await chat.send(said)
        stream = chat.stream("m")
        events = [event async for event in stream]
        assert stream.turn is not None
        return stream.turn, events


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (reply("digress", "I stop here."), "name"),
        (reply("clarify", "I stop here."), "name"),
        (reply("restart", "I stop here."), "kind"),
        (reply("handover", "I stop here."), "name"),
        (reply("cannot_handle", "I stop here."), "name"),
        (reply("correct", "I stop here.", days=4), "name"),
        (reply("name", "I stop here.", days=4), "name"),
        (reply("end", "I stop here."), "end"),
    ],
)
async def test_words_of_repairs_are_heard_while_they_arrive(answer: str, state: str) -> None:
    turn, events = await on_the_way(answer)
    assert turn.state == state
    assert before_the_reply(events) == "I stop here."
    assert shown(events)[-1] == turn.text
    assert not any(event.restart for event in events if isinstance(event, ev.MessageDelta))


@pytest.mark.parametrize(
    "answers",
    [
        (reply("repeat", "Not mine."), reply("name", "Whose name?")),
        (reply("correct", "I have changed that.", days="many"),) * 2,
        (reply("name", "And the name?", kind="short"),),
        (reply("end", "I stop here.", kind="short"),),
        (reply("end", "I stop here.", days=4), reply("name", "Whose name?")),
        (reply("cancel", "I stop here."),),
        (reply("correct", "Changed. And the name?", kind="short"),),
        (reply("kind", "Gone.", kind="short"), reply("end", "Good.")),
    ],
)
async def test_words_that_a_repair_leaves_out_are_never_heard(answers: tuple[str, ...]) -> None:
    turn, events = await on_the_way(*answers)
    assert shown(events)[-1] == turn.text
    assert not any(event.restart for event in events if isinstance(event, ev.MessageDelta))


async def test_words_beside_an_answer_are_heard_without_the_question_that_it_answers() -> None:
    replies = [ON_THE_WAY[0], reply("digress", "How nice!", "How many days?", days=3)]
    async with AsyncMachine.from_dict(FORM, model=ScriptedLLM(replies)) as machine:
        chat = await machine.start(greet=False)
        await chat.send("long")
        stream = chat.stream("three, what a lovely day")
        events = [event async for event in stream]
        assert stream.turn is not None
        assert (stream.turn.state, stream.turn.text) == ("name", "How nice!\n\nWhose name?")
        assert shown(events)[-1] == stream.turn.text
        assert not any(event.restart for event in events if isinstance(event, ev.MessageDelta))


async def test_words_of_a_turn_that_ends_in_others_are_never_heard() -> None:
    turn, events = await streamed(ScriptedLLM([reply("lost", "Let me see.")]))
    assert turn.text == "Sorry, I cannot continue with this."
    assert not any("Let me see" in screen for screen in shown(events))


async def test_handlers_run_once_and_before_the_words() -> None:
    ran: list[str] = []

    def note(occasion: Any) -> dict[str, Any]:
        ran.append(occasion.point.value)
        return {"seen": len(ran)} if occasion.point.value == "context_update" else {}

    points = ("context_update", "pre_transition", "post_transition")
    handler = create_handler("note").at(*points).do(note)
    turn, events = await streamed(
        ScriptedLLM([reply("adult", "Welcome.", age=30)]), handlers=[handler]
    )
    assert ran == list(points)
    assert turn.context == {"age": 30, "seen": 1}
    assert before_the_reply(events) == "Welcome."
    whole = await plain(ScriptedLLM([reply("adult", "Welcome.", age=30)]), handlers=[handler])
    assert [type(event) for event in turn.events] == [type(event) for event in whole.events]


async def test_a_veto_keeps_the_words_back() -> None:
    handler = create_handler("no").at("pre_transition").do(lambda _: Veto("closed"))
    model = ScriptedLLM([reply("adult", "Welcome.", age=30), reply("ask", "We are closed.")])
    turn, events = await streamed(model, handlers=[handler])
    assert turn.text == "We are closed."
    assert "".join(shown(events)).count("Welcome") == 0


async def test_words_are_heard_before_those_of_an_auto_move_elsewhere() -> None:
    handler = create_handler("vip").at("context_update").do(lambda _: {"vip": True})
    model = ScriptedLLM([reply("adult", "Welcome.", age=30), reply("vip", "Champagne?")])
    turn, events = await streamed(model, handlers=[handler])
    assert (turn.state, turn.text) == ("vip", "Welcome.\n\nChampagne?")
    assert shown(events)[-1] == turn.text


async def test_words_wait_where_handlers_may_change_them() -> None:
    handler = (
        create_handler("shout").at("post_processing").do(lambda occasion: occasion.text.upper())
    )
    turn, events = await streamed(ScriptedLLM([reply("ask", "How old?")]), handlers=[handler])
    assert turn.text == "HOW OLD?"
    assert shown(events) == ["", "HOW OLD?"]


BROKEN = ModelError("the line broke", retryable=True)


async def test_a_stream_that_breaks_before_its_words_is_asked_for_again() -> None:
    text = reply("ask", "How old?")
    model = Pieces([text[:10], BROKEN], [text])
    turn, events = await streamed(model)
    assert (turn.text, model.asked) == ("How old?", 2)
    assert shown(events) == ["", "How old?"]


async def test_requests_of_a_stream_that_broke_count_for_the_turn() -> None:
    busy = HttpReply(status=503, headers={"Retry-After": "0.001"})
    with serve_scripted([busy, sse(delta(ODD[:9])), ODD]) as server:
        turn, _ = await streamed("any", base_url=server.base_url)
        assert (turn.text, turn.usage.calls, turn.usage.attempts) == (
            "How old?",
            1,
            len(server.requests),
        )
        assert len(server.requests) == 3


async def test_a_stream_of_any_model_that_broke_counts_as_one_request() -> None:
    text = reply("ask", "How old?")
    turn, _ = await streamed(Pieces([text[:10], BROKEN], [text]))
    assert turn.usage.attempts == 2


async def test_a_stream_that_breaks_in_its_words_fails_and_leaves_nothing() -> None:
    text = reply("ask", "How old are you?")
    model = Pieces([text[: text.index("are")], BROKEN, text], [text])
    events: list[ev.Event] = []

    async def follow(chat: AsyncConversation) -> None:
        async for event in chat.stream("m"):
            events.append(event)

    async with AsyncMachine.from_dict(DESK, model=model, store="memory") as machine:
        chat = await machine.start(greet=False)
        with pytest.raises(ModelError, match="the line broke"):
            await follow(chat)
        assert shown(events)[-1] == "How old"
        assert len(await chat.history()) == 0
        assert (await chat.send("m")).text == "How old are you?"


async def test_another_model_takes_over_only_before_the_first_piece() -> None:
    text = reply("ask", "How old?")
    turn, _ = await streamed(Fallbacks([Pieces([BROKEN]), Pieces([text])]))
    assert turn.text == "How old?"


async def test_leaving_a_stream_early_cancels_the_turn() -> None:
    text = reply("ask", "How old?")
    async with AsyncMachine.from_dict(
        DESK, model=Pieces([*text], [text]), store="memory"
    ) as machine:
        chat = await machine.start(greet=False)
        async for event in chat.stream("m"):
            if isinstance(event, ev.MessageDelta):
                break
        assert (await chat.send("m")).number == 1


async def test_a_stream_that_is_left_forgets_how_its_turn_failed() -> None:
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    async with AsyncMachine.from_dict(
        DESK, model=Pieces(["", BROKEN], [BROKEN]), store="memory"
    ) as machine:
        events = aiter((await machine.start(greet=False)).stream("m"))
        assert isinstance(await anext(events), ev.UserSaid)
        for _ in range(20):
            await asyncio.sleep(0)
        await events.aclose()
        gc.collect()
    assert said == []


@pytest.mark.parametrize("streams", [True, False])
async def test_handlers_that_ran_before_a_crash_do_not_run_again(streams: bool) -> None:
    ran: list[str] = []
    handler = (
        create_handler("note")
        .at("context_update", "pre_transition")
        .do(lambda occasion: ran.append(occasion.point.value))
    )
    text = reply("adult", "Welcome in.", age=30)
    cut = text.index("Welcome") + 3
    model = Pieces([text[:cut], text[cut:]], [text])
    options: dict[str, Any] = {"model": model, "store": "memory", "handlers": [handler]}
    async with AsyncMachine.from_dict(DESK, **options) as machine:
        chat = await machine.start(greet=False)
        events = aiter(chat.stream("m"))
        async for event in events:
            if isinstance(event, ev.MessageDelta):
                break
        await events.aclose()  # type: ignore[attr-defined]
        assert ran == ["context_update", "pre_transition"]
        if streams:
            stream = chat.stream("m")
            assert [event async for event in stream]
            turn = stream.turn
        else:
            turn = await chat.send("m")
    assert turn is not None
    assert (turn.text, turn.context) == ("Welcome in.", {"age": 30})
    assert ran == ["context_update", "pre_transition"]


def shown_and_told(happened: Sequence[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in happened if not isinstance(event, ev.MessageDelta)]


@pytest.mark.parametrize("heard", ["", "How old"])
async def test_what_an_error_handler_says_is_streamed_in_place_of_the_words_so_far(
    heard: str,
) -> None:
    text = reply("ask", "How old are you?")
    cut = text.index("are") if heard else 5
    broken = ModelError("the line broke")
    handler = create_handler("sorry").at("error").do(lambda occasion: "Something broke.")
    turn, events = await streamed(Pieces([text[:cut], broken]), handlers=[handler])
    assert turn.text == "Something broke."
    assert shown(events) == ["", *filter(None, [heard]), "Something broke."]
    assert (
        shown_and_told(events)
        == shown_and_told(turn.events)
        == ["UserSaid", "TurnFailed", "BotSaid"]
    )


@pytest.mark.parametrize("point", ["context_update", "pre_transition"])
@pytest.mark.parametrize("sound", [True, False])
async def test_a_handler_that_stops_the_turn_stops_it_only_where_the_whole_reply_leads_to_it(
    point: str, sound: bool
) -> None:
    ran: list[str] = []

    def fail(occasion: Any) -> None:
        ran.append(occasion.target)
        raise RuntimeError("no")

    handler = create_handler("strict").at(point).as_critical().do(fail)
    first = reply("adult", "Welcome.", age=30)
    replies = [first if sound else first + reply("lost", "Or not."), reply("ask", "How old?")]
    if sound:
        with pytest.raises(HandlerError, match="RuntimeError: no"):
            await streamed(ScriptedLLM(replies), handlers=[handler])
    else:
        turn, events = await streamed(ScriptedLLM(replies), handlers=[handler])
        assert turn.text == shown(events)[-1] == "How old?"
    assert len(ran) == 1


# -- over HTTP


@pytest.mark.parametrize(
    "refuse", [(), ("schema",), ("schema", "tool"), ("schema", "tool", "json_object")]
)
async def test_words_stream_over_http_in_every_mode(refuse: tuple[Any, ...]) -> None:
    words = 'Wie alt? 😀 "quoted" \\ and\na new line'
    with serve_scripted([reply("ask", words)], refuse=refuse) as server:
        turn, events = await streamed("any", base_url=server.base_url)
    assert turn.text == words == before_the_reply(events)
    assert len([event for event in events if isinstance(event, ev.MessageDelta)]) > 1
    assert turn.usage.output_tokens > 0


async def test_characters_whose_halves_come_in_two_chunks_are_whole() -> None:
    text = reply("ask", "Hi @!").replace("@", "\ud83d\ude00")
    at = text.index("\ud83d") + 1
    with serve_scripted([sse(delta(text[:at]), delta(text[at:]), OVER, "[DONE]")]) as server:
        turn, events = await streamed("any", base_url=server.base_url)
    assert turn.text == "Hi 😀!"
    assert shown(events)[1:] == ["Hi", "Hi 😀!"]
    [replied] = [event for event in events if isinstance(event, ev.ModelReplied)]
    assert "😀" in replied.text


def test_arguments_of_a_call_whose_characters_come_in_halves_are_whole() -> None:
    chunks = Chunks(ReplySettings("m", "schema", tools=True))
    for part in ('{"who":"\ud83d', '\ude00"}'):
        chunks.take(
            {
                "choices": [
                    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}}
                ]
            }
        )
    chunks.done = True
    [call] = chunks.completion()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"who":"😀"}'


@pytest.mark.parametrize("wrapped", ["{}", "```json\n{}\n```"])
async def test_of_a_reply_within_the_words_of_a_reply_no_json_is_shown(wrapped: str) -> None:
    inner = wrapped.format(reply("ask", "How old?"))
    for cut in range(1, len(inner) + 1):
        text = reply("ask", inner[:cut])
        turn, events = await streamed(Pieces([*text]))
        assert shown(events)[-1] == turn.text
        assert not any("{" in screen or '"' in screen for screen in shown(events))


async def test_calls_of_tools_arrive_in_chunks() -> None:
    tools = ToolRegistry()
    tools.register(lambda city: {"sunny": city}, name="weather", description="Tell the weather")
    document = {**DESK, "tools": {"weather": {"registered": "weather"}}}
    document["states"] = {**DESK["states"], "ask": {**DESK["states"]["ask"], "tools": ["weather"]}}
    asked = {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}
    with serve_scripted([asked, reply("ask", "Sunny in Rome.")]) as server:
        machine = AsyncMachine.from_dict(
            document, model="any", base_url=server.base_url, tools=tools
        )
        async with machine:
            stream = (await machine.start(greet=False)).stream("m")
            events = [event async for event in stream]
    [returned] = [event for event in events if isinstance(event, ev.ToolReturned)]
    assert returned.result == {"sunny": "Rome"}
    assert shown(events)[-1] == "Sunny in Rome."


def sse(*chunks: Any, end: str = "\n\n", start: str = "") -> HttpReply:
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    body = (start + "".join(f"data: {line}{end}" for line in lines)).encode()
    return HttpReply(body=body, headers={"Content-Type": "text/event-stream"})


def delta(text: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def thought(text: str) -> dict[str, Any]:
    return delta([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}])


ODD = reply("ask", "How old?")
OVER = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "answer",
    [
        sse(delta(ODD), OVER, "[DONE]"),
        sse(delta(ODD), OVER),
        sse(delta(ODD), "[DONE]"),
        sse(delta(ODD), OVER, "[DONE]", end="\r\n\r\n"),
        sse(
            {"choices": []},
            delta(ODD[:9]),
            {"usage": None},
            delta(ODD[9:]),
            OVER,
            {"usage": {}},
            "[DONE]",
        ),
        sse(delta(ODD), OVER, "[DONE]", end="\r\r"),
        sse(delta(ODD), OVER, "[DONE]", "[DONE]", "junk"),
        sse("", delta(ODD), "", OVER, "[DONE]"),
        sse(delta(ODD), OVER, "[DONE]", start="\ufeff"),
        sse(json.dumps(delta(ODD), indent=1).replace("\n", "\ndata: "), OVER),
        sse(
            {"choices": [{"index": 0, "message": {"content": ODD}, "finish_reason": "stop"}]},
            "[DONE]",
        ),
        sse(thought("hm"), thought("so"), delta([{"type": "text", "text": ODD}]), OVER, "[DONE]"),
        HttpReply(body={"choices": [{"message": {"content": ODD}, "finish_reason": "stop"}]}),
    ],
)
async def test_odd_servers_are_understood(answer: HttpReply) -> None:
    with serve_scripted([answer]) as server:
        turn, _ = await streamed("any", base_url=server.base_url)
    assert turn.text == "How old?"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_the_same_wherever_they_are_cut(end: str) -> None:
    text = f": ping{end}{end}data: é1{end}data:2{end}{end}event: x{end}data:{end}{end}data: 3{end}{end}data: 4"
    for size in range(1, 12):
        events, data = EventLines(), []
        sent = text.encode()
        for at in range(0, len(sent), size):
            data += events.feed(sent[at : at + size])
        assert [*data, *events.end()] == ["é1\n2", "3", "4"]


@pytest.mark.parametrize(
    "answer",
    [
        HttpReply(status=503, body={"error": {"message": "busy"}}),
        sse({"error": {"message": "overloaded", "code": 503}}),
        sse("not json"),
        sse(delta(ODD[:9])),
    ],
)
async def test_a_stream_that_fails_before_its_words_is_tried_again(answer: HttpReply) -> None:
    with serve_scripted([answer, ODD]) as server:
        turn, _ = await streamed("any", base_url=server.base_url)
        assert turn.text == "How old?"
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "told", ['{"error": "out of memory"}\n', 'data: {"detail": "out of memory"}\n\n']
)
async def test_a_message_whose_stream_ended_in_an_error_is_sent_again_under_its_id(
    told: str,
) -> None:
    said = f"data: {json.dumps(delta(ODD[: ODD.index('old')]))}\n\n"
    broken = HttpReply(body=said + told, headers={"Content-Type": "text/event-stream"})
    with serve_scripted(
        [broken, HttpReply(status=402, body={"error": "out of memory"}), ODD]
    ) as server:
        async with AsyncMachine.from_dict(
            DESK, model="any", base_url=server.base_url, store="memory"
        ) as machine:
            chat = await machine.start(greet=False)
            for _ in range(2):
                with pytest.raises(ModelError, match="out of memory"):
                    _ = [event async for event in chat.stream("m", request_id="r1")]
            assert len(await chat.history()) == 0
            stream = chat.stream("m", request_id="r1")
            happened = [event async for event in stream]
            assert (shown(happened)[-1], (await chat.send("m", request_id="r1")).number) == (
                "How old?",
                1,
            )
            assert len(server.requests) == 3


async def test_a_server_that_cannot_count_in_streams_is_not_asked_to() -> None:
    refusal = HttpReply(status=400, body={"error": {"message": "unknown field stream_options"}})
    with serve_scripted([refusal, ODD, ODD]) as server:
        turn, _ = await streamed("any", base_url=server.base_url)
        assert turn.text == "How old?"
        assert ["stream_options" in seen.body for seen in server.requests] == [True, False]


async def test_words_that_somebody_wrote_cannot_stand_for_those_of_the_model() -> None:
    mark = "\ue000wOrDs\ue001"
    document = {
        "name": "names",
        "initial_state": "ask",
        "patterns": ["repeat"],
        "context_schema": {"properties": {"name": {"type": "string"}}},
        "states": {
            "ask": {"required_context_keys": ["name"], "transitions": [{"target_state": "check"}]},
            "check": {"purpose": "Is that right?", "transitions": [{"target_state": "bye"}]},
            "bye": {"reply": "Bye."},
        },
    }
    model = ScriptedLLM(
        [reply("check", f"Is {mark} right?", name=mark), reply("repeat", "Never said")]
    )
    async with AsyncMachine.from_dict(document, model=model) as machine:
        chat = await machine.start(greet=False)
        await chat.send(mark)
        heard = [event async for event in chat.stream("Pardon?")]
    said = [event.text for event in heard if isinstance(event, ev.MessageDelta)]
    assert said == [f"Is {mark} right?"]


async def test_a_handler_that_runs_ahead_of_the_words_has_the_key_that_it_has_without_a_stream() -> (
    None
):
    keys: list[dict[str, str]] = []
    for streamed in (False, True):
        found: dict[str, str] = {}
        handler = create_handler("h").at("context_update", "pre_transition")
        async with AsyncMachine.from_dict(
            DESK, model=ScriptedLLM([reply("adult", "Welcome", age=40)]), clock=lambda: 5.0
        ) as machine:
            machine.add_handler(
                handler.do(
                    lambda occasion, found=found: found.update({occasion.point: occasion.key})
                )
            )
            chat = await machine.start(conversation_id="c", greet=False)
            if streamed:
                assert [event async for event in chat.stream("I am 40")]
            else:
                await chat.send("I am 40")
        keys.append(found)
    assert keys[0] == keys[1]
    assert set(keys[0]) == {"context_update", "pre_transition"}


FOUND: dict[str, Any] = {
    "name": "found",
    "initial_state": "ask",
    "tools": {"look": {"registered": "look"}},
    "states": {
        "ask": {"purpose": "Ask the order", "transitions": [{"target_state": "tell"}]},
        "tell": {
            "purpose": "Say when it comes",
            "tools": ["look"],
            "tools_first": True,
            "transitions": [{"target_state": "ask"}],
        },
    },
}
FIRST = "One moment, please."


def look() -> str:
    """Look the order up."""
    return "tomorrow"


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ("It comes tomorrow.", f"{FIRST}\n\nIt comes tomorrow."),
        ("One day: tomorrow.", f"{FIRST}\n\nOne day: tomorrow."),
    ],
)
@pytest.mark.parametrize("called", [True, False])
async def test_the_words_of_a_second_call_are_read_behind_those_of_the_first(
    second: str, text: str, called: bool
) -> None:
    def answers() -> ScriptedLLM:
        found = [calls(("look", {}))] if called else []
        return ScriptedLLM([reply("tell", FIRST), *found, reply("tell", second)])

    turn, events = await streamed(answers(), document=FOUND, tools=[look])
    assert turn.text == text
    screens = shown(events)
    assert screens[-1] == text
    assert all(screen.casefold().count("moment") <= 1 for screen in screens)
    restarts = [event for event in events if isinstance(event, ev.MessageDelta) and event.restart]
    assert bool(restarts) is (not text.startswith(FIRST))
    async with AsyncMachine.from_dict(
        FOUND, model=answers(), store="memory", tools=[look]
    ) as machine:
        chat = await machine.start(greet=False)
        assert (await chat.send("m")).text == text
