"""The model of a case: it gives the replies of the current step, and reports missing ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import structs

from llm_fsm._json import JsonDict, as_text, in_unicode
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.scripted import scripted_reply
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm
from llm_fsm.testing.scenarios.loader import Play
from llm_fsm.testing.scenarios.models import CaseReply

_TOLD = 400
"""Characters of a prompt that a message shows."""
_FAULTS: dict[str, Callable[[], ModelError]] = {
    "down": lambda: ModelError("the provider is down (scripted fault)", status=503),
    "timeout": lambda: ModelError(
        "the provider did not answer in time (scripted fault)", retryable=True
    ),
    "rate_limit": lambda: ModelError(
        "too many requests (scripted fault)", retryable=True, status=429
    ),
    "refused": lambda: ModelError("the provider refuses the request (scripted fault)", status=400),
}


class Model:
    """The model of a case: `llm` answers, and the model learns of each step before it is played.

    Any model will do: by itself this class uses no replies of the file, and allows all.
    """

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def begin(self, play: Play) -> None:
        """A case begins."""

    def step(self, number: int, replies: Sequence[CaseReply]) -> None:
        """A step begins; 0 is the start."""

    def done(self, _secrets: Collection[str]) -> str | None:
        """End a step, and return a fault of the model itself. Its argument: values that must not be
        recorded.
        """
        return None


class Scripted(Model):
    """The replies of the file. `tasks`: states that work without a user, where a reply is plain
    text.

    `lacking`: a request without a scripted reply.
    """

    def __init__(self, tasks: Collection[str] = ()) -> None:
        super().__init__(self)
        self.lacking: str | None = None
        self._tasks = tasks
        self._replies: Sequence[CaseReply] = ()
        self._used = 0
        self._calls = 0

    def step(self, _number: int, replies: Sequence[CaseReply]) -> None:
        """Prepare the replies of this step."""
        self._replies, self._used, self.lacking = replies, 0, None

    def done(self, _secrets: Collection[str]) -> str | None:
        """Report too few replies, or too many."""
        if self.lacking is not None:
            return self.lacking
        left = len(self._replies) - self._used
        if not left:
            return None
        return f"{left} of the scripted replies {'was' if left == 1 else 'were'} never asked for"

    def reply_form(self, _model: str | None) -> ReplyForm:
        """Return the form that takes values as an object."""
        return "object"

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the next reply.

        Raises:
            ModelError: A fault is scripted, or no reply is left.
        """
        if self._used >= len(self._replies):
            given = len(self._replies)
            told = "none is scripted"
            if given:
                told = f"only {given} {'is' if given == 1 else 'are'} scripted"
            self.lacking = (
                f"the model is asked for a reply in state {request.state!r}, and"
                f" {told} for this step{_why(request)}"
            )
            raise ModelError(self.lacking)
        reply = self._replies[self._used]
        self._used += 1
        self._calls += 1
        if reply.fault in _FAULTS:
            raise _FAULTS[reply.fault]()
        raw: Any = reply.raw
        if reply.tool_calls:
            listed = [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
            raw = {"tool_calls": listed, "text": reply.message}
        if isinstance(raw, dict) and "tool_calls" in raw:
            return scripted_reply(raw, self._calls)
        text = self._text(reply, request)
        if reply.fault == "empty":
            text = ""
        elif reply.fault == "cut_off":
            cut = scripted_reply(text[: len(text) // 2], self._calls)
            return structs.replace(cut, finish_reason="length")
        return scripted_reply(text, self._calls)

    def _text(self, reply: CaseReply, request: LLMRequest) -> str:
        if "raw" in reply.model_fields_set:
            return as_text(reply.raw)
        if reply.to is None and not reply.set and request.state in self._tasks:
            return reply.message
        update: JsonDict = dict(reply.set)
        if reply.clear:
            update["_clear"] = reply.clear
            update["_quotes"] = {**update.get("_quotes", {}), "_clear": _user_input(request)}
        target = request.state if reply.to is None else reply.to
        document: JsonDict = {
            "transition": {"target_state": target, "context_update": update},
            "message": reply.message,
        }
        if reply.question is not None:
            document["question"] = reply.question
        if reply.reasoning is not None:
            document["reasoning"] = reply.reasoning
        return in_unicode(document)


def _user_input(request: LLMRequest) -> str:
    """Return the user's message in a prompt, which proves what a script takes back."""
    for message in reversed(request.messages):
        _, found, rest = message.content.partition("<user_input>\n")
        if found:
            return str(json.loads(rest.partition("\n")[0]))
    return ""


def _why(request: LLMRequest) -> str:
    """Return the text about the reply before, if the model is asked again."""
    *_, before, last = request.messages if len(request.messages) > 2 else (None, None)
    if before is None or last is None or before.role != "assistant" or last.role != "user":
        return ""
    told = last.content.partition(" Answer <")[0]
    return f"; it is asked again, as it is told: {told[:_TOLD]}"
