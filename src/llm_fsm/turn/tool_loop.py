"""The model-and-tools loop: the model is asked until it answers without calling tools.

A call runs only if the state lists its tool. What it brings back goes to the model as JSON, and to the
context through the tool's declared `output` alone. Where a person must be asked, the loop stops in the
middle. The session then holds everything that it needs to go on there when the answer comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import asdict, replace

from llm_fsm._json import read
from llm_fsm._text import cut, escaped
from llm_fsm.session import events as ev
from llm_fsm.session import memory as buckets
from llm_fsm.session.memory import Memory
from llm_fsm.session.messages import LLMMessage, LLMRequest, ModelReply, ToolCall, ToolSpec
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Exchange, Session
from llm_fsm.turn import model
from llm_fsm.turn.available import AvailableMoves
from llm_fsm.turn.effects import AskedFor, CallTools, Effect, PlannedCall, Result, ToolResult, ToolResults
from llm_fsm.turn.output_mapping import accept_output, masked, secrets_in
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments
from llm_fsm.turn.tool_policy import NO_TOOLS, call_key
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import TurnState

_REASON_CHARS = 2000
APPROVAL: Mapping[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
OUTCOME: Mapping[str, Any] = {
    "type": "object",
    "properties": {"repeat": {"const": True}, "result": {}, "error": {"type": "string"}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
"""The answer about a call whose outcome is unknown: do it again, or what came of it."""


class Heard(NamedTuple):
    """The message of the user that a loop answers, and the exchanges before it."""

    user: str | None
    window: tuple[Exchange, ...]


def heard_by(session: Session) -> Heard:
    """Return the message of the turn under way; after a pause, that of the last exchange that has one."""
    if session.user_input is not None:
        return Heard(session.user_input, session.window)
    for place in range(len(session.window) - 1, -1, -1):
        if session.window[place][0] is not None:
            return Heard(session.window[place][0], session.window[:place])
    return Heard(None, session.window)


class Loop:
    """One question to the model and the calls that its last reply asks for.

    `keys`: call id to idempotency key. `answers`: call id to what a person answered. `done`: call id to the outcome,
    one of {"value"}, {"error"} and {"unknown"}. `tries`: replies that did not stand. `heard`: the message, of a turn.
    """

    __slots__ = ("answers", "asked_for", "calls", "done", "heard", "keys", "look", "refused", "request", "tries")

    def __init__(
        self, asked_for: AskedFor, request: LLMRequest, available: AvailableMoves, heard: Heard | None = None
    ) -> None:
        self.asked_for = asked_for
        self.heard = heard
        self.request = request
        self.look = available
        self.refused: tuple[str, ...] = ()
        self.tries = 0
        self.calls: tuple[ToolCall, ...] = ()
        self.keys: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.done: dict[str, dict[str, Any]] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return all that the loop needs to go on later, as JSON."""
        return {
            "asked_for": self.asked_for,
            "messages": [
                {**asdict(message), "tool_calls": [asdict(call) for call in message.tool_calls]}
                for message in self.request.messages
            ],
            "refused": list(self.refused),
            "tries": self.tries,
            "calls": [asdict(call) for call in self.calls],
            "keys": dict(self.keys),
            "answers": dict(self.answers),
            "done": dict(self.done),
            **({} if self.heard is None else {"heard": [self.heard.user, list(map(list, self.heard.window))]}),
        }

    def take_up(self, document: Mapping[str, Any]) -> Loop:
        """Go on where a loop of the same kind stopped."""
        messages = read(document["messages"], tuple[LLMMessage, ...], "a paused loop cannot be read: messages")
        self.request = replace(self.request, messages=messages)
        self.refused = tuple(document["refused"])
        self.tries = document["tries"]
        self.calls = read(document["calls"], tuple[ToolCall, ...], "a paused loop cannot be read: calls")
        self.keys = dict(document["keys"])
        self.answers = dict(document["answers"])
        self.done = dict(document["done"])
        if "heard" in document:
            self.heard = read(document["heard"], Heard, "a paused loop cannot be read: heard")
        return self

    def reopen(self, request: LLMRequest, available: AvailableMoves) -> None:
        """Ask for what `request` does about the message of this loop, with all that was called and answered since."""
        since = self.request.messages[len(request.messages) :]
        self.request, self.look = replace(request, messages=(*request.messages, *since)), available

    def begin(self, reply: ModelReply) -> None:
        """Take the calls of a reply; ids that are empty or stand twice are replaced."""
        calls: dict[str, ToolCall] = {}
        for number, call in enumerate(reply.tool_calls, 1):
            fresh = call.id or f"call_{number}"
            while fresh in calls:
                fresh = f"{fresh}_{number}"
            calls[fresh] = call if fresh == call.id else replace(call, id=fresh)
        self.calls = tuple(calls.values())
        self.keys, self.answers, self.done = {}, {}, {}
        said = LLMMessage("assistant", reply.text, self.calls)
        self.request = replace(self.request, messages=(*self.request.messages, said))

    def call(self, id: str) -> ToolCall:
        """Return the call of an id."""
        return next(call for call in self.calls if call.id == id)

    def close(self) -> None:
        """Put the results of the batch after the calls, in their order."""
        results = tuple(LLMMessage("tool", self.content(call.id), (), tool_call_id=call.id) for call in self.calls)
        self.request = replace(self.request, messages=(*self.request.messages, *results))
        self.calls = ()

    def content(self, id: str) -> str:
        """Return what the model reads of one outcome, as JSON in which no character can close the markup around it."""
        outcome = self.done[id]
        if "error" in outcome:
            return escaped({"error": outcome["error"]})
        if id in self.answers:
            answer = {"answer": shortened(self.answers[id])}
            return escaped(answer if outcome["value"] is None else {"result": outcome["value"], **answer})
        return escaped(outcome["value"])


