"""The playground: start, talk, answer, look into turns, step back, fork, play again, save as a test."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from llm_fsm import events as ev
from llm_fsm.editor import models
from llm_fsm.editor.scenarios import save_test
from llm_fsm.editor.talks import OpenTalk, Talks, inspect, view
from llm_fsm.editor.trouble import problem_of, told
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.records.transfer import export, fork, import_conversation
from llm_fsm.server.problems import Problem
from llm_fsm.turn.choices import Choice

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `delta`, `replaced` and `state`, then `talk` or `problem`, each a Streamed.",
        "content": {"text/event-stream": {"schema": {"$ref": "#/components/schemas/Streamed"}}},
    }
}


def router(talks: Talks) -> APIRouter:
    """Return the routes of the playground."""
    made = APIRouter(prefix="/api", tags=["playground"])

    @made.post("/talks")
    async def start_talk(body: models.TalkBody) -> models.TalkView:
        """Start a conversation on a text, which need not be saved."""
        with told():
            return await view(await talks.start(body))

    @made.get("/talks/{talk_id}")
    async def get_talk(talk_id: str) -> models.TalkView:
        """Return a conversation with all its turns."""
        return await view(talks.get(talk_id))

    @made.delete("/talks/{talk_id}", status_code=204)
    async def end_talk(talk_id: str) -> Response:
        """Forget a conversation of the playground."""
        await talks.drop(talk_id)
        return Response(status_code=204)

    @made.post("/talks/{talk_id}/messages")
    async def send_message(talk_id: str, body: models.MessageBody) -> models.TalkView:
        """Send a message or a choice, and return the conversation after the turn."""
        talk = _open(talks, talk_id)
        async with talk.lock:
            with told():
                turn = await talk.chat.send(_message(talk, body))
                talk.keep_calls(turn.number)
                return await view(talk)

    @made.post("/talks/{talk_id}/stream", responses=_STREAM, response_class=StreamingResponse)
    async def stream_message(talk_id: str, body: models.MessageBody) -> StreamingResponse:
        """Send a message or a choice, and stream the words."""
        talk = _open(talks, talk_id)
        message = _message(talk, body)
        return StreamingResponse(_streamed(talk, message), media_type="text/event-stream")

    @made.post("/talks/{talk_id}/answer")
    async def answer_pause(talk_id: str, body: models.AnswerBody) -> models.TalkView:
        """Answer what the conversation waits for."""
        talk = _open(talks, talk_id)
        async with talk.lock:
            with told():
                turn = await talk.chat.answer(body.value)
                talk.keep_calls(turn.number)
                return await view(talk)

    @made.get("/talks/{talk_id}/turns/{number}")
    async def inspect_turn(talk_id: str, number: int) -> models.TurnInspection:
        """Return everything about a turn: why, prompts, context before and after, tools, events."""
        return await inspect(talks.get(talk_id), number)

    @made.post("/talks/{talk_id}/fork")
    async def fork_talk(talk_id: str, body: models.ForkBody) -> models.TalkView:
        """Step back to a turn in a new conversation, and go on with a message if there is one."""
        with told():
            return await view(await _forked(talks, talks.get(talk_id), body))

    @made.post("/talks/{talk_id}/replay")
    async def replay_talk(talk_id: str, body: models.ReplayBody) -> models.ReplayAnswer:
        """Play the whole conversation on an edited text, with the replies on record."""
        return await _replayed(talks, talks.get(talk_id), body)

    @made.post("/talks/{talk_id}/test")
    async def save_as_test(talk_id: str, body: models.SaveTestBody) -> models.SavedTest:
        """Save a conversation as a conversation test beside its definition, and play it."""
        with told():
            return await save_test(talks.studio, talks.get(talk_id), body)

    @made.post("/stored/open")
    async def open_stored(body: models.StoredBody) -> models.TalkView:
        """Open the copy of a stored conversation, read only until it is forked."""
        with told():
            return await view(await _stored(talks, body))

    return made


def _open(talks: Talks, talk_id: str) -> OpenTalk:
    """Return a conversation that may go on. Raises Problem."""
    talk = talks.get(talk_id)
    if talk.read_only:
        raise Problem(
            "conflict", "this is a stored conversation: fork it, then go on with the fork"
        )
    if talk.lock.locked():
        raise Problem("conflict", "the turn before is not over yet")
    return talk


def _message(talk: OpenTalk, body: models.MessageBody) -> str | Choice:
    if body.choice is None:
        return body.text or ""
    for choice in talk.chat.choices:
        if body.choice in (choice.value, choice.label):
            return choice
    raise Problem("conflict", "there is no such choice any more")


async def _streamed(talk: OpenTalk, message: str | Choice) -> AsyncGenerator[str, None]:
    async with talk.lock:
        try:
            stream = talk.chat.stream(message, keep=True)
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    if isinstance(event, ev.MessageDelta):
                        yield _event("replaced" if event.restart else "delta", event.text)
                    elif isinstance(event, ev.StateEntered):
                        yield _event("state", event.state)
            if stream.turn is not None:
                talk.keep_calls(stream.turn.number)
            shown = await view(talk)
            yield _event("talk", shown.model_dump(mode="json"))
        except (LLMFSMError, ValueError) as error:
            yield _event("problem", problem_of(error).document())


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps({name: value}, ensure_ascii=False)}\n\n"


async def _forked(talks: Talks, talk: OpenTalk, body: models.ForkBody) -> OpenTalk:
    text = talk.text if body.text is None else body.text
    machine, llm = talks.made(talk.path, text, talk.model, talk.replies, talk.machine.store)
    new_id = uuid.uuid4().hex
    await fork(machine.store, talk.chat.id, new_id, body.turn)
    chat = await machine.resume(new_id)
    made = OpenTalk(
        id=new_id,
        path=talk.path,
        text=text,
        model=talk.model,
        replies=talk.replies,
        machine=machine,
        llm=llm,
        chat=chat,
        forked_from=talk.id,
        calls={turn: calls for turn, calls in talk.calls.items() if turn <= body.turn},
    )
    if isinstance(llm.llm, ScriptedLLM):
        llm.llm.skip(await _used(made))
    await talks.add(made)
    if body.message is not None:
        turn = await chat.send(body.message)
        made.keep_calls(turn.number)
    return made


async def _used(talk: OpenTalk) -> int:
    """Return the number of replies that a conversation has taken."""
    used = 0
    for record in await talk.records():
        used += sum(isinstance(event, ev.ModelReplied) for event in record.events)
    return used


async def _replayed(talks: Talks, talk: OpenTalk, body: models.ReplayBody) -> models.ReplayAnswer:
    records = await talk.records()
    try:
        machine, _ = talks.made(body.path, body.text, "scripted", [], None)
    except LLMFSMError as error:
        return models.ReplayAnswer(same=False, reason=problem_of(error).detail)
    program = machine.program
    result = await replay_turns(program, recorded_tools(program), talk.chat.id, records)
    await machine.close()
    if result.divergence is None:
        return models.ReplayAnswer(same=True)
    found = result.divergence
    first = models.FirstDifference(
        turn=found.turn, what=found.what, before=found.was, after=found.now
    )
    return models.ReplayAnswer(same=False, first=first)


async def _stored(talks: Talks, body: models.StoredBody) -> OpenTalk:
    if talks.studio.store is None:
        raise Problem(
            "not-found", "the studio was started without --db, so there are no stored conversations"
        )
    store = talks.studio.store()
    try:
        whole = await export(store, body.id, with_secrets=False)
    finally:
        await store.close()
    machine, llm = talks.made(body.path, body.text, body.model, [], None)
    copied = await import_conversation(machine.store, whole, uuid.uuid4().hex)
    pinned = await machine.definition_of(copied)
    chat = await machine.resume(copied)
    return await talks.add(
        OpenTalk(
            id=copied,
            path=body.path,
            text=body.text,
            model=body.model,
            replies=[],
            machine=machine,
            llm=llm,
            chat=chat,
            read_only=True,
            is_stale=pinned.sha256 != machine.definition.sha256,
        )
    )
