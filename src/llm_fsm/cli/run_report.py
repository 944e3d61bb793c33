"""The report of a run: events as JSON data or as lines for a reader, and the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from msgspec.structs import asdict, replace

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.terminal import console, escape
from llm_fsm.engine.conversation import Turn
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Paused
from llm_fsm.session.redaction import shown_event, shown_values
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine

FAILED = 1
CODES: Mapping[str, int] = {
    "passed": exits.OK,
    "paused": exits.PAUSED,
    "": exits.PAUSED,
    "exhausted": FAILED,
    "limited": FAILED,
    "failed": FAILED,
    "closed": FAILED,
    "cancelled": FAILED,
    "handover": FAILED,
}
"""Outcome to exit code. Words that final states declare are 0. "" is a run that has come to a state
which talks.
"""

_SHORT = 100
_MOST_LINES = 30


def data_of(program: CompiledMachine, event: ev.Event) -> JsonDict:
    """An event as JSON, values of secret keys as dots."""
    if isinstance(event, ev.Paused):
        # it holds the prompts of a model, for nobody but the machine
        event = replace(event, loop=None)
    return shown_event(event, program.is_secret)


def outcome_of(program: CompiledMachine, turn: Turn) -> JsonDict:
    """Return the outcome of a run as JSON: the last line of a run that is piped."""
    document: JsonDict = {
        "type": "Outcome",
        "outcome": turn.outcome or "talking",
        "conversation": turn.conversation_id,
        "state": turn.state,
        "output": turn.output,
        "text": turn.text,
        "context": shown_values(turn.context, program.is_secret),
    }
    if turn.paused is not None:
        document["paused"] = asdict(turn.paused)
    return {**document, "usage": asdict(turn.usage)}


def shown(value: object) -> str:
    """A value, in short."""
    return escape.shortened(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _SHORT
    )


def before(program: CompiledMachine, session: Session) -> list[str]:
    """Return what somebody reads before they answer: the purpose of the state that waits, and the
    output so far.
    """
    pause, machine = session.pause, program.at(session)
    if pause is None or pause.kind != "wait" or machine is None:
        return []
    state = machine.definition.states.get(pause.state)
    lines = [state.purpose or state.description] if state is not None else []
    if session.input is not None:
        text = session.input if isinstance(session.input, str) else escape.as_json(session.input)
        every = escape.words(text).splitlines()
        lines += ["The output so far:", *(f"  {line}" for line in every[:_MOST_LINES])]
        if len(every) > _MOST_LINES:
            lines.append(f"  … {escape.plural(len(every) - _MOST_LINES, 'more line')}")
    return [line for line in lines if line]


def waiting(pause: Paused, *, with_schema: bool = True) -> list[str]:
    """Return what is waited for, for a reader: one line each."""
    names = {
        "wait": "waits for",
        "approval": "asks for approval of",
        "break": "asks for an answer about",
        "unknown_outcome": "does not know what became of",
    }
    lines = [f"{names[pause.kind]} {pause.what} (state {pause.state})"]
    if pause.call is not None:
        lines.append(f"call: {pause.call['name']} {shown(pause.call['arguments'])}")
        if "result" in pause.call:
            lines.append(f"its result: {shown(pause.call['result'])}")
    if pause.kind == "unknown_outcome":
        lines.append(
            'answer {"repeat": true} to make the call again, or what came of it: {"result": …} or {"error": "…"}'
        )
    elif pause.schema and with_schema:
        lines.append(f"an answer fits {escape.as_json(dict(pause.schema), None)}")
    if pause.expires is not None:
        moment = datetime.fromtimestamp(pause.expires, UTC).isoformat(timespec="seconds")
        lines.append(f"until {moment}")
    return lines


@dataclass(slots=True)
class RunTally:
    """The numbers that a run has used so far, and the state it is in."""

    calls: int = 0
    tools: int = 0
    tokens: int = 0
    cost: float = 0.0
    state: str = ""

    def take(self, event: ev.Event) -> None:
        """Count an event."""
        if isinstance(event, ev.ModelReplied):
            self.calls += 1
            self.tokens += event.input_tokens + event.output_tokens
            self.cost += event.cost
        elif isinstance(event, ev.ToolReturned):
            self.tools += 1
        elif isinstance(event, ev.StateEntered | ev.Started | ev.AttemptBegun):
            self.state = event.state
        elif isinstance(event, ev.FlowPushed):
            self.state = event.entered or event.state
        elif isinstance(event, ev.FlowReturned):
            self.state = event.state

    def text(self) -> str:
        """The counts for a reader."""
        parts = [escape.plural(self.calls, "model call"), escape.plural(self.tools, "tool call")]
        parts.append(f"{self.tokens:,} tokens")
        if self.cost:
            parts.append(f"${self.cost:.4f}")
        return " · ".join(parts)


def line_of(event: ev.Event) -> tuple[str, str] | None:
    """An event for a reader: (style, line); None for what is not worth a line. Styles: head, good,
    bad, plain, dim.
    """
    if isinstance(event, ev.KeyResultChecked):
        if event.passed:
            return "good", f"    ✓ {shown(event.name)} ({event.by})"
        says = "not met: " if event.by == "logic" else ""  # the reason is then the criterion itself
        reason = f": {says}{shown(event.reason)}" if event.reason else ""
        return "bad", f"    ✗ {shown(event.name)} failed ({event.by}){reason}"
    if isinstance(event, ev.AttemptFailed):
        reasons = "; ".join(f"{item['name']} ({item['reason']})" for item in event.failures)
        more = "no more" if event.last else "once more"
        return (
            "bad",
            f"  attempt {event.attempt} failed, {more}; not met: {escape.shortened(reasons, 2 * _SHORT)}",
        )
    return _of_tools(event) or _of_moves(event)


def _of_tools(event: ev.Event) -> tuple[str, str] | None:
    if isinstance(event, ev.ToolReturned):
        result = f"error: {event.error}" if event.error is not None else event.result
        took = f" ({event.seconds:.1f} s)" if event.seconds >= 0.05 else ""
        called = f"{event.name}({', '.join(f'{key}={shown(value)}' for key, value in event.arguments.items())})"
        style = "plain" if event.error is None else "bad"
        return style, f"    {escape.shortened(called, 2 * _SHORT)} → {shown(result)}{took}"
    if isinstance(event, ev.ToolRefused):
        return "bad", f"    {shown(event.name)} refused: {shown(event.reason)}"
    if isinstance(event, ev.Progressed):
        return "dim", f"    … {shown(event.report)}"
    if isinstance(event, ev.Summarised):
        return "dim", f"    summary of {event.of}: {shown(event.summary)}"
    return None


def _of_moves(event: ev.Event) -> tuple[str, str] | None:
    if isinstance(event, ev.Started):
        return "head", f"● {event.state}"
    if isinstance(event, ev.FlowPushed) and event.kind == "subflow":
        return "head", f"● {event.entered}  (in {event.flow})"
    if isinstance(event, ev.FlowReturned):
        return "head", f"● {event.state}  (back from {event.flow or 'a digression'})"
    if isinstance(event, ev.StateEntered):
        return "head", f"● {event.state}  (by {event.by})"
    if isinstance(event, ev.AttemptBegun):
        return ("dim", f"  attempt {event.attempt}") if event.attempt > 1 else None
    if isinstance(event, ev.LimitReached) and event.limit == "no_progress":
        return "bad", "  it came back to where it was, and nothing had changed"
    if isinstance(event, ev.LimitReached):
        return "bad", f"  the limit {event.limit} of {event.value:g} is reached"
    if isinstance(event, ev.TimedOut):
        return "bad", "  nobody answered in time"
    if isinstance(event, ev.Reminded):
        return "dim", "  it was time to remind"
    if isinstance(event, ev.Answered):
        return "good", f"  answered: {shown(event.value)}"
    if isinstance(event, ev.HandlerFailed):
        return "bad", f"  the handler {shown(event.handler)} failed: {shown(event.error)}"
    return None


class View(Protocol):
    """The display of a run."""

    def take(self, event: ev.Event) -> None:
        """Show an event."""

    def during(self, work: Callable[[], Turn]) -> Turn:
        """Do the work while it is watched."""

    def ended(self, turn: Turn) -> None:
        """Show how the run stands."""

    def parked(self, conversation_id: str, again: str) -> None:
        """Show that the run was left in the middle."""

    def ask(self, pause: Paused, told: Sequence[str]) -> Any:
        """Return what a person answers who has read `told`. Raises EOFError if there is nobody now."""


class JsonLines:
    """A run on standard output, one JSON object a line."""

    def __init__(self, program: CompiledMachine, stream: TextIO | None = None) -> None:
        self._program = program
        self._stream = stream

    def take(self, event: ev.Event) -> None:
        """Print an event."""
        self._print(data_of(self._program, event))

    def during(self, work: Callable[[], Turn]) -> Turn:
        """Do the work."""
        return work()

    def ended(self, turn: Turn) -> None:
        """Print the outcome; what is waited for is said on standard error, too."""
        self._print(outcome_of(self._program, turn))
        if turn.paused is not None:
            for line in waiting(turn.paused):
                console.note(line)

    def parked(self, conversation_id: str, again: str) -> None:
        """Print that there is no outcome yet."""
        document = {
            "type": "Outcome",
            "outcome": "parked",
            "conversation": conversation_id,
            "resume": again,
        }
        self._print(document)

    def _print(self, document: JsonMap) -> None:
        console.json(document, indent=None, to=self._stream)

    def ask(self, pause: Paused, told: Sequence[str]) -> Any:  # noqa: ARG002
        """Nobody is there to be asked."""
        raise EOFError(pause.what)
