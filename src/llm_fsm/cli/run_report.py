"""The report of a run: events as JSON data or as lines for a reader, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from msgspec.structs import asdict, replace

from llm_fsm._json import JsonDict, JsonMap, as_text
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.terminal import console, escape
from llm_fsm.cli.transcript import moment
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
    return escape.shortened(as_text(value), _SHORT)


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
        lines.append(f"until {moment(pause.expires)}")
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
        match event:
            case ev.ModelReplied():
                self.calls += 1
                self.tokens += event.input_tokens + event.output_tokens
                self.cost += event.cost
            case ev.ToolReturned():
                self.tools += 1
            case ev.StateEntered() | ev.Started() | ev.AttemptBegun() | ev.FlowReturned():
                self.state = event.state
            case ev.FlowPushed():
                self.state = event.entered or event.state

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
    match event:
        case ev.KeyResultChecked(passed=True):
            return "good", f"    ✓ {shown(event.name)} ({event.by})"
        case ev.KeyResultChecked(by=by, reason=reason):
            says = "not met: " if by == "logic" else ""  # the reason is then the criterion itself
            why = f": {says}{shown(reason)}" if reason else ""
            return "bad", f"    ✗ {shown(event.name)} failed ({by}){why}"
        case ev.AttemptFailed(attempt=attempt, failures=failures):
            reasons = "; ".join(f"{item['name']} ({item['reason']})" for item in failures)
            told = escape.shortened(reasons, 2 * _SHORT)
            more = "no more" if event.last else "once more"
            return "bad", f"  attempt {attempt} failed, {more}; not met: {told}"
        case ev.ToolReturned():
            return _of_call(event)
        case ev.ToolRefused(name=name, reason=reason):
            return "bad", f"    {shown(name)} refused: {shown(reason)}"
        case ev.Progressed(report=report):
            return "dim", f"    … {shown(report)}"
        case ev.Summarised(summary=summary):
            return "dim", f"    summary of {event.of}: {shown(summary)}"
    return _of_moves(event)


def _of_call(event: ev.ToolReturned) -> tuple[str, str]:
    result = event.result if event.error is None else f"error: {event.error}"
    took = f" ({event.seconds:.1f} s)" if event.seconds >= 0.05 else ""
    given = ", ".join(f"{key}={shown(value)}" for key, value in event.arguments.items())
    called = escape.shortened(f"{event.name}({given})", 2 * _SHORT)
    style = "plain" if event.error is None else "bad"
    return style, f"    {called} → {shown(result)}{took}"


def _of_moves(event: ev.Event) -> tuple[str, str] | None:
    match event:
        case ev.Started(state=state):
            return "head", f"● {state}"
        case ev.FlowPushed(kind="subflow"):
            return "head", f"● {event.entered}  (in {event.flow})"
        case ev.FlowReturned(state=state):
            return "head", f"● {state}  (back from {event.flow or 'a digression'})"
        case ev.StateEntered(state=state):
            return "head", f"● {state}  (by {event.by})"
        case ev.AttemptBegun(attempt=attempt) if attempt > 1:
            return "dim", f"  attempt {attempt}"
        case ev.LimitReached(limit="no_progress"):
            return "bad", "  it came back to where it was, and nothing had changed"
        case ev.LimitReached(limit=limit):
            return "bad", f"  the limit {limit} of {event.value:g} is reached"
        case ev.TimedOut():
            return "bad", "  nobody answered in time"
        case ev.Reminded():
            return "dim", "  it was time to remind"
        case ev.Answered(value=value):
            return "good", f"  answered: {shown(value)}"
        case ev.HandlerFailed(error=error):
            return "bad", f"  the handler {shown(event.handler)} failed: {shown(error)}"
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

    def ask(self, pause: Paused, _told: Sequence[str]) -> Any:
        """Nobody is there to be asked."""
        raise EOFError(pause.what)
