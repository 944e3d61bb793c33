"""What the host's functions and handlers returned in a conversation, as fixtures of a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonDict
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.effects import Point


def returned_in(program: CompiledMachine, events: ev.Events) -> Returned:
    """Return what the host gave in a conversation with these events.

    Args:
        program: The machine that it is held with.
        events: All its events, from the first one on.
    """
    found = Returned()
    session = Session(conversation_id="")
    for event in events:
        states = program.of(session).states
        if session.state in states:
            found.take(session, states[session.state], event)
        session = fold(session, (event,))
    return found


@dataclass(slots=True)
class Returned:
    """Follows the events of a conversation.

    Attributes:
        functions: The results of each function, in the order of its calls.
        handlers: The changes, words and refusals of handlers, each in its turn.
    """

    functions: dict[str, list[JsonDict]] = field(default_factory=dict)
    handlers: list[JsonDict] = field(default_factory=list)
    _result: JsonDict = field(default_factory=dict)

    def take(self, session: Session, state: CompiledState, event: ev.Event) -> None:
        """Read an event. `session` and `state` are those before it."""
        match event:
            case ev.ContextSet(source="host"):
                changes = {**event.values, **dict.fromkeys(event.removed)}
                if event.at:
                    self._handled(session, event.at, "set", changes)
                else:
                    self._result.setdefault("set", {}).update(changes)
            case ev.MoveRefused(by="veto"):
                self._handled(session, Point.PRE_TRANSITION, "veto", event.reason)
            case ev.BotSaid(handled=True):
                self._handled(session, Point.POST_PROCESSING, "text", event.text)
            case ev.AttemptBegun():
                self._result = {}
            case ev.FunctionFailed(kind="function"):
                self._result["error"] = event.error
            case ev.Paused(kind="break"):
                self._executed(state, ask=event.what)
            case ev.KeyResultChecked(by="registered"):
                [check] = [check for check in state.checks if check.name == event.name]
                verdict = {"passed": event.passed, "reason": event.reason}
                self.functions.setdefault(check.function, []).append(verdict)
            case ev.RoutePicked(error=None):
                self.functions.setdefault(event.function, []).append({"output": event.label})
            case ev.TaskPassed():
                self._executed(state, output=event.output)
            case ev.AttemptFailed():
                self._executed(state)

    def _executed(self, state: CompiledState, **result: Any) -> None:
        """Keep the result of the function that does the work of a state."""
        name = state.definition.execute
        if name is not None:
            self.functions.setdefault(name, []).append({**self._result, **result})
        self._result = {}

    def _handled(self, session: Session, at: str, what: str, value: Any) -> None:
        now = {"==": [{"var": "_turn"}, session.turn]}
        done = {"at": str(at), "state": session.state, "when": now, "times": 1, what: value}
        self.handlers.append(done)
