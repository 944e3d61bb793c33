"""The playground: talk, answer, look into turns, step back, play again, save as a test."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from llm_fsm import AsyncConversation
from llm_fsm import events as ev
from llm_fsm._json import member, of_kind
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flows, read_document
from llm_fsm.documents import patch
from llm_fsm.documents.diff import diff
from llm_fsm.documents.loader import load_text
from llm_fsm.documents.subflows import gather
from llm_fsm.editor import models
from llm_fsm.editor.checked import kind_of_value
from llm_fsm.editor.scenarios import save_test
from llm_fsm.editor.talks import LiveTalk, OpenTalk, Talks, inspect, view
from llm_fsm.editor.trouble import problem_of
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.engine.conversation import TurnStream
from llm_fsm.engine.model_call import ask
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.records.transfer import export, fork, import_conversation
from llm_fsm.server.encoding import sse
from llm_fsm.server.problems import Problem
from llm_fsm.server.stream_events import Responses
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.turn_record import events_of
from llm_fsm.stores.base import Store, kept_definition
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel

_SECONDS = 120.0
"""The longest time of one call of a model that is asked anew."""


_STREAM: Responses = {
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

    @made.post("/talks/{talk_id}/messages", responses=_STREAM, response_class=StreamingResponse)
    async def send_message(talk_id: str, body: models.MessageBody) -> StreamingResponse:
        """Send a message or a choice, and stream the words of the turn."""
        talk, chat = _open(talks, talk_id)
        return _streaming(talk, chat.stream(_message(chat, body), keep=True))

    @made.post("/talks/{talk_id}/answers", responses=_STREAM, response_class=StreamingResponse)
    async def answer_pause(talk_id: str, body: models.AnswerBody) -> StreamingResponse:
        """Answer what the conversation waits for, and stream the words of the turn."""
        talk, chat = _open(talks, talk_id)
        return _streaming(talk, chat.stream_answer(body.value))

    @made.get("/talks/{talk_id}/turns/{number}")
    async def inspect_turn(talk_id: str, number: int) -> models.TurnInspection:
        """Return everything about a turn: why, prompts, context before and after, tools, events."""
        return await inspect(talks.get(talk_id), number)

    @made.post("/talks/{talk_id}/fork")
    async def fork_talk(talk_id: str, body: models.ForkBody) -> models.TalkView:
        """Step back to a turn in a new conversation, and go on with a message if there is one."""
        return await view(await _forked(talks, talks.get(talk_id), body))

    @made.post("/talks/{talk_id}/replay")
    async def replay_talk(talk_id: str, body: models.ReplayBody) -> models.ReplayAnswer:
        """Play the whole conversation on an edited text, with the replies on record."""
        return await _replayed(talks, talks.get(talk_id), body)

    @made.post("/talks/{talk_id}/test")
    async def save_as_test(talk_id: str, body: models.SaveTestBody) -> models.SavedTest:
        """Save a conversation as a conversation test beside its definition, and play it."""
        return await save_test(talks.studio, talks.get(talk_id), body)

    @made.get("/conversation")
    async def open_stored(id: str = Query(max_length=10_000)) -> models.TalkView:
        """Open the copy of a stored conversation, read only until it is forked.

        Its id is in the query, because it may hold any letter, `/` included.
        """
        return await view(await _stored(talks, id))

    return made


def _open(talks: Talks, talk_id: str) -> tuple[OpenTalk, AsyncConversation]:
    """Return a conversation that may go on. Raises Problem."""
    talk = talks.get(talk_id)
    if talk.live is None:
        raise Problem(
            "conflict", "this is a stored conversation: fork it, then go on with the fork"
        )
    if talk.lock.locked():
        raise Problem("conflict", "the turn before is not over yet")
    return talk, talk.live.chat


def _message(chat: AsyncConversation, body: models.MessageBody) -> str | Choice:
    if body.choice is None:
        return body.text or ""
    for choice in chat.choices:
        if body.choice in (choice.value, choice.label):
            return choice
    raise Problem("conflict", "there is no such choice any more")


def _streaming(talk: OpenTalk, stream: TurnStream) -> StreamingResponse:
    return StreamingResponse(_events(talk, stream), media_type="text/event-stream")


async def _events(talk: OpenTalk, stream: TurnStream) -> AsyncGenerator[bytes]:
    """Yield what happens in a turn; the conversation after it comes last, or the problem."""
    async with talk.lock:
        try:
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    match event:
                        case ev.MessageDelta():
                            yield _event("replaced" if event.restart else "delta", event.text)
                        case ev.StateEntered():
                            yield _event("state", event.state)
            if stream.turn is not None:
                talk.keep_calls(stream.turn.number)
            shown = await view(talk)
            yield _event("talk", shown.model_dump(mode="json"))
        except (LLMFSMError, ValueError) as error:
            yield _event("problem", problem_of(error).document())


def _event(name: str, value: object) -> bytes:
    return sse({name: value}, event=name)


async def _forked(talks: Talks, talk: OpenTalk, body: models.ForkBody) -> OpenTalk:
    wanted = talk.body
    if body.text is not None:
        wanted = wanted.model_copy(update={"text": body.text})
    elif talk.live is None:  # its file may have come, or been mended, since it was opened
        wanted = await asyncio.to_thread(_file_of, talks, talk.program.definition)
        _, reason = await asyncio.to_thread(_as_file, talks, wanted, talk.program)
        if reason is not None:
            raise Problem("invalid", reason)
    machine, llm = talks.made(wanted, talk.store)
    new_id = uuid.uuid4().hex
    await fork(machine.store, talk.id, new_id, body.turn)
    chat = await machine.resume(new_id)
    made = await talks.go_on(
        wanted,
        LiveTalk(machine=machine, llm=llm, chat=chat),
        forked_from=talk.id,
        calls={turn: calls for turn, calls in talk.calls.items() if turn <= body.turn},
    )
    if isinstance(llm.llm, ScriptedLLM):
        used = of_kind(events_of(await made.records()), ev.ModelReplied)
        llm.llm.skip(len(used))
    if body.message is not None:
        turn = await chat.send(body.message)
        made.keep_calls(turn.number)
    return made


async def _replayed(talks: Talks, talk: OpenTalk, body: models.ReplayBody) -> models.ReplayAnswer:
    records = await talk.records()
    wanted = models.TalkBody(path=body.path, text=body.text, model=body.model or "scripted")
    try:
        machine, llm = talks.made(wanted)
    except LLMFSMError as error:
        return models.ReplayAnswer(same=False, reason=problem_of(error).detail)
    program = machine.program

    async def asks(effect: AskModel) -> ModelReply:
        return await ask(llm, effect, _SECONDS, _SECONDS)

    anew = None if body.model is None else asks
    async with machine:
        result = await replay_turns(program, recorded_tools(program), talk.id, records, anew)
    answer = models.ReplayAnswer(same=result.divergence is None)
    if result.divergence is not None:
        answer.first = models.FirstDifference.model_validate(result.divergence)
    changes = diff(talk.program.definition, program.definition)
    answer.reworded = [one.message for one in changes if one.subject == "words"]
    return answer


async def _stored(talks: Talks, conversation_id: str) -> OpenTalk:
    """Copy a stored conversation, and leave the store as it is.

    Its turns are told by the definitions that the store keeps with it. Files are needed for a fork
    alone.
    """
    async with talks.studio.opened() as store:
        whole = await export(store, conversation_id, with_secrets=False)
        flows = await _pinned(store, conversation_id)
    copies = MemoryStore()
    copied = await import_conversation(copies, whole, uuid.uuid4().hex)
    program = compile_flows(flows, shipped_prompts(), pattern_piece)
    pinned = program.definition
    body = await asyncio.to_thread(_file_of, talks, pinned)
    present, not_forked = await asyncio.to_thread(_as_file, talks, body, program)
    return await talks.add(
        OpenTalk(
            id=copied,
            body=body,
            store=copies,
            program=program,
            live=None,
            is_stale=present is not None and present.sha256 != pinned.sha256,
            not_forked=not_forked,
            version=patch.set_value(body.text, "", json.loads(pinned.canonical)),
        )
    )


async def _pinned(store: Store, conversation_id: str) -> Flows:
    """Return the definitions that a conversation runs on. Raises Problem 404."""
    loaded = await store.load(conversation_id)
    if loaded is None:
        raise Problem("not-found", "this conversation is not in the store any more")
    session, _ = await SessionReader(store).read(conversation_id, loaded.session)
    text = await kept_definition(store, session.definition)
    if text is None:
        raise Problem(
            "not-found", "the store does not have the definition of this conversation any more"
        )
    return read_document(text)


def _file_of(talks: Talks, definition: Definition) -> models.TalkBody:
    """Return the file that has a definition's name, or else its kept text, to talk to."""
    for path, text, value in talks.studio.folder.values():
        if kind_of_value(value, path) == "definition" and member(value, "name") == definition.name:
            return models.TalkBody(path=path, text=text)
    kept = json.dumps(json.loads(definition.canonical), ensure_ascii=False, indent=2)
    return models.TalkBody(path=f"{uuid.uuid4().hex}.json", text=f"{kept}\n")


def _as_file(
    talks: Talks, body: models.TalkBody, program: CompiledMachine
) -> tuple[Definition | None, str | None]:
    """Return the definition of a file with all that it calls, or why a conversation cannot go on
    with it.
    """
    folder = talks.studio.folder
    path = body.path
    place = folder.place(path)
    try:
        definition = load_text(body.text, file=place).definition
        gather(definition, file=place, registered={})
    except LLMFSMError as error:
        if folder.exists(path):
            words = str(problem_of(error).detail)
            return None, f"{path}: {folder.shortened(words)}"
        called = ", ".join(program.flows)
        name = program.definition.name
        return None, (
            f"no file of this folder has the name {name!r}, and it calls {called}, which the folder must have, "
            "too: copy these files here, then fork it"
        )
    return definition, None
