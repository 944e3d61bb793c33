"""The model-and-tools loop: the model is asked until it answers without calling tools.

A call runs only if the state lists its tool. Its result goes to the model as JSON, and to the
context only through the tool's declared `output`. If a person must be asked, the loop stops in the
middle. The session then holds everything that it needs to resume there when the answer comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import asdict, replace

from llm_fsm._json import JsonDict, JsonMap, TextMap, read
from llm_fsm._text import cut, escaped
from llm_fsm.session import events as ev
from llm_fsm.session import memory as buckets
from llm_fsm.session.meant import meant_name
from llm_fsm.session.memory import memory_of
from llm_fsm.session.messages import LLMMessage, LLMRequest, ModelReply, ToolCall, ToolSpec
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Exchange, Session
from llm_fsm.turn import failures, model
from llm_fsm.turn.agreement import Unmet, permit
from llm_fsm.turn.available import AvailableMoves
from llm_fsm.turn.effects import AskedFor, CallTools, PlannedCall, ToolResult, ToolResults
from llm_fsm.turn.output_mapping import accept_output, masked, secrets_in
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments, unsaid_argument
from llm_fsm.turn.tool_policy import NO_TOOLS, call_key
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import RunTo, TurnState, result_of

_SPENT = Unmet("spent", "one yes allows one call of it, and this is a second one")
_REASON_CHARS = 2000
"""A refusal quotes what the model wrote, which may be of any length."""
APPROVAL: JsonMap = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "arguments": {"type": "object"},
    },
    "required": ["approved"],
}
"""The answer about a call that needs a person. `arguments` run in the place of the call's own."""
OUTCOME: JsonMap = {
    "type": "object",
    "properties": {"repeat": {"const": True}, "result": {}, "error": {"type": "string"}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
"""The answer about a call with an unknown outcome: repeat it, or its result or error."""


class Heard(NamedTuple):
    """The message of the user that a loop answers, and the exchanges before it."""

    user: str | None
    window: tuple[Exchange, ...]


def heard_by(session: Session) -> Heard:
    """Return the message of the turn; after a pause, that of the last exchange that has one."""
    if session.user_input is not None:
        return Heard(session.user_input, session.window)
    # After a pause the message is in the history already: the last exchange with words of the user.
    for place in range(len(session.window) - 1, -1, -1):
        if session.window[place][0] is not None:
            return Heard(session.window[place][0], session.window[:place])
    return Heard(None, session.window)


class Loop:
    """One question to the model and the calls that its last reply asks for.

    `keys`: call id to idempotency key. `answers`: call id to a person's answer. `done`: call id to
    the outcome, one of {"value"}, {"error"} and {"unknown"}. `tries`: refused replies. `heard`: the
    message, of a turn.
    """

    __slots__ = (
        "answers",
        "asked_for",
        "calls",
        "done",
        "heard",
        "keys",
        "look",
        "refused",
        "request",
        "tries",
    )

    def __init__(
        self,
        asked_for: AskedFor,
        request: LLMRequest,
        available: AvailableMoves,
        heard: Heard | None = None,
    ) -> None:
        self.asked_for = asked_for
        self.heard = heard
        self.request = request
        self.look = available
        self.refused: tuple[str, ...] = ()
        self.tries = 0
        self.calls: tuple[ToolCall, ...] = ()
        self.keys: dict[str, str] = {}
        self.answers: JsonDict = {}
        self.done: dict[str, JsonDict] = {}

    def to_dict(self) -> JsonDict:
        """Return all that the loop needs to resume later, as JSON."""
        document: JsonDict = {
            "asked_for": self.asked_for,
            "messages": [_message_dict(message) for message in self.request.messages],
            "refused": list(self.refused),
            "tries": self.tries,
            "calls": [asdict(call) for call in self.calls],
            "keys": dict(self.keys),
            "answers": dict(self.answers),
            "done": dict(self.done),
        }
        if self.heard is not None:
            document["heard"] = [self.heard.user, list(map(list, self.heard.window))]
        return document

    def take_up(self, document: JsonMap) -> Loop:
        """Resume a stopped loop of the same kind from its JSON."""
        fault = "a paused loop cannot be read: "
        messages = read(document["messages"], tuple[LLMMessage, ...], fault + "messages")
        self.request = replace(self.request, messages=messages)
        self.refused = tuple(document["refused"])
        self.tries = document["tries"]
        self.calls = read(document["calls"], tuple[ToolCall, ...], fault + "calls")
        self.keys = dict(document["keys"])
        self.answers = dict(document["answers"])
        self.done = dict(document["done"])
        if "heard" in document:
            self.heard = read(document["heard"], Heard, fault + "heard")
        return self

    def reopen(self, request: LLMRequest, available: AvailableMoves) -> None:
        """Replace the question, and keep the calls and results that followed it."""
        # The fresh question has as many messages as the old one, so all behind it are calls and
        # results.
        since = self.request.messages[len(request.messages) :]
        self.request = replace(request, messages=(*request.messages, *since))
        self.look = available

    def begin(self, reply: ModelReply) -> None:
        """Take the calls of a reply. An id that is empty or repeated is replaced."""
        calls: dict[str, ToolCall] = {}
        for number, call in enumerate(reply.tool_calls, 1):
            fresh = call.id or f"call_{number}"
            # Some providers number from 1 in each reply, and some leave ids out.
            while fresh in calls:
                fresh = f"{fresh}_{number}"
            calls[fresh] = call if fresh == call.id else replace(call, id=fresh)
        self.calls = tuple(calls.values())
        # Ids are unique in one batch only, so nothing of the batch before may be found by them.
        self.keys, self.answers, self.done = {}, {}, {}
        message = LLMMessage("assistant", reply.text, self.calls, native=reply.native)
        self.request = replace(self.request, messages=(*self.request.messages, message))

    def call(self, id: str) -> ToolCall:
        """Return the call of an id."""
        return next(call for call in self.calls if call.id == id)

    def close(self) -> None:
        """Put the results of the batch after the calls, in their order."""
        results: list[LLMMessage] = []
        for call in self.calls:
            results.append(LLMMessage("tool", self.content(call.id), (), tool_call_id=call.id))
        self.request = replace(self.request, messages=(*self.request.messages, *results))
        self.calls = ()

    def content(self, id: str) -> str:
        """Return one outcome for the model, as JSON in which no character can close the markup
        around it.
        """
        outcome = self.done[id]
        if "error" in outcome:
            return escaped({"error": outcome["error"]})
        value = outcome["value"]
        if id not in self.answers:
            return escaped(value)
        answer = shortened(self.answers[id])
        if value is None:
            return escaped({"answer": answer})
        return escaped({"result": value, "answer": answer})


def _message_dict(message: LLMMessage) -> JsonDict:
    document = asdict(message)
    document["tool_calls"] = [asdict(call) for call in message.tool_calls]
    if not message.native:
        del document["native"]
    return document


def offered(turn: TurnState) -> tuple[ToolSpec, ...]:
    """Return the tools that the model may call in this state."""
    memory = buckets.SPECS if turn.state.definition.memory else ()
    if turn.host.tools is NO_TOOLS:
        return memory
    # Providers refuse two tools of one name, and that of the memory runs (finding
    # `taken-tool-name`).
    own = [
        spec
        for spec in turn.tools.specs(turn.state.id)
        if not memory or spec.name not in buckets.NAMES
    ]
    return (*own, *memory)


def run(
    turn: TurnState, loop: Loop, renew: Callable[[TurnState, Loop], None] | None = None
) -> RunTo[ModelReply | None]:
    """Return the first reply without calls; None if a limit or a pause comes first.

    Args:
        turn: The turn.
        loop: The loop. One that resumes has the calls of its last reply.
        renew: Called after each batch; its results may have changed the question.
    """
    # Each round has one reply. It ends with words, at a limit, or at a pause.
    while True:
        if loop.calls:
            # The loop keeps its calls, so that the answer finds the batch as it was left.
            if not (yield from _run_batch(turn, loop)):
                return None
            loop.close()
            if renew is not None:
                renew(turn, loop)
        reply = yield from model.call(
            turn, loop.asked_for, loop.request, loop.look, refused=loop.refused
        )
        if reply is None or not reply.tool_calls:
            return reply
        if _exceeds_limit(turn, len(reply.tool_calls)):
            return None
        loop.begin(_with_meant_names(turn, reply))


def _with_meant_names(turn: TurnState, reply: ModelReply) -> ModelReply:
    """Return a reply with the names of the tools that its calls mean.

    A tool that cannot be called here keeps its name, so that the model reads why.
    """
    names = [spec.name for spec in offered(turn)]
    calls: list[ToolCall] = []
    for call in reply.tool_calls:
        is_known = call.name in turn.tools.policies
        name = call.name if is_known else meant_name(call.name, names)
        calls.append(replace(call, name=name or call.name))
    return replace(reply, tool_calls=tuple(calls))


def _exceeds_limit(turn: TurnState, calls: int) -> bool:
    """Count calls. Return true, and record it, if the limit of tool calls does not allow so many
    more.
    """
    most = turn.machine.limits.tool_calls
    # All calls of a batch count before any runs: half a batch is no answer to its reply.
    if turn.used()["tool_calls"] + calls > most:
        turn.emit(ev.LimitReached(limit="tool_calls", value=most))
        return True
    turn.tool_calls += calls
    return False


def _run_batch(turn: TurnState, loop: Loop) -> RunTo[bool]:
    """Run the calls of a batch. Return false if a person must be asked first.

    A person is asked before any call of the batch runs, because the others may depend on the
    answer.
    """
    ready: dict[str, PlannedCall] = {}
    own: dict[str, JsonMap] = {}
    for call in loop.calls:
        if call.id in loop.done:
            continue
        arguments = _accepted_arguments(turn, loop, call)
        if arguments is None:
            continue
        if _is_memory_call(turn, call):
            own[call.id] = arguments
            continue
        planned = _planned(turn, loop, call, arguments)
        # One yes has one key, so two equal acts of a batch would be done on one yes.
        if any(planned.key == other.key for other in ready.values()):
            _refuse(turn, loop, call, _SPENT.reason, _SPENT.sentence)
        else:
            ready[call.id] = planned
    # Approval is asked for before the first call runs: a person may refuse all of them.
    for planned in ready.values():
        if turn.tools.policies[planned.name].approval and planned.id not in loop.answers:
            _pause_at(turn, loop, "approval", planned.id, APPROVAL)
            return False
    allowed = tuple(planned for planned in ready.values() if _is_allowed(turn, loop, planned))
    results = yield from _results(turn, allowed)
    for call in loop.calls:
        if call.id in own:
            _run_memory_call(turn, loop, call, own[call.id])
        elif call.id in results:
            _record_result(turn, loop, ready[call.id], results[call.id])
    return not _must_ask(turn, loop)


def _results(turn: TurnState, calls: tuple[PlannedCall, ...]) -> RunTo[Mapping[str, ToolResult]]:
    """Run calls, and return their results by id."""
    if not calls:
        return {}
    agreed = turn.session.agreement
    left = turn.time_left()
    effect = CallTools(state=turn.state.id, calls=calls, left=left, agreed=agreed)
    answer = yield from result_of(effect, ToolResults)
    turn.elapsed += answer.elapsed
    return {call.id: result for call, result in zip(calls, answer.results, strict=True)}


def _is_memory_call(turn: TurnState, call: ToolCall) -> bool:
    """Return true for a tool of the working memory, which runs here and not at the host."""
    return turn.state.definition.memory and call.name in buckets.NAMES


def _accepted_arguments(turn: TurnState, loop: Loop, call: ToolCall) -> JsonMap | None:
    """Return the arguments of a call that may run; None if it is refused."""
    reason = None
    if not _is_memory_call(turn, call):
        reason = turn.tools.fault(turn.state.id, call.name)
    if reason is None:
        policy = turn.tools.policies.get(call.name)
        schema = None if policy is None else policy.spec.parameters
        try:
            edited = loop.answers.get(call.id, {}).get("arguments")
            arguments = read_arguments(call.arguments, schema) if edited is None else dict(edited)
        except ArgumentsFault as fault:
            reason = str(fault)
        else:
            reason = _misfit(turn, call.name, arguments) or _unsaid(turn, call.name, arguments)
            if reason is None:
                is_edited = edited is not None
                may = _is_permitted(turn, loop, call, arguments, is_edited=is_edited)
                return arguments if may else None
    _refuse(turn, loop, call, reason)
    return None


def _acts(turn: TurnState, name: str) -> bool:
    """Return true for a tool that changes the world outside."""
    return name in turn.tools.acting(turn.state.id, acts=turn.state.definition.acts)


def _is_permitted(
    turn: TurnState, loop: Loop, call: ToolCall, arguments: JsonMap, *, is_edited: bool
) -> bool:
    """Return true if a call may run. The recorded result answers an act that was done."""
    if _is_memory_call(turn, call) or not _acts(turn, call.name):
        return True
    policy = turn.tools.policies[call.name]
    found = permit(turn, policy.act, policy, arguments)
    # A person who changed the call agrees to it.
    if found.unmet is not None and not is_edited:
        _refuse(turn, loop, call, found.unmet.reason, found.unmet.sentence)
        return False
    # The act was done by an earlier turn, or before a crash. It is never done again.
    if found.key in turn.session.acts:
        result = turn.session.acts[found.key]
        _refuse(turn, loop, call, "done already; this is its recorded result", "spent")
        loop.done[call.id] = {"value": shortened(_shown(turn, call.name, result, "tool"))}
        _write_output(turn, call.name, result, "tool", arguments)
        return False
    if found.key:
        loop.keys[call.id] = found.key
    return True


def _misfit(turn: TurnState, name: str, arguments: JsonMap) -> str | None:
    """Return why a call could not be made, before a person is asked about it.

    Other calls are not checked here, because the call itself reports such a fault.
    """
    policy = turn.tools.policies.get(name)
    if policy is None or not policy.approval:
        return None
    return policy.fault(arguments)


def _unsaid(turn: TurnState, name: str, arguments: JsonMap) -> str | None:
    """Return why a call is not made that writes an argument which the user never said."""
    policy, session, keys = turn.tools.policies.get(name), turn.session, turn.keys
    if policy is None or not keys.said:
        return None
    written = [key for key in policy.output if key in keys.said and key in arguments]
    return unsaid_argument(keys, session.context, session.user_words(), written, arguments)


def _planned(turn: TurnState, loop: Loop, call: ToolCall, arguments: JsonMap) -> PlannedCall:
    """Return the call as the host can run it."""
    key = loop.keys.get(call.id)
    if key is None:
        session = turn.session
        namespace, time = f"{session.conversation_id}/{session.turn}", session.time
        if turn.call_namespace:
            namespace, time = turn.call_namespace
        key = call_key(namespace, time, len(turn.events) + len(loop.keys), call)
        loop.keys[call.id] = key
    return turn.tools.policies[call.name].plan(id=call.id, arguments=arguments, key=key)


def _refuse(turn: TurnState, loop: Loop, call: ToolCall, reason: str, sentence: str = "") -> None:
    loop.done[call.id] = {"error": reason}
    turn.emit(
        ev.ToolRefused(
            name=cut(call.name, 100),
            reason=cut(reason, _REASON_CHARS),
            arguments=cut(call.arguments, _REASON_CHARS),
            sentence=sentence,
        )
    )


def _run_memory_call(turn: TurnState, loop: Loop, call: ToolCall, arguments: JsonMap) -> None:
    """Run a call of a memory tool."""
    before = memory_of(turn.session.memory)
    after, result = buckets.call(before, call.name, arguments)
    old, new = before.to_dict(), after.to_dict()
    if new != old:
        written = {key: text for key, text in new.items() if old.get(key) != text}
        removed = tuple(key for key in old if key not in new)
        turn.emit(ev.MemorySet(values=written, removed=removed))
    shown = redacted(turn.secrets(), result)
    loop.done[call.id] = {"value": shown}
    turn.emit(ev.ToolReturned(name=call.name, arguments=arguments, result=shown))


def _is_allowed(turn: TurnState, loop: Loop, planned: PlannedCall) -> bool:
    """Return true unless a person refused the call."""
    if not turn.tools.policies[planned.name].approval or planned.id not in loop.answers:
        return True
    answer = loop.answers.pop(planned.id)
    if answer.get("approved") is True:
        return True
    reason = "a person refused this call"
    if answer.get("reason"):
        reason += f": {answer['reason']}"
    _refuse(turn, loop, loop.call(planned.id), reason)
    return False


def _record_result(turn: TurnState, loop: Loop, planned: PlannedCall, result: ToolResult) -> None:
    """Record one result, and write the tool's output."""
    if result.unknown:
        loop.done[planned.id] = {"unknown": planned.key}
        return
    failures.record(turn, result.failed)
    error = redacted(turn.secrets(), result.error)
    if result.refused:
        _refuse(turn, loop, loop.call(planned.id), error or "the arguments do not fit")
        return
    value = None
    if error is None:
        value = shortened(_shown(turn, planned.name, result.value, "tool"))
        loop.done[planned.id] = {"value": value}
    else:
        loop.done[planned.id] = {"error": error}
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
        _note_act(turn, planned.name, planned.key, result.value)
        _write_output(turn, planned.name, result.value, "tool", planned.arguments)


def _note_act(turn: TurnState, name: str, key: str, result: Any) -> None:
    """Put the result of an act behind a yes on record."""
    if turn.session.agreed and _acts(turn, name):
        turn.emit(ev.Acted(act=turn.tools.policies[name].act, key=key, result=result))


def output_taken(turn: TurnState, name: str, source: str) -> TextMap:
    """Return the part of a tool's `output` that its result writes, or a person's answer.

    If a person is asked about the tool, the keys with `x-source: answer` come from the answer.
    """
    policy = turn.tools.policies[name]
    if not policy.breaking and not policy.approval:
        return policy.output
    sources = turn.keys.sources
    taken: dict[str, str] = {}
    for key, path in policy.output.items():
        is_for_answer = sources.get(key) == "answer"
        if is_for_answer == (source == "answer"):
            taken[key] = path
    return taken


def _shown(turn: TurnState, name: str, value: Any, source: str) -> Any:
    """Return the result of a tool, or an answer to it, without secrets in any part."""
    mapping = output_taken(turn, name, source)
    keys = turn.keys
    secrets = {*secrets_in(keys, mapping, value), *turn.secrets()}
    definition = turn.machine.definition.canonical
    return redacted(
        sorted(secrets, key=len, reverse=True),
        masked(keys, mapping, value),
        foreign=lambda word: json.dumps(word) not in definition,
    )


def _write_output(
    turn: TurnState, name: str, value: Any, source: str, arguments: JsonMap = MappingProxyType({})
) -> None:
    """Write the output of a tool from a value of this source. `arguments` are those of the call."""
    mapping = output_taken(turn, name, source)
    accepted = accept_output(
        turn.keys,
        turn.session.context,
        mapping,
        value,
        source,
        names=turn.session.system_names(),
        arguments=arguments,
        words=turn.session.user_words() if turn.keys.said else None,
    )
    turn.emit_all(accepted)


def _must_ask(turn: TurnState, loop: Loop) -> bool:
    """Return true if the run now waits: for the outcome of a lost call, or at a break."""
    for call in _unanswered(loop):
        outcome = loop.done[call.id]
        if "unknown" in outcome:
            _pause_at(turn, loop, "unknown_outcome", call.id, OUTCOME)
            return True
        policy = turn.tools.policies.get(call.name)
        if policy is not None and policy.breaking and "value" in outcome:
            _pause_at(turn, loop, "break", call.id, {})
            return True
    return False


def _unanswered(loop: Loop) -> Iterator[ToolCall]:
    return (call for call in loop.calls if call.id not in loop.answers)


def _pause_at(turn: TurnState, loop: Loop, kind: Any, id: str, schema: JsonMap) -> None:
    """Pause at one call of the batch."""
    call = loop.call(id)
    arguments = read_arguments(call.arguments)
    shown: JsonDict = {"id": id, "name": call.name, "arguments": arguments}
    if "value" in loop.done.get(id, {}):
        shown["result"] = loop.done[id]["value"]
    turn.pause(kind=kind, what=call.name, call=shown, schema=schema, loop=loop.to_dict())


def take_answer(turn: TurnState, loop: Loop, kind: str, call: JsonMap, value: Any) -> None:
    """Put a person's answer into the loop that waits for it."""
    id, name = call["id"], call["name"]
    if kind == "unknown_outcome":
        _take_outcome(turn, loop, call, value)
        return
    answer = _shown(turn, name, value, "answer")
    if kind == "approval":
        # The approval counts, even if a secret key takes it and it is masked.
        answer = dict(answer) if isinstance(answer, dict) else {}
        answer["approved"] = value["approved"]
    loop.answers[id] = answer
    if kind == "break" or value["approved"]:
        _write_output(turn, name, value, "answer")


def _take_outcome(turn: TurnState, loop: Loop, call: JsonMap, value: Any) -> None:
    """Take a person's word on a call with an unknown outcome: repeat it, or its result or error."""
    id, name = call["id"], call["name"]
    del loop.done[id]
    if "repeat" in value:
        return
    key = loop.keys.get(id, "")
    planned = turn.tools.policies[name].plan(id=id, arguments=call["arguments"], key=key)
    result = ToolResult(id=id, name=name, value=value.get("result"), error=value.get("error"))
    _record_result(turn, loop, planned, result)
