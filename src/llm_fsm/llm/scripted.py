"""A model that answers from a list: the double for tests, demonstrations and benchmarks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from llm_fsm._json import JsonDict, JsonMap, as_text
from llm_fsm.documents.files import read_replies
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import in_pieces
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm, ToolCall

Words: TypeAlias = str | JsonDict
ScriptedReply: TypeAlias = Words | BaseException | Callable[[LLMRequest], Words]


class ScriptedLLM:
    """A model that takes the next reply of a list for each call.

    A reply that is text is answered as it is, and a dict as its JSON. A dict with `tool_calls`, as
    `calls` makes it, calls tools. An exception is raised. A callable receives the request and
    returns a text or dict.

    Args:
        replies: The replies, in order.
        loop: True starts again after the last reply. Otherwise, a further call raises ModelError.

    Attributes:
        requests: Every request, in order. If a callable is among the replies, requests carry the
            view of the turn.

    Raises:
        TypeError: The replies are no list, or one has another type.
    """

    def __init__(self, replies: Sequence[ScriptedReply], *, loop: bool = False) -> None:
        if isinstance(replies, str | dict):
            raise TypeError(
                f"ScriptedLLM takes a list of replies, not one {type(replies).__name__}"
            )
        self.requests: list[LLMRequest] = []
        self._replies = [_prepare(reply, number) for number, reply in enumerate(replies, start=1)]
        self._loop = loop
        self._skipped = 0
        self.reads_view = any(callable(reply) for reply in self._replies)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.remaining} of {len(self._replies)} replies left>"

    @classmethod
    def from_file(cls, path: str | Path, *, loop: bool = False) -> ScriptedLLM:
        """Read the replies from a JSON file: a list of texts and objects, or {"replies": [...]}.

        Args:
            path: The file.
            loop: True starts again after the last reply.

        Returns:
            The model.

        Raises:
            ConfigurationError: The file cannot be read, or has another form.
        """
        return cls(_read_replies(Path(path)), loop=loop)

    @property
    def remaining(self) -> int:
        """Number of replies that are left; with `loop`, until the list starts again."""
        used, total = self._skipped + len(self.requests), len(self._replies)
        if self._loop and total:
            return total - used % total
        return max(0, total - used)

    def begins_with(self, used: JsonMap) -> bool:
        """Return true if the first reply has the text and the calls of one that was recorded.

        Args:
            used: The reply as {"text", "calls" or "tool_calls"}; a call has a "name".
        """
        first = self._replies[0] if self._replies else None
        if not isinstance(first, ModelReply):
            return False
        called = used.get("calls") or used.get("tool_calls", ())
        names = [call["name"] for call in called]
        return first.text == used.get("text", "") and names == [
            call.name for call in first.tool_calls
        ]

    def skip(self, number: int) -> None:
        """Leave out the next replies, because a conversation that goes on has used them.

        Args:
            number: How many.

        Example:
            >>> llm = ScriptedLLM(["Hello!", "Goodbye!"])
            >>> llm.skip(1)
            >>> llm.remaining
            1
        """
        self._skipped += number

    def reply_form(self, _model: str | None) -> ReplyForm:
        """Return the form of its replies.

        Args:
            model: The name of the model, which does not matter.

        Returns:
            The form that takes values as an object.
        """
        return "object"

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the next reply.

        Args:
            request: The request, which is added to `requests`.

        Returns:
            The reply.

        Raises:
            ModelError: No reply is left.
            Exception: The next item of the list is this exception.
        """
        index, total = self._skipped + len(self.requests), len(self._replies)
        self.requests.append(request)
        if index >= total:
            if not (self._loop and total):
                raise _used_up(total, index + 1, request)
            index %= total
        reply = self._replies[index]
        match reply:
            case ModelReply():
                return reply
            case BaseException():
                raise reply
        made = _prepare(reply(request), index + 1)
        if isinstance(made, ModelReply):
            return made
        raise TypeError(
            f"scripted reply {index + 1}: the callable returned another callable or an exception"
        )

    def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Yield the text of the next reply in pieces of a few characters, and the reply last.

        Args:
            request: The request, which is added to `requests`.

        Yields:
            Pieces of text, then the reply.

        Raises:
            ModelError: No reply is left.
        """
        return in_pieces(self, request)


def calls(*wanted: tuple[str, JsonMap | str], text: str = "") -> JsonDict:
    """Make a reply that calls tools, for scripts.

    Args:
        wanted: (tool, arguments) pairs. Arguments that are a text are sent as they are, so they may
            be broken.
        text: Text beside the calls.

    Returns:
        The reply as JSON data.

    Example:
        >>> calls(("lookup", {"id": 7}))["tool_calls"]
        [{'name': 'lookup', 'arguments': {'id': 7}}]
    """
    listed = [{"name": name, "arguments": arguments} for name, arguments in wanted]
    return {"tool_calls": listed, "text": text}


def scripted_calls(reply: JsonMap, number: int) -> tuple[ToolCall, ...]:
    """Return the calls of a scripted reply.

    Args:
        reply: The reply. A call is {"name", "arguments"}, or that under "function", as in OpenAI's
            form.
        number: Number of the reply, from which ids are made.

    Raises:
        TypeError: The calls have another form.
    """
    listed = reply["tool_calls"]
    if not isinstance(listed, list | tuple):
        raise TypeError(f"scripted reply {number}: tool_calls is a list of {{name, arguments}}")
    made = []
    for place, call in enumerate(listed, start=1):
        asked = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(asked, Mapping) or not isinstance(asked.get("name"), str):
            raise TypeError(
                f"scripted reply {number}: call {place} is no object with a name and arguments"
            )
        arguments = asked.get("arguments", {})
        text = as_text(arguments)
        made.append(
            ToolCall(
                id=str(call.get("id") or f"call_{number}_{place}"),
                name=asked["name"],
                arguments=text,
            )
        )
    return tuple(made)


def scripted_reply(reply: Words, number: int) -> ModelReply:
    """Return a reply of a script as a model gives it.

    Args:
        reply: A text, or an object, which is sent as JSON. One with `tool_calls` calls tools; its
            text is `text`, `message`, or `content` as in OpenAI's form.
        number: Number of the reply, from which ids are made.

    Raises:
        TypeError: The calls have another form.
    """
    calls: tuple[ToolCall, ...] = ()
    if isinstance(reply, str):
        text = reply
    elif "tool_calls" in reply:
        calls = scripted_calls(reply, number)
        text = str(reply.get("text") or reply.get("message") or reply.get("content") or "")
    else:
        text = json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
    return ModelReply(
        text=text,
        model="scripted",
        mode="scripted",
        finish_reason="tool_calls" if calls else "stop",
        tool_calls=calls,
    )


def _prepare(
    reply: ScriptedReply, number: int
) -> ModelReply | BaseException | Callable[[LLMRequest], Words]:
    if isinstance(reply, dict | str):
        return scripted_reply(reply, number)
    if isinstance(reply, BaseException) or callable(reply):
        return reply
    raise TypeError(
        f"scripted reply {number} is a {type(reply).__name__}; give a text, dict, exception or callable"
    )


def _used_up(total: int, asked: int, request: LLMRequest) -> ModelError:
    state = request.state or (request.view.state if request.view else "")
    where = f" in state {state!r}" if state else ""
    return ModelError(
        f"the script has {total} {'reply' if total == 1 else 'replies'}, and call {asked}{where} asks for "
        "one more; add a reply, or use loop=True"
    )


def _read_replies(path: Path) -> list[ScriptedReply]:
    try:
        content = json.loads(read_replies(path))
    except OSError as error:
        raise ConfigurationError(
            f"scripted replies: cannot read {path}: {error.strerror or error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"scripted replies: {path} is not JSON: {error}") from error
    replies = content.get("replies") if isinstance(content, dict) else content
    if not isinstance(replies, list):
        raise ConfigurationError(
            f'scripted replies: {path} holds no list; write ["…", {{…}}] or {{"replies": […]}}'
        )
    for number, reply in enumerate(replies, start=1):
        if not isinstance(reply, str | dict):
            raise ConfigurationError(
                f"scripted replies: reply {number} of {path} is a {type(reply).__name__}; "
                "each is a text or an object"
            )
    return replies
