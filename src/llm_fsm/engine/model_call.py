"""Ask the host's model or summariser one question, within its time, with one kind of error."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from msgspec.structs import replace

from llm_fsm._async import DeadlineExceeded, in_time, in_words, is_cancelled
from llm_fsm._json import plain, read
from llm_fsm.definition.models import Limits
from llm_fsm.errors import LLMFSMError, ModelError, UnreadableError, told
from llm_fsm.llm.base import LLM, Listener, listened
from llm_fsm.llm.refusals import context_in
from llm_fsm.llm.retry import LONGER
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.tools.executor import called
from llm_fsm.tools.task_functions import thread_of
from llm_fsm.turn.effects import AskModel
from llm_fsm.turn.prompt.render import call_sizes
from llm_fsm.turn.prompt.shorten import shortened, size_of
from llm_fsm.turn.tool_results import result_value

_COUNTS = ("attempts", "input_tokens", "output_tokens", "cached_tokens", "cost")
_LEAST = (*((name, 0) for name in _COUNTS), ("seconds", -math.inf))
"""The numbers of a reply, and the lowest value of each. Clocks may go back, so `seconds` has
none."""
_SHARE = 0.8
"""The share of a context that a prompt may fill: tokens are estimated, and the reply takes some."""
_LEAST_READ = 0.5
"""The share of the estimated tokens that a server reads at least."""
_CERTAIN = 1000
"""Tokens that a cut takes at least. Of short prompts an estimate is too rough."""
_log = logging.getLogger(__name__)
_UNPAID = frozenset({"offline", "scripted", "function"})


async def ask(
    llm: LLM,
    effect: AskModel,
    left: float | None,
    whole: float | None,
    listener: Listener | None = None,
    *,
    rooms: dict[str, int] | None = None,
) -> ModelReply:
    """Ask the model. A question that is longer than its context is asked in a shorter form.

    Args:
        llm: The model.
        effect: The question.
        left: Seconds that it may take; None: no limit.
        whole: Seconds of the whole turn, for the error message.
        listener: Receives the reply while it arrives.
        rooms: The estimated tokens that fit, by the name of a model. What is learnt is added.

    Raises:
        ModelError: The model failed, or the shortest question does not fit.
        LLMFSMError: The adapter raised it.
    """
    known = {} if rooms is None else rooms
    request = effect.request
    name = request.model or str(getattr(llm, "name", ""))
    most = known.get(name, request.context)
    refused = 0
    while True:
        sent, left_out = (request, ()) if most is None else shortened(request, most)
        try:
            reply = await _asked(llm, effect._replace(request=sent), left, whole, listener)
        except ModelError as error:
            # Only a prompt that is too long can be helped by another one.
            if error.refusal != "size":
                raise
            size = size_of(sent)
            # The error may name the size of the context. If not, a part of what was sent must do.
            most = int(min(context_in(str(error)) or size, size) * _SHARE)
            # Nothing more can be left out, so the loop ends here.
            if size_of(shortened(request, most)[0]) >= size:
                raise _too_long(error, sent) from error
            # Remembered, so that the next turn does not run into the same refusal.
            known[name] = most
            # A refused prompt is a call that was made, and counts against the limits.
            refused += max(error.attempts, 1)
            continue
        _learn(known, name, sent, reply)
        return replace(reply, left_out=left_out, attempts=reply.attempts + refused)


def _learn(known: dict[str, int], name: str, sent: LLMRequest, reply: ModelReply) -> None:
    """Notice a server that cut the prompt in silence: it read much less than was sent."""
    # A server that reports no tokens says 0, which proves nothing.
    size, told = size_of(sent), reply.input_tokens
    if told and told < size * _LEAST_READ and size - told > _CERTAIN:
        known[name] = told
        _log.warning(
            "the model %r read %d of about %d tokens: its context is too small. Later prompts are "
            "shortened; set model.context to its size, or give the server more",
            reply.model or name,
            told,
            size,
        )


def _too_long(error: ModelError, sent: LLMRequest) -> ModelError:
    parts = ", ".join(f"{name} {tokens}" for name, tokens in call_sizes(sent).items())
    said = f"{error}; even without history the prompt is too long (estimated tokens: {parts})"
    return ModelError(said, status=error.status, refusal=error.refusal)


async def _asked(
    llm: LLM, effect: AskModel, left: float | None, whole: float | None, listener: Listener | None
) -> ModelReply:
    """Ask the model once.

    An adapter with a true `keeps_time` ends `complete` in time by itself. `where` is its name in
    errors.

    Raises:
        ModelError: The model failed, or the adapter raised any other error, which is named.
        LLMFSMError: The adapter raised it.
    """
    request = effect.request if left is None else replace(effect.request, timeout=left)
    keeps_time = getattr(llm, "keeps_time", False)
    # The view costs time, and only models without a prompt read it.
    if getattr(llm, "reads_view", False):
        request = replace(request, view=effect.view())
    if listener is not None:
        request = replace(request, reading=getattr(listener, "reading", None))
    reply: object
    try:
        if listener is None:
            work = llm.complete(request)
            reply = await work if left is None or keeps_time else await in_time(work, left)
        elif left is None or keeps_time:
            reply = await listened(llm, request, listener)
        else:
            reply = await _heard_in_time(llm, request, listener, left)
    except DeadlineExceeded as error:
        seconds = in_words(whole or left or 0.0)
        where = getattr(llm, "where", "the model")
        raise ModelError(
            f"{where} did not answer within {seconds} seconds; {LONGER}", retryable=True
        ) from error
    except TimeoutError as error:
        raise _fault(llm, error, retryable=True) from error
    except LLMFSMError:
        raise
    except asyncio.CancelledError as error:
        # A cancelled turn ends. An adapter that cancels itself has failed like any other.
        if is_cancelled():
            raise
        raise _fault(llm, error) from error
    except Exception as error:
        raise _fault(llm, error) from error
    return _checked(llm, reply)


async def summarised(
    function: Callable[..., Any], effect: AskModel, left: float | None
) -> ModelReply:
    """Ask the host's summariser. It returns text or {"summary", "todo_list"}.

    Raises:
        ModelError: It failed.
    """
    # The host's function may change what it is given.
    about = deepcopy(dict(effect.about or {}))
    try:
        limit = math.inf if left is None else left
        made = result_value(await called(limit, partial(function, about), thread_of(function)))
    except Exception as error:
        raise ModelError(f"the summarizer failed: {told(error):.500}") from error
    reply = {"summary": made} if isinstance(made, str) else made
    return ModelReply(text=json.dumps(reply), model="summarizer", mode="function")


class _Postponing:
    """A listener that lets a time-out begin anew with each piece."""

    def __init__(self, listener: Listener, timer: asyncio.Timeout, seconds: float) -> None:
        self._listener = listener
        self._timer = timer
        self._seconds = seconds

    @property
    def shown(self) -> bool:
        return self._listener.shown

    @shown.setter
    def shown(self, value: bool) -> None:
        self._listener.shown = value

    async def take(self, piece: str) -> None:
        # Before the piece is shown: a slow reader is no silence of the model.
        self._timer.reschedule(asyncio.get_running_loop().time() + self._seconds)
        await self._listener.take(piece)

    def give_up(self) -> None:
        self._listener.give_up()


async def _heard_in_time(
    llm: LLM, request: LLMRequest, listener: Listener, seconds: float
) -> object:
    """Return a streamed reply. Raises DeadlineExceeded if nothing arrives for some seconds."""
    try:
        async with asyncio.timeout(seconds) as timer:
            return await listened(llm, request, _Postponing(listener, timer, seconds))
    except TimeoutError as error:
        # Any other TimeoutError is the adapter's own.
        if timer.expired():
            raise DeadlineExceeded from error
        raise


def is_counted(limits: Limits) -> bool:
    """Return true if a limit depends on numbers in replies."""
    return _bounds(limits, "money") or _bounds(limits, "tokens")


def _bounds(limits: Limits, figure: str) -> bool:
    """Return true if the limits bound a figure, of one run or of many."""
    quotas = [quota for _, quota in limits.per]
    return any(getattr(one, figure, None) for one in (limits, *quotas))


def unmeasured(limits: Limits, reply: ModelReply) -> str | None:
    """Name the limits that stop nothing, because replies do not report their numbers; None: all
    can."""
    if reply.mode in _UNPAID:
        return None
    reported = {"money": reply.cost, "tokens": reply.input_tokens or reply.output_tokens}
    found = [name for name, figure in reported.items() if not figure and _bounds(limits, name)]
    if not found:
        return None
    return (
        f"limits of {' and '.join(found)} stop nothing: model {reply.model!r:.100} reports no such "
        "figure; limits.llm_calls counts always"
    )


def _checked(llm: LLM, reply: object) -> ModelReply:
    """Return the reply with the types in which it is stored, so that it can be read again."""
    who = f"the model object {type(llm).__name__}"
    if not isinstance(reply, ModelReply):
        raise ModelError(f"{who} gave a {type(reply).__name__}; it must give a ModelReply")
    try:
        # Adapters of hosts may give numbers of other types, such as those of numpy.
        checked = read(plain(reply), ModelReply, f"{who} gave a wrong ModelReply", strict=False)
    except (UnreadableError, TypeError) as error:
        raise ModelError(str(error)) from None
    for name, least in _LEAST:
        value = getattr(checked, name)
        if not least <= value < math.inf:  # no limit would be reached by it
            raise ModelError(f"{who} gave {name} as {value}, which nothing can take")
    return checked


def _fault(llm: LLM, error: BaseException, *, retryable: bool = False) -> ModelError:
    return ModelError(
        f"the model object {type(llm).__name__} raised {told(error):.500}", retryable=retryable
    )
