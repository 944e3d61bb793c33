"""The door of a messenger: what its users say comes in, and each answer is delivered once.

An answer is on record in the outbox of the store, together with its turn. It is posted at once, and
again until the messenger takes it. A message that comes again is not played again: what is left of
its answer is posted.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import aiohttp

from llm_fsm import Choice, ConversationConflict
from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.channels.fit import Limits, Markup, MessagePart, fit
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.engine.outbox.sinks import Sink
from llm_fsm.errors import ConfigurationError
from llm_fsm.server.channels import answer
from llm_fsm.server.problems import Problem
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import MARK, Caller
from llm_fsm.session.events import BotSaid
from llm_fsm.session.turn_record import parse

_LOG = logging.getLogger(__name__)
_NOT_OK = re.compile(r'\s*\{\s*"ok":\s*false')


class IncomingMessage(NamedTuple):
    """A message of a user. `thread` is its chat, and `question` that of the button pressed.

    `language` is that of the user, as a BCP 47 tag; "" if the messenger does not know it.
    """

    thread: str
    text: str
    request_id: str
    user: str
    question: str | None = None
    language: str = ""


Message = tuple[str, JsonDict]
"""A call of a messenger's API: its path, and its body."""
Post = Callable[[str, JsonDict], Awaitable[None]]
"""Makes a call of a messenger's API. It raises if the messenger does not take the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Messenger:
    """The table of one messenger.

    Attributes:
        name: Its name, which conversations in the store begin with.
        limits: The sizes that it takes.
        markup: How it writes what models write as Markdown.
        heard: Returns the messages of users in a payload; other payloads have none.
        message: Returns the call that sends one message to a thread.
        refusals: What it says if it will never take a message, as a regular expression.
    """

    name: str
    limits: Limits
    markup: Markup
    heard: Callable[[JsonMap], Iterator[IncomingMessage]]
    message: Callable[[str, MessagePart], Message]
    refusals: str


class Door:
    """The conversations of one messenger.

    Args:
        service: The service, as `routes(service)` gets it.
        messenger: The table of the messenger.
        post: Makes a call of its API.
        delivers: False if `answers` is called, whose caller sends the answers.
    """

    def __init__(
        self, service: Service, messenger: Messenger, post: Post, *, delivers: bool = True
    ) -> None:
        self._service = service
        self._messenger = messenger
        self._post = post
        self._caller = Caller(name=messenger.name, prefix=messenger.name + MARK)
        self._left: dict[str, deque[MessagePart]] = {}
        """The key of a delivery to the messages of its answer that were not taken yet."""
        self._sink = Sink(
            name=f"channel {messenger.name}",
            deliver=self._deliver,
            events=frozenset({"BotSaid"}),
            begins=self._caller.prefix,
        )
        if delivers:
            service.machines.deliver_to(self._sink)

    async def take(self, payload: JsonMap) -> None:
        """Answer the messages of a payload, and wait until the messenger has the answers.

        Args:
            payload: The JSON document that the messenger sends. It may come again.

        Raises:
            Problem: The messenger did not take an answer. It is posted again later, and at once if
                the payload comes again.
        """
        for heard in self._messages(payload):
            parts = await self._play(heard)
            served = await self._service.find(self._caller, heard.thread)
            stored, machine = served.stored, served.machine
            loaded = await machine.store.load(stored, heard.request_id)
            if loaded is None or loaded.recorded is None:  # no outbox has what is on no record
                for part in parts:
                    await self._send(heard.thread, part)
            if not await machine.closing.dispatcher.hurry(self._sink, stored):
                raise Problem("unavailable", "the messenger did not take the answer")

    async def answers(self, payload: JsonMap) -> list[Message]:
        """Answer the messages of a payload, for a caller who sends the answers.

        Args:
            payload: As for `take`.

        Returns:
            The calls that send the answers.
        """
        found = []
        for heard in self._messages(payload):
            parts = await self._play(heard)
            found += [self._messenger.message(heard.thread, part) for part in parts]
        return found

    def _messages(self, payload: JsonMap) -> list[IncomingMessage]:
        return [heard for heard in self._messenger.heard(payload) if heard.text.strip()]

    async def _play(self, heard: IncomingMessage) -> list[MessagePart]:
        """Play a message. Return its answer, or why it was not played.

        While the conversation waits for a person, nothing is said.
        """
        try:
            turn = await answer(
                self._service,
                self._caller,
                heard.thread,
                heard.text,
                heard.request_id,
                question=heard.question,
                metadata={"user": heard.user},
                language=heard.language,
            )
        except (ConversationConflict, ValueError) as error:
            served = await self._service.find(self._caller, heard.thread)
            return self._fitted("" if served.chat.paused else str(error), ())
        return self._fitted(turn.text, turn.choices)

    def _fitted(self, text: str, choices: tuple[Choice, ...]) -> list[MessagePart]:
        return fit(text, choices, self._messenger.limits, self._messenger.markup)

    async def _deliver(self, delivery: Delivery) -> None:
        """Send the words of a turn, as the sink of this messenger. Raises if they are not taken.

        The delivery hides secrets, so the words come from the record. Buttons belong to the last
        turn alone.
        """
        thread = self._caller.public(delivery.conversation_id)
        served = await self._service.find(self._caller, thread, fresh=True)
        store = served.store
        records = await store.records(delivery.conversation_id, delivery.record - 1, 2)
        said = parse(records[0]).events[delivery.index]
        if not isinstance(said, BotSaid):
            return
        text = f"{said.by}: {said.text}" if said.by else said.text
        choices = served.chat.choices if len(records) == 1 else ()
        left = self._left.setdefault(delivery.key, deque(self._fitted(text, choices)))
        while left:
            await self._send(thread, left[0])
            left.popleft()
        del self._left[delivery.key]

    async def _send(self, thread: str, part: MessagePart) -> None:
        """Send one message. If the messenger refuses it for good, send its words alone."""
        path, body = self._messenger.message(thread, part)
        try:
            await self._post(path, body)
        # The host's own library posts, and raises what it likes; only its text tells a refusal.
        except Exception as error:
            if re.search(self._messenger.refusals, str(error)) is None:
                raise
            if not part.choices:
                _LOG.warning("an answer cannot be delivered to %s: %s", thread, error)
                return
            await self._send(thread, MessagePart(part.text))


def posts(base: str, headers: TextMap) -> Post:
    """Return a function that makes calls of an API as JSON.

    Args:
        base: The address that paths are relative to.
        headers: The headers of a call, such as a token.

    Returns:
        The function. It raises RuntimeError if the status is no success, or if the answer says that
        it is not `ok`.
    """

    async def post(path: str, body: JsonDict) -> None:
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{base}/{path}", json=body) as reply,
        ):
            said = await reply.text()
            if not reply.ok or _NOT_OK.match(said):
                raise RuntimeError(f"the messenger answered {reply.status}: {said:.300}")

    return post


def is_hmac(key: str, signed: bytes, given: str) -> bool:
    """Return true if a text is the HMAC-SHA256 of bytes, in hexadecimal. It takes constant time.

    Args:
        key: The secret of the messenger.
        signed: The bytes.
        given: The text.
    """
    expected = hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), given.encode())


def secret(name: str) -> str:
    """Return a secret of the environment.

    Args:
        name: The name of the variable.

    Raises:
        ConfigurationError: It is not set, or it is empty, so that anybody could sign.
    """
    value = os.environ.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is empty: set it to the secret of the messenger")
    return value
