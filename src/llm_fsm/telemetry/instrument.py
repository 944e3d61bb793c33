"""Spans and metrics, made from events as they happen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from llm_fsm import __version__
from llm_fsm import events as ev
from llm_fsm._json import JsonDict
from llm_fsm.engine.observers import HostWork, TurnAborted, TurnSaved, observe, surround
from llm_fsm.session.redaction import is_foreign_name, redacted
from llm_fsm.telemetry import names

_SCOPE = "llm_fsm"
_NANO = 1_000_000_000


def instrument(
    *, tracer_provider: Any = None, meter_provider: Any = None, content: bool = False
) -> Callable[[], None]:
    """Make spans and metrics of every turn of this process.

    While a tool runs, its span is the current one. While a model, a handler or another function
    works, that of the turn is. A second call with the same providers takes the place of the first,
    so that nothing is counted twice.

    Args:
        tracer_provider: The provider of spans; None: the global one.
        meter_provider: The provider of metrics; None: the global one.
        content: True adds texts of people, models and tools as attributes, once their turn is on
            record. They may hold personal data. Dots take the place of values of secret keys.

    Returns:
        A function that ends it.

    Example:
        from llm_fsm.telemetry import instrument
        instrument()
    """
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
    meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
    made = _Instrument(tracer, _Meters(meter), content=content)
    key = ("telemetry", tracer_provider, meter_provider)
    stops = (observe(made.take, key=key), surround(made.around, key=key))

    def stop() -> None:
        for end in stops:
            end()

    return stop


class _Meters:
    """The metrics."""

    def __init__(self, meter: Any) -> None:
        def histogram(name: str, unit: str, buckets: tuple[float, ...], description: str) -> Any:
            return meter.create_histogram(
                name,
                unit=unit,
                description=description,
                explicit_bucket_boundaries_advisory=buckets,
            )

        seconds, tokens = names.SECOND_BUCKETS, names.TOKEN_BUCKETS
        self.tokens = histogram(names.TOKEN_USAGE, "{token}", tokens, "Tokens of a model call")
        self.operation = histogram(
            names.OPERATION_DURATION, "s", seconds, "Duration of a model call"
        )
        self.first_chunk = histogram(
            names.TIME_TO_FIRST_CHUNK, "s", seconds, "Time to the first words of a stream"
        )
        self.turn = histogram(names.TURN_DURATION, "s", seconds, "Duration of a turn")
        self.cost = meter.create_counter(names.TURN_COST, unit="USD", description="Cost of turns")


class _Content(NamedTuple):
    """The later content of an attribute of a span: a JSON value, or with a role the text of a
    message.
    """

    span: Any
    attribute: str
    value: Any
    role: str = ""

    def told(self, secrets: Sequence[str]) -> str:
        """Return the attribute, with dots in place of secrets."""
        shown = redacted(secrets, self.value, foreign=is_foreign_name)
        if self.role:
            return _message(self.role, shown)
        return shown if isinstance(shown, str) else _json(shown)


@dataclass(slots=True)
class _Turn:
    """A running turn: its span, its beginning, and true if text was shown.

    A turn may give a secret after it repeated it. So `contents` wait until the turn is on record,
    and so does the end of the spans that will hold them, with the time at which they ended.
    """

    span: Any
    context: Any
    began: float
    state: str = ""
    spoke: bool = False
    contents: list[_Content] = field(default_factory=list)
    ended: list[tuple[Any, int]] = field(default_factory=list)
    calls: dict[str, _ToolSpan] = field(default_factory=dict)
    """Calls of tools that ran, and are not on record yet, by their keys."""


@dataclass(slots=True)
class _ToolSpan:
    """A call of a tool that ran. `ended`: nanoseconds since the epoch."""

    name: str
    span: Any
    ended: int = 0


_last: ContextVar[tuple[str, _Turn] | None] = ContextVar("llm_fsm_last_turn", default=None)
"""The conversation and its turn that this task saved last. END_CONVERSATION handlers run after
that.
"""


class _Instrument:
    """Turns the events of conversations into spans and metrics."""

    def __init__(self, tracer: Any, meters: _Meters, *, content: bool) -> None:
        self._tracer = tracer
        self._meters = meters
        self._content = content
        self._names = names.convention(os.environ)
        self._turns: dict[str, _Turn] = {}

    def take(self, conversation_id: str, event: ev.Event) -> None:
        """Take an event."""
        turn = self._turns.get(conversation_id)
        if turn is None:
            if isinstance(event, TurnSaved | TurnAborted):
                return
            turn = self._begin(conversation_id)
        match event:
            case ev.ModelReplied():
                self._chat(turn, event)
            case ev.ToolReturned():
                self._tool(turn, event)
            case ev.MessageDelta():
                self._words(turn)
            case ev.PromptRead():
                pass
            case TurnSaved():
                self._saved(conversation_id, turn, event)
            case TurnAborted():
                self._aborted(conversation_id, turn, event)
            case _:
                self._note(turn, event)

    @contextmanager
    def around(self, work: HostWork) -> Generator[None]:
        """Make the span that the work belongs to the current one."""
        turn = self._turns.get(work.conversation_id)
        last = _last.get()
        if turn is None and last is not None and last[0] == work.conversation_id:
            turn = last[1]
        if turn is None:
            yield
            return
        match work.kind:
            case "tool":
                surrounding = self._calling(turn, work)
            case "model":
                surrounding = self._asking(turn, work)
            case _:
                surrounding = _current(turn.span)
        with surrounding:
            yield

    @contextmanager
    def _calling(self, turn: _Turn, work: HostWork) -> Generator[None]:
        """Begin the span of a call. `_tool` ends it, with the result."""
        span = self._child(turn, f"{names.EXECUTE_TOOL} {work.name}", SpanKind.INTERNAL, 0.0, {})
        call = turn.calls[work.key] = _ToolSpan(work.name, span)
        try:
            with _current(span):
                yield
        finally:
            call.ended = time.time_ns()

    @contextmanager
    def _asking(self, turn: _Turn, work: HostWork) -> Generator[None]:
        """Make a span of a request that fails. `_chat` makes those of replies."""
        began = time.monotonic()
        try:
            with _current(turn.span):
                yield
        except BaseException as error:
            self._chat_failed(turn, work.name, time.monotonic() - began, type(error).__name__)
            raise

    def _chat_failed(self, turn: _Turn, model: str, seconds: float, error: str) -> None:
        shared = {**self._model(model), names.ERROR_TYPE: error}
        name = f"{names.CHAT} {shared[names.REQUEST_MODEL]}".strip()
        span = self._child(turn, name, SpanKind.CLIENT, seconds, dict(shared))
        span.set_status(Status(StatusCode.ERROR))
        span.end()
        self._meters.operation.record(seconds, shared)

    def _model(self, full: str) -> JsonDict:
        """Return the attributes that name a model."""
        provider, _, model = full.rpartition("/")
        return {
            names.OPERATION: names.CHAT,
            self._names.provider: provider or "llm_fsm",
            names.REQUEST_MODEL: model or full,
        }

    def _begin(self, conversation_id: str) -> _Turn:
        span = self._tracer.start_span(
            names.INVOKE_AGENT,
            kind=SpanKind.INTERNAL,
            attributes={names.OPERATION: names.INVOKE_AGENT, names.CONVERSATION: conversation_id},
        )
        turn = _Turn(span, trace.set_span_in_context(span), time.monotonic())
        self._turns[conversation_id] = turn
        return turn

    def _note(self, turn: _Turn, event: ev.Event) -> None:
        span = turn.span
        match event:
            case ev.Started():
                turn.state = event.state
            case ev.UserSaid() if self._content:
                turn.contents.append(_Content(span, self._names.input_messages, event.text, "user"))
            case ev.BotSaid() if self._content:
                turn.contents.append(
                    _Content(span, self._names.output_messages, event.text, "assistant")
                )
            case ev.StateEntered():
                turn.state = event.state
                span.add_event(
                    names.TRANSITION,
                    {
                        names.PREVIOUS_STATE: event.previous,
                        names.STATE: event.state,
                        names.BY: event.by,
                    },
                )
            case ev.MoveRefused():
                span.add_event(names.REFUSED, {names.STATE: event.target, names.BY: event.by})
            case ev.Missed():
                span.add_event(names.MISSED, {"count": event.count})
            case ev.Paused():
                span.add_event(names.PAUSED, {names.KIND: event.kind, names.STATE: event.state})

    def _child(
        self, turn: _Turn, name: str, kind: SpanKind, seconds: float, attributes: JsonDict
    ) -> Any:
        began = time.time_ns() - int(seconds * _NANO)
        if turn.state:
            attributes[names.STATE] = turn.state
        return self._tracer.start_span(
            name, context=turn.context, kind=kind, start_time=began, attributes=attributes
        )

    def _chat(self, turn: _Turn, event: ev.ModelReplied) -> None:
        shared = self._model(event.model)
        model = shared[names.RESPONSE_MODEL] = shared[names.REQUEST_MODEL]
        attributes: JsonDict = {
            **shared,
            names.INPUT_TOKENS: event.input_tokens,
            names.OUTPUT_TOKENS: event.output_tokens,
            names.CACHED_TOKENS: event.cached_tokens,
            names.COST: event.cost,
            names.ASKED_FOR: event.asked_for,
        }
        if event.finish_reason:
            attributes[names.FINISH_REASONS] = (event.finish_reason,)
        span = self._child(
            turn, f"{names.CHAT} {model}", SpanKind.CLIENT, event.seconds, attributes
        )
        if self._content:
            turn.contents.append(
                _Content(span, self._names.output_messages, event.text, "assistant")
            )
        turn.ended.append((span, time.time_ns()))
        self._meters.tokens.record(event.input_tokens, {**shared, names.TOKEN_TYPE: "input"})
        self._meters.tokens.record(event.output_tokens, {**shared, names.TOKEN_TYPE: "output"})
        self._meters.operation.record(event.seconds, shared)

    def _tool(self, turn: _Turn, event: ev.ToolReturned) -> None:
        attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: event.name}
        if event.key:
            attributes[names.TOOL_CALL_ID] = event.key
        call = _call_of(turn, event)
        if call is None:  # the journal had its result, so it did not run now
            name = f"{names.EXECUTE_TOOL} {event.name}"
            span = self._child(turn, name, SpanKind.INTERNAL, event.seconds, attributes)
        else:
            span = call.span
            span.set_attributes(attributes)
        if event.error is not None:
            span.set_attribute(names.ERROR_TYPE, "ToolError")
            span.set_status(Status(StatusCode.ERROR))
        if self._content:
            result = event.error or _json(event.result)
            turn.contents.append(_Content(span, self._names.tool_arguments, event.arguments))
            turn.contents.append(_Content(span, self._names.tool_result, result))
        turn.ended.append((span, time.time_ns() if call is None else call.ended or time.time_ns()))

    def _words(self, turn: _Turn) -> None:
        if not turn.spoke:
            turn.spoke = True
            self._meters.first_chunk.record(
                time.monotonic() - turn.began, {names.OPERATION: names.CHAT}
            )

    def _saved(self, conversation_id: str, turn: _Turn, event: TurnSaved) -> None:
        self._over(conversation_id, turn)
        _last.set((conversation_id, turn))
        span = turn.span
        for content in turn.contents:
            content.span.set_attribute(content.attribute, content.told(event.secrets))
        _end(turn)
        span.update_name(f"{names.INVOKE_AGENT} {event.definition}")
        span.set_attributes(
            {
                names.TURN: event.turn,
                names.KIND: event.kind,
                names.ENDED: event.ended,
                names.CALLS: event.usage.calls,
                names.INPUT_TOKENS: event.usage.input_tokens,
                names.OUTPUT_TOKENS: event.usage.output_tokens,
                names.COST: event.usage.cost,
            }
        )
        shared = {names.AGENT_NAME: event.definition, names.STATE: event.state}
        if event.release:
            shared |= {names.RELEASE: event.release, names.ARM: event.arm}
        span.set_attributes(shared)
        span.end()
        self._meters.turn.record(event.seconds, {**shared, names.KIND: event.kind})
        if event.usage.cost:
            self._meters.cost.add(event.usage.cost, shared)

    def _over(self, conversation_id: str, turn: _Turn) -> None:
        del self._turns[conversation_id]
        for call in turn.calls.values():  # calls of a function that failed are not on record
            turn.ended.append((call.span, call.ended or time.time_ns()))

    def _aborted(self, conversation_id: str, turn: _Turn, event: TurnAborted) -> None:
        self._over(conversation_id, turn)
        _end(turn)
        turn.span.update_name(f"{names.INVOKE_AGENT} {event.definition}")
        turn.span.set_attributes(
            {names.AGENT_NAME: event.definition, names.ERROR_TYPE: event.error}
        )
        turn.span.set_status(Status(StatusCode.ERROR))
        turn.span.end()
        self._meters.turn.record(
            event.seconds, {names.AGENT_NAME: event.definition, names.ERROR_TYPE: event.error}
        )


def _end(turn: _Turn) -> None:
    """End the spans within a turn."""
    for span, at in turn.ended:
        span.end(at)


def _current(span: Any) -> Any:
    """Make a span the current one, without ending it or noting errors."""
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


def _call_of(turn: _Turn, event: ev.ToolReturned) -> _ToolSpan | None:
    """Take the call that an event is about; None if it did not run in this turn."""
    if event.key in turn.calls:
        return turn.calls.pop(event.key)
    # A function that runs again makes its calls under other keys than those on record.
    key = next(
        (key for key, call in turn.calls.items() if call.ended and call.name == event.name), None
    )
    return None if key is None else turn.calls.pop(key)


def _message(role: str, text: str) -> str:
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
