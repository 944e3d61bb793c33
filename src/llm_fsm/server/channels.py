"""The common work of channels: one conversation for each messenger thread.

A channel is a file for `--mount`. It checks who sent a request, and calls `answer`. A thread is a
chat of the messenger, and its conversation has its id. The first message after an end begins it
again. The ids of messages stay known, so a message that comes twice is never answered twice.
"""

from __future__ import annotations

from functools import partial

from llm_fsm import Choice, ConversationEnded, Turn
from llm_fsm._json import TextMap
from llm_fsm.server.machines import Served
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

THREAD = "thread"
"""The label that the conversation of a thread has."""


async def answer(
    service: Service,
    caller: Caller,
    thread: str,
    text: str,
    request_id: str,
    *,
    question: str | None = None,
    metadata: TextMap | None = None,
    language: str = "",
) -> Turn:
    """Answer a message of a messenger, and return its turn.

    A text that is the label of a choice picks it, without a model. A message that comes again gets
    the recorded turn. The sender counts for `--rate` by the thread.

    Args:
        service: The service, as `routes(service)` got it.
        caller: The channel. Its conversations begin with its prefix in the store.
        thread: The chat of the messenger, such as a Slack channel or a phone number.
        text: What the user wrote, or the label of a button.
        request_id: The messenger's id of the message. It must be the same when the message comes
            again.
        question: The `question` of the choice whose button was pressed; None: it was no button.
        metadata: Labels of a new conversation, such as {"user": "U123"}, besides the label
            `thread`.
        language: BCP 47 tag of a new conversation, as the messenger knows it.

    Returns:
        The turn: `text` for the user, and `choices` for buttons.

    Raises:
        ConversationConflict: The conversation waits for a person, or the button belongs to an
            earlier question.
        ModelError: No model answered. Nothing is kept; let the messenger send the message again.
        StoreError: The store cannot be used. The same holds.
        Problem: The thread sends too many messages (429), or the server ends (503).
    """
    service.enter(Caller(name=f"{caller.name} {thread}"))
    machine = service.machines.all(caller)[0]
    labels = {**(metadata or {}), THREAD: caller.stored(thread)}
    open_thread = partial(
        service.open, caller, machine, thread, greet=False, metadata=labels, language=language
    )

    async def send(served: Served, question: str | None) -> Turn:
        said: str | Choice = text
        if question is not None:
            said = Choice(text, None, question)
        elif text in [choice.label for choice in served.chat.choices]:
            said = Choice(text, None)
        return await service.send(served, said, request_id)

    try:
        return await send(await open_thread(), question)
    except ConversationEnded:
        return await send(await open_thread(anew=True), None)