def offered(turn: TurnState) -> tuple[ToolSpec, ...]:
    """Return the tools that the model is told of in this state."""
    memory = buckets.SPECS if turn.state.definition.memory else ()
    return memory if turn.host.tools is NO_TOOLS else (*turn.tools.specs(turn.state.id), *memory)


def run(
    turn: TurnState, loop: Loop, renew: Callable[[TurnState, Loop], None] | None = None
) -> Generator[Effect, Result, ModelReply | None]:
    """Return the first reply without calls; None when a limit or a pause comes first."""
    while True:
        if loop.calls:
            if not (yield from _run_batch(turn, loop)):
                return None
            loop.close()
            if renew is not None:
                renew(turn, loop)
        reply = yield from model.call(turn, loop.asked_for, loop.request, loop.look, refused=loop.refused)
        if reply is None or not reply.tool_calls:
            return reply
        if _exceeds_limit(turn, len(reply.tool_calls)):
            return None
        loop.begin(reply)


def _exceeds_limit(turn: TurnState, calls: int) -> bool:
    """Return true, and note it, when the limit of tool calls does not allow so many more; else count them."""
    most = turn.machine.limits.tool_calls
    if turn.used()["tool_calls"] + calls > most:
        turn.emit(ev.LimitReached(limit="tool_calls", value=most))
        return True
    turn.tool_calls += calls
    return False


def _run_batch(turn: TurnState, loop: Loop) -> Generator[Effect, Result, bool]:
    """Bring the calls of a batch to their ends; return false when a person must be asked first."""
    ready: dict[str, PlannedCall] = {}
    own: dict[str, Mapping[str, Any]] = {}
    for call in loop.calls:
        if call.id not in loop.done and (arguments := _accepted_arguments(turn, loop, call)) is not None:
            if _is_memory_call(turn, call):
                own[call.id] = arguments
            else:
                ready[call.id] = _planned(turn, loop, call, arguments)
    for planned in ready.values():
        if turn.tools.policies[planned.name].approval and planned.id not in loop.answers:
            _pause_at(turn, loop, "approval", planned.id, APPROVAL)
            return False
    allowed = tuple(planned for planned in ready.values() if _is_allowed(turn, loop, planned))
    results: dict[str, ToolResult] = {}
    if allowed:
        found = yield CallTools(state=turn.state.id, calls=allowed, left=turn.time_left())
        if not isinstance(found, ToolResults):
            raise TypeError(f"calls want ToolResults, got {type(found).__name__}")
        turn.elapsed += found.elapsed
        results = {call.id: result for call, result in zip(allowed, found.results, strict=True)}
    for call in loop.calls:
        if call.id in own:
            _run_memory_call(turn, loop, call, own[call.id])
        elif call.id in results:
            _record_result(turn, loop, ready[call.id], results[call.id])
    return not _must_ask(turn, loop)


