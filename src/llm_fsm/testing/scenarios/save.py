"""Turn a finished conversation into a file of tests that plays it again, with its replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from llm_fsm._json import JsonDict, filled, json_text, member, without
from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.operators import CLOCKS
from llm_fsm.records.replay import not_taken
from llm_fsm.session import events as ev
from llm_fsm.session.memory import NAMES as MEMORY_TOOLS
from llm_fsm.session.redaction import MIN_SECRET_CHARS, spelled
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, TurnRecord, events_of, first_of, without_undone
from llm_fsm.testing.scenarios.redaction import disguised, secret_samples
from llm_fsm.testing.scenarios.returned import returned_in
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments

_TIMES = (*(f'"{name}"' for name in sorted(CLOCKS)), "_timestamp")
_PARTS = frozenset({"transition", "message", "question", "reasoning"})
_WORDS = ("message", "question", "reasoning")
_MOVE = frozenset({"target_state", "context_update"})
_GIVEN = {
    "output": 1,
    "result": 1,
    "answer": 1,
    "arguments": 1,
    "input": 1,
    "context": 2,
    "set": 2,
    "context_update": 2,
}
"""Parts of a test with values from outside, to the level at which their names also come from
outside.
"""


def document_of(program: CompiledMachine, definition: str, records: Records, name: str) -> JsonDict:
    """Return the file of tests for a conversation given by its records. `definition` is the
    definition's name in the file.

    Undone turns are left out. Secret values are replaced by others of the same shape, everywhere.

    Raises:
        ValueError: Nothing has happened yet.
    """
    kept = [record for _, record in without_undone(records)]
    if not kept:
        raise ValueError("nothing has happened yet")
    saver = _Saver(program)
    case = saver.case(kept)
    hidden = _Disguise(program.document, saver).hidden({"name": name, **case})
    return {"definition": definition, "cases": [hidden]}


def _names(program: CompiledMachine) -> frozenset[str]:
    """Return the names of states, patterns and tools, which are public in the definition."""
    found: set[str] = set()
    for one in (program, *program.flows.values()):
        found.update(one.states, one.patterns, one.definition.tools)
    return frozenset(found)


class _Saver:
    """Follows the records; `clock` is the time of the test."""

    def __init__(self, program: CompiledMachine) -> None:
        self.program = program
        self.session = Session(conversation_id="")
        self.names = _names(program)
        self.secrets: set[str] = set()
        self.tools: dict[str, list[JsonDict]] = {}
        self.clock = 0.0
        self._timed = any(word in program.document for word in _TIMES)

    def case(self, records: Records) -> JsonDict:
        first, *others = records
        started = first_of(first.events, ev.Started)
        case: JsonDict = {}
        if started is not None:
            self.clock = case["time"] = float(int(started.time))
            if started.context:
                case["context"] = dict(started.context)
            if started.state != self.program.definition.initial_state:
                case["state"] = started.state
            if started.input is not None:
                case["input"] = started.input
        # a run without a user is two records: its start, and its work
        if others and others[0].kind == "run":
            self.session = fold(self.session, first.events)
            first, *others = others
        start = self.step(first)
        if first.text or "replies" in start or first.kind == "run":
            case["start"] = start
        steps = [*chain.from_iterable(map(self.steps, others))]
        returned = returned_in(self.program, events_of(records))
        fixtures = {
            "tools": {**self.tools, **self.picky(records)},
            "functions": returned.functions,
            "handlers": returned.handlers,
        }
        case |= filled(fixtures)
        case["steps"] = steps
        return case

    def picky(self, records: Records) -> dict[str, JsonDict]:
        """Return tools that ask a person first, with the arguments for which they did not, because
        a test would ask.
        """
        every = (self.program, *self.program.flows.values())
        asking: set[str] = set()
        for one in every:
            tools = one.definition.tools.items()
            asking.update(name for name, tool in tools if tool.approval)
        found: dict[str, list[Any]] = {}
        for event in not_taken(records):
            with suppress(ArgumentsFault):
                if event.name in asking:
                    found.setdefault(event.name, []).append(read_arguments(event.arguments))
        return {
            name: {
                "calls": self.tools.get(name, [{"error": "it takes other arguments"}]),
                "parameters": {"type": "object", "not": {"enum": unfit}},
            }
            for name, unfit in found.items()
        }

    def steps(self, record: TurnRecord) -> Iterator[JsonDict]:
        """Yield the outer causes of a turn: a message, an answer, the end, or that time passed."""
        head = record.events[0]
        time = getattr(head, "time", None)
        passed = 0.0 if time is None else time - self.clock
        if passed > 0 and record.kind == "due":
            self.clock += passed
            yield {"wait": passed, **self.step(record)}
            return
        if passed > 0 and self._timed:
            self.clock += passed
            yield {"wait": passed}
        if isinstance(head, ev.UserSaid):
            yield {"say": head.text, **self.step(record)}
        elif isinstance(head, ev.Answered):
            yield {"answer": head.value, **self.step(record)}
        elif record.kind == "end":
            yield {"end": True, **self.step(record)}

    def step(self, record: TurnRecord) -> JsonDict:
        """Return the replies of a turn, and its results."""
        before = session = self.session
        for event in record.events:
            said = _said(self.program, session, event)
            if said is not None:
                self.tools.setdefault(said[0], []).append(said[1])
            session = fold(session, (event,))
        self.session = session
        contexts = (before.context, self.session.context, self.session.root_context())
        self.secrets |= secret_samples(self.program, contexts, record.events) - {""}
        replies = [
            _reply(event, self.names)
            for event in record.events
            if isinstance(event, ev.ModelReplied)
        ]
        changed = {
            key: value
            for key, value in self.session.root_context().items()
            if before.root_context().get(key) != value
        }
        expect: JsonDict = {"state": self.session.state}
        if changed:
            expect["context"] = changed
        if record.text:
            expect["text"] = record.text
        if self.session.ended:
            expect["ended"] = True
        if self.session.pause is not None:
            expect["paused"] = True
        return {**replies_of(replies), "expect": expect}


def replies_of(replies: Sequence[Any]) -> JsonDict:
    """Return the member of a step that has its replies; none without any."""
    if len(replies) == 1:
        return {"reply": replies[0]}
    return {"replies": list(replies)} if replies else {}


def _said(
    program: CompiledMachine, session: Session, event: ev.Event
) -> tuple[str, JsonDict] | None:
    """Return the name of a tool of the definition, and its result of a call; None for all other
    events.
    """
    match event:
        case ev.ToolReturned() if event.key or event.name not in MEMORY_TOOLS:
            return event.name, {"result": event.result} if event.error is None else {
                "error": event.error
            }
        case ev.ToolRefused() if _has_refused(program.of(session), session.state, event):
            return event.name, {"error": event.reason}
    return None


def _has_refused(program: CompiledMachine, state: str, call: ev.ToolRefused) -> bool:
    """Return true if the tool itself refused the arguments, which a test cannot know."""
    tool = program.definition.tools.get(call.name)
    if tool is None or tool.approval or call.name not in program.states[state].definition.tools:
        return False
    if tool.scope is not None and state not in tool.scope:
        return False
    try:
        read_arguments(call.arguments)
    except ArgumentsFault:
        return False
    return True


def _reply(event: ev.ModelReplied, names: frozenset[str]) -> Any:
    """Return a reply in the short form of tests if that is complete, else unchanged.

    A reply that moves to none of the `names` stays unchanged too, because a test would report a
    typo.
    """
    if event.calls:
        calls = [
            {"name": call["name"], "arguments": _arguments(call["arguments"])}
            for call in event.calls
        ]
        return {"tool_calls": calls, **({"message": event.text} if event.text else {})}
    try:
        document = json.loads(event.text)
    except ValueError:
        return event.text
    if not isinstance(document, dict):
        return event.text
    move = document.get("transition")
    known = _PARTS
    if "transition" not in document:
        move = {name: document[name] for name in _MOVE if name in document}
        known = _PARTS | _MOVE
    update = member(move, "context_update")
    if not (
        document.keys() <= known
        and isinstance(move, dict)
        and move.keys() <= _MOVE
        and isinstance(update, dict)
    ):
        return {"raw": document}
    short = {"to": move.get("target_state")}
    values = without(update, {"_clear"})
    quotes = dict(values.pop("_quotes", None) or {})
    quotes.pop("_clear", None)  # a scripted reply quotes the message for what it takes back
    short |= {"set": {**values, "_quotes": quotes} if quotes else values}
    short |= {"clear": update.get("_clear")} if "_clear" in update else {}
    short |= {key: document[key] for key in _WORDS if key in document}
    texts = isinstance(short["to"], str) and isinstance(short.get("message", ""), str)
    lists = all(
        isinstance(short.get(key, kind()), kind)
        for key, kind in (("clear", list), ("question", str), ("reasoning", str))
    )
    return (
        {key: value for key, value in short.items() if value or key in ("to", "question")}
        if texts and lists and short["to"] in names
        else {"raw": document}
    )


def _arguments(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, dict) else text


def _disguises(secrets: Iterable[str]) -> dict[str, str]:
    """Return the substitutes of secrets, also as JSON escapes them, longest first."""
    found = {}
    for secret in secrets:
        escaped = json.dumps(disguised(secret))[1:-1]
        found[json.dumps(secret, ensure_ascii=True)[1:-1]] = escaped
        found[json_text(secret)[1:-1]] = escaped
    # Last, because a secret without escapes is its own JSON form.
    found.update((secret, disguised(secret)) for secret in secrets)
    return dict(sorted(found.items(), key=lambda one: len(one[0]), reverse=True))


class _Disguise:
    """Replaces secrets by other characters of the same kind. Names of states and the like stay as
    they are.
    """

    def __init__(self, definition: str, saver: _Saver) -> None:
        self._definition = definition
        self._secrets = _disguises(saver.secrets)
        self._names = saver.names

    def hidden(self, value: Any, depth: int = -1) -> Any:
        """Return the value without secrets. Below `depth` levels, keys are not names of the
        definition; -1: never.
        """
        match value:
            case str():
                return (
                    value
                    if value in self._names and value not in self._secrets
                    else self._text(value)
                )
            case Mapping():
                members = {}
                for key, item in value.items():
                    name = self._name(key) if depth in (0, 1) else key
                    while name in members:  # secrets with the same substitute
                        name += "1"
                    members[name] = self.hidden(
                        item, max(depth - 1, 0) if depth >= 0 else _GIVEN.get(key, -1)
                    )
                return members
            case list():
                return [self.hidden(item, depth) for item in value]
        if str(value) in self._secrets and is_number(value):
            return type(value)(re.sub(r"\d", "1", str(value)))
        return value

    def _name(self, key: str) -> str:
        """Return the name of a key, which is public in the definition."""
        return key if json.dumps(key) in self._definition else self._text(key)

    def _text(self, text: str) -> str:
        for secret, other in self._secrets.items():
            text = re.sub(re.escape(secret), partial(_replaced, other), text)
            for start, end in reversed(spelled(secret, text)):
                text = text[:start] + disguised(text[start:end]) + text[end:]
        return text


def _replaced(other: str, found: re.Match[str]) -> str:
    """Return the substitute of a secret; the shortest ones stay inside words and numbers."""
    secret, before, after = (
        found[0],
        found.string[: found.start()][-1:],
        found.string[found.end() :][:1],
    )
    short = len(secret) < MIN_SECRET_CHARS
    return secret if short and (_go_on(before, secret[0]) or _go_on(secret[-1], after)) else other


def _go_on(left: str, right: str) -> bool:
    """Return true if two characters belong to one word or number.

    It is false in scripts without capitals, because some have no spaces between words.
    """
    return (left.isdigit() and right.isdigit()) or (
        left.lower() != left.upper() and right.lower() != right.upper()
    )