def _is_memory_call(turn: TurnState, call: ToolCall) -> bool:
    """Return true for a memory tool where there are any: it is performed here."""
    return turn.state.definition.memory and call.name in buckets.NAMES


def _accepted_arguments(turn: TurnState, loop: Loop, call: ToolCall) -> Mapping[str, Any] | None:
    """Return the arguments of a call that may run; None when it is refused."""
    reason = None if _is_memory_call(turn, call) else turn.tools.fault(turn.state.id, call.name)
    if reason is None:
        try:
            policy = turn.tools.policies.get(call.name)
            arguments = read_arguments(call.arguments, None if policy is None else policy.spec.parameters)
        except ArgumentsFault as fault:
            reason = str(fault)
        else:
            reason = _misfit(turn, call.name, arguments)
            if reason is None:
                return arguments
    _refuse(turn, loop, call, reason)
    return None


def _misfit(turn: TurnState, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return why a call could not be made, before a person is asked about it. The call itself finds out the rest."""
    terms = turn.tools.policies.get(name)
    return terms.fault(arguments) if terms is not None and terms.approval else None


def _planned(turn: TurnState, loop: Loop, call: ToolCall, arguments: Mapping[str, Any]) -> PlannedCall:
    """Return the call as the host can run it."""
    key = loop.keys.get(call.id)
    if key is None:
        number = len(turn.events) + len(loop.keys)
        session = turn.session
        space, time = turn.call_namespace or (f"{session.conversation_id}/{session.turn}", session.time)
        key = loop.keys[call.id] = call_key(space, time, number, call)
    return turn.tools.policies[call.name].plan(id=call.id, arguments=arguments, key=key)


def _refuse(turn: TurnState, loop: Loop, call: ToolCall, reason: str) -> None:
    loop.done[call.id] = {"error": reason}
    turn.emit(
        ev.ToolRefused(
            name=cut(call.name, 100),
            reason=cut(reason, _REASON_CHARS),
            arguments=cut(call.arguments, _REASON_CHARS),
        )
    )


def _run_memory_call(turn: TurnState, loop: Loop, call: ToolCall, arguments: Mapping[str, Any]) -> None:
    """Perform a call of a memory tool."""
    before = memory_of(turn.session.memory)
    after, told = buckets.call(before, call.name, arguments)
    old, new = before.to_dict(), after.to_dict()
    if new != old:
        written = {key: text for key, text in new.items() if old.get(key) != text}
        turn.emit(ev.MemorySet(values=written, removed=tuple(key for key in old if key not in new)))
    told = redacted(turn.secrets(), told)
    loop.done[call.id] = {"value": told}
    turn.emit(ev.ToolReturned(name=call.name, arguments=arguments, result=told))


def _is_allowed(turn: TurnState, loop: Loop, planned: PlannedCall) -> bool:
    """Return true unless a person said no."""
    if not turn.tools.policies[planned.name].approval or planned.id not in loop.answers:
        return True
    answer = loop.answers.pop(planned.id)
    if answer.get("approved") is True:
        return True
    reason = str(answer.get("reason") or "")
    said = f"a person refused this call: {reason}" if reason else "a person refused this call"
    _refuse(turn, loop, loop.call(planned.id), said)
    return False


def _record_result(turn: TurnState, loop: Loop, planned: PlannedCall, result: ToolResult) -> None:
    """Note one result, and what the tool's output writes of it."""
    if result.unknown:
        loop.done[planned.id] = {"unknown": planned.key}
        return
    error = redacted(turn.secrets(), result.error)
    if result.refused:
        _refuse(turn, loop, loop.call(planned.id), error or "the arguments do not fit")
        return
    value = None
    if error is None:
        value = shortened(_shown(turn, planned.name, result.value, "tool"))
    loop.done[planned.id] = {"value": value} if error is None else {"error": error}
    turn.emit(
        ev.ToolReturned(
            name=planned.name,
            arguments=planned.arguments,
            result=value,
            error=error,
            seconds=result.seconds,
            key=planned.key,
        )
    )
    if error is None:
        _write_output(turn, planned.name, result.value, "tool")


def output_taken(turn: TurnState, name: str, source: str) -> Mapping[str, str]:
    """Return what the output of a tool takes from its result, or from a person's answer to its break."""
    terms, owner = turn.tools.policies[name], turn.machine.keys.sources
    if not terms.breaking and not terms.approval:
        return terms.output
    answers = source == "answer"
    return {key: path for key, path in terms.output.items() if (owner.get(key) == "answer") is answers}


def _shown(turn: TurnState, name: str, value: Any, source: str) -> Any:
    """Return the result of a tool, or an answer to it, without secrets, wherever in it they stand."""
    mapping = output_taken(turn, name, source)
    secrets = {*secrets_in(turn.machine.keys, mapping, value), *turn.secrets()}
    shown, known = masked(turn.machine.keys, mapping, value), turn.machine.definition.canonical
    return redacted(sorted(secrets, key=len, reverse=True), shown, foreign=lambda name: json.dumps(name) not in known)


def _write_output(turn: TurnState, name: str, value: Any, source: str) -> None:
    """Write what the output of a tool takes from a value of this source."""
    mapping = output_taken(turn, name, source)
    for event in accept_output(turn.machine.keys, turn.session.context, mapping, value, source):
        turn.emit(event)


def _must_ask(turn: TurnState, loop: Loop) -> bool:
    """Return true when the run now waits: for the outcome of a lost call, or at a break."""
    for call in _unanswered(loop):
        if "unknown" in loop.done[call.id]:
            _pause_at(turn, loop, "unknown_outcome", call.id, OUTCOME)
            return True
        terms = turn.tools.policies.get(call.name)
        if terms is not None and terms.breaking and "value" in loop.done[call.id]:
            _pause_at(turn, loop, "break", call.id, {})
            return True
    return False


def _unanswered(loop: Loop) -> Iterator[ToolCall]:
    return (call for call in loop.calls if call.id not in loop.answers)


def _pause_at(turn: TurnState, loop: Loop, kind: Any, id: str, schema: Mapping[str, Any]) -> None:
    """Pause at one call of the batch."""
    call = loop.call(id)
    shown: dict[str, Any] = {"id": id, "name": call.name, "arguments": read_arguments(call.arguments)}
    if "value" in loop.done.get(id, {}):
        shown["result"] = loop.done[id]["value"]
    turn.pause(kind=kind, what=call.name, call=shown, schema=schema, loop=loop.to_dict())


def take_answer(turn: TurnState, loop: Loop, kind: str, call: Mapping[str, Any], value: Any) -> None:
    """Put a person's answer where the loop waits for it."""
    id, name = call["id"], call["name"]
    if kind != "unknown_outcome":
        told = _shown(turn, name, value, "answer")
        if kind == "approval":  # whatever of it goes to a secret key, the word itself counts
            told = {**(told if isinstance(told, dict) else {}), "approved": value["approved"]}
        loop.answers[id] = told
        if kind == "break" or value["approved"]:
            _write_output(turn, name, value, "answer")
        return
    del loop.done[id]
    if "repeat" in value:
        return
    error = value.get("error")
    result = _shown(turn, name, value.get("result"), "tool")
    loop.done[id] = {"value": shortened(result)} if error is None else {"error": error}
    turn.emit(
        ev.ToolReturned(
            name=name,
            arguments=call["arguments"],
            result=loop.done[id].get("value"),
            error=error,
            key=loop.keys.get(id, ""),
        )
    )
    if error is None:
        _write_output(turn, name, value.get("result"), "tool")


def memory_of(document: Mapping[str, Any]) -> Memory:
    """Return the buckets of a session's memory; its background stands beside them."""
    return Memory.from_dict({key: text for key, text in document.items() if key.isdecimal()})
