"""Compare a step with its expectations. All misses are reported at once, each at its place in the
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonMap, of_kind, plain, step
from llm_fsm.conditions.coercion import truthy
from llm_fsm.conditions.compiler import ConditionError, compile_rule
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.messages import Paused
from llm_fsm.testing.scenarios.models import (
    CallExpected,
    EventExpected,
    Expect,
    PauseExpected,
    WordsExpected,
)
from llm_fsm.testing.scenarios.problems import quoted
from llm_fsm.turn.available import Ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The facts of a step, or of a whole conversation."""

    text: str = ""
    state: str = ""
    context: JsonMap = field(default_factory=dict)
    data: Callable[[], JsonMap] = dict
    """Returns the values that rules read: the context and the system names."""
    ahead: Callable[[], Ahead] = Ahead
    """Returns the content of the next prompt."""
    events: Sequence[ev.Event] = ()
    calls: int = 0
    ended: bool = False
    outcome: str = ""
    paused: Paused | None = None
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Miss:
    """One difference from the expectations. `pointer` is the expectation's place in the file."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class ExpectedFact:
    """One claim of an expectation, with its result. `found` is the actual value."""

    pointer: str
    holds: bool
    wanted: str
    found: str


def misses(expect: Expect, seen: Seen, pointer: str) -> list[Miss]:
    """Return all differences from an expectation."""
    found = [
        Miss(claim.pointer, f"{claim.wanted}, but {claim.found}")
        for claim in claims(expect, seen, pointer)
        if not claim.holds
    ]
    if expect.none_of is not None:
        found += _held(expect.none_of, seen, f"{pointer}/not")
    if expect.any_of:
        tried = [
            misses(choice, seen, f"{pointer}/any_of/{number}")
            for number, choice in enumerate(expect.any_of)
        ]
        if all(tried):
            said = "; ".join(
                f"({number}) {', '.join(miss.message for miss in missed)}"
                for number, missed in enumerate(tried, 1)
            )
            found.append(Miss(f"{pointer}/any_of", f"none of the alternatives holds: {said}"))
    return found


def _held(expect: Expect, seen: Seen, pointer: str) -> list[Miss]:
    """Return every claim that must not be true but is, with its own negations and alternatives."""
    found = [
        Miss(
            claim.pointer,
            f"expected otherwise: {claim.wanted.removeprefix('expected ')}; and so it is",
        )
        for claim in claims(expect, seen, pointer)
        if claim.holds
    ]
    if expect.none_of is not None and not _held(expect.none_of, seen, f"{pointer}/not"):
        found.append(Miss(f"{pointer}/not", "expected something of this to be so; and nothing is"))
    for number, choice in enumerate(expect.any_of):
        place = f"{pointer}/any_of/{number}"
        if not misses(choice, seen, place):
            found.append(Miss(place, "expected this alternative not to hold; and it does"))
    return found


def claims(expect: Expect, seen: Seen, pointer: str) -> Iterator[ExpectedFact]:
    """Yield the single claims of an expectation, without its negations and alternatives."""
    given = expect.model_fields_set
    entered = [event.state for event in of_kind(seen.events, ev.StateEntered)]
    if "error" in given and expect.error is not None:
        said = "there was none"
        if seen.error is not None:
            said = f"it is {quoted(seen.error)}"
        holds = seen.error is not None and expect.error in seen.error
        yield ExpectedFact(
            f"{pointer}/error", holds, f"expected the error {quoted(expect.error)}", said
        )
    if expect.state is not None:
        wanted = expect.state[0] if len(expect.state) == 1 else expect.state
        yield _claim(pointer, "state", wanted, seen.state, seen.state in expect.state)
    yield from _facts(expect, pointer, {"moved": bool(entered), "path": entered})
    yield from _context(expect, seen, pointer)
    yield from _ahead(expect, seen, pointer)
    if expect.text is not None:
        yield from _words(expect.text, seen.text, f"{pointer}/text")
    if expect.tools is not None:
        yield from _tools(expect.tools, seen.events, f"{pointer}/tools")
    yield from _events(expect.events, seen.events, f"{pointer}/events")
    yield from _facts(expect, pointer, {"calls": seen.calls, "ended": seen.ended})
    if expect.outcome is not None:
        ends = {event.outcome for event in of_kind(seen.events, ev.Ended)}
        holds = expect.outcome in {seen.outcome, *ends}
        yield _claim(pointer, "outcome", expect.outcome, seen.outcome, holds)
    if "paused" in given:
        yield _pause(expect.paused, seen.paused, f"{pointer}/paused")
    if "output" in given:
        yield _claim(pointer, "output", expect.output, seen.output)


def _facts(expect: Expect, pointer: str, found: JsonMap) -> Iterator[ExpectedFact]:
    """Yield the claims about plain facts, of those that the expectation names."""
    for name, fact in found.items():
        wanted = getattr(expect, name)
        if wanted is not None:
            yield _claim(pointer, name, wanted, fact)


def _claim(
    pointer: str, name: str, wanted: Any, found: Any, holds: bool | None = None
) -> ExpectedFact:
    so = same(wanted, found) if holds is None else holds
    return ExpectedFact(
        f"{pointer}/{name}", so, f"expected {name} {quoted(wanted)}", f"it is {quoted(found)}"
    )


def _context(expect: Expect, seen: Seen, pointer: str) -> Iterator[ExpectedFact]:
    for key, wanted in expect.context.items():
        place = f"{pointer}/context{step(key)}"
        holds = wanted is None
        found = "it is not set"
        if key in seen.context:
            holds, found = same(seen.context[key], wanted), f"it is {quoted(seen.context[key])}"
        yield ExpectedFact(place, holds, f"expected {key} = {quoted(wanted)}", found)
    if expect.context_exact is not None:
        whole = dict(seen.context)
        wanted = f"expected exactly the context {quoted(expect.context_exact)}"
        exact = same(whole, expect.context_exact)
        yield ExpectedFact(f"{pointer}/context_exact", exact, wanted, f"it is {quoted(whole)}")
    for number, key in enumerate(expect.absent):
        there = has(seen.context, key)
        found = f"it is {quoted(seen.context.get(key))}" if there else "it is not set"
        yield ExpectedFact(
            f"{pointer}/absent/{number}", not there, f"expected {key} not to be set", found
        )
    if expect.logic is not None:
        wanted = f"expected {quoted(expect.logic)} to hold"
        result = None
        try:
            result = compile_rule(expect.logic)(seen.data())
            found = f"it gives {quoted(result)}"
        except ConditionError as error:
            found = f"it cannot be evaluated: {error}"
        yield ExpectedFact(f"{pointer}/logic", truthy(result), wanted, found)


def _ahead(expect: Expect, seen: Seen, pointer: str) -> Iterator[ExpectedFact]:
    for name in ("open", "missing", "shown"):
        wanted: list[str] | None = getattr(expect, name)
        if wanted is None:
            continue
        found = list(getattr(seen.ahead(), name))
        holds = sorted(wanted) == sorted(found) if name == "shown" else wanted == found
        yield _claim(pointer, name, wanted, found, holds)


def _words(expect: WordsExpected, text: str, pointer: str) -> Iterator[ExpectedFact]:
    found = f"the words are {quoted(text)}"
    for part in expect.contains:
        yield ExpectedFact(
            pointer, part in text, f"expected the words to contain {quoted(part)}", found
        )
    for pattern in expect.matches:
        holds, told = False, found
        try:
            holds = truthy(compile_rule({"matches": [{"var": "text"}, pattern]})({"text": text}))
        except ConditionError as error:
            told = str(error)
        wanted = f"expected the words to match {quoted(pattern)}"
        yield ExpectedFact(f"{pointer}/matches", holds, wanted, told)
    if expect.equals is not None:
        wanted = f"expected the words {quoted(expect.equals)}"
        yield ExpectedFact(f"{pointer}/equals", expect.equals == text, wanted, found)


def _tools(
    wanted: Sequence[CallExpected], events: ev.Events, pointer: str
) -> Iterator[ExpectedFact]:
    made = [event for event in events if isinstance(event, ev.ToolReturned | ev.ToolRefused)]
    names = [event.name for event in made]
    asked = [call.name for call in wanted]
    if asked != names:
        said = f"expected the tool calls {quoted(asked)}"
        yield ExpectedFact(pointer, False, said, f"they are {quoted(names)}")
        return
    if not wanted:
        yield ExpectedFact(pointer, True, "expected no tool calls", "there are none")
    for number, (call, event) in enumerate(zip(wanted, made, strict=True)):
        place = f"{pointer}/{number}"
        if call.arguments is not None:
            holds = same(event.arguments, call.arguments)
            yield ExpectedFact(
                f"{place}/arguments",
                holds,
                f"expected {call.name} to be called with {quoted(call.arguments)}",
                f"it was called with {quoted(event.arguments)}",
            )
        failed = isinstance(event, ev.ToolRefused) or event.error is not None
        if call.error is not None:
            state = "it failed" if failed else "it did not fail"
            wanted_state = "to fail" if call.error else "not to fail"
            yield ExpectedFact(
                f"{place}/error",
                call.error == failed,
                f"expected {call.name} {wanted_state}",
                state,
            )
        elif call.arguments is None:
            yield ExpectedFact(place, True, f"expected a call of {call.name}", "there is one")


def _events(
    wanted: Sequence[EventExpected], events: Sequence[ev.Event], pointer: str
) -> Iterator[ExpectedFact]:
    """Yield a claim for each event, which must come after the ones before it."""
    start = 0
    for number, expected in enumerate(wanted):
        place = next((at for at in range(start, len(events)) if _is(expected, events[at])), None)
        shown = {"type": expected.type, **expected.values} if expected.values else expected.type
        behind = "" if not start else f" after {type(events[start - 1]).__name__}"
        same = [plain(event) for event in events if type(event).__name__ == expected.type]
        types = list(dict.fromkeys(type(event).__name__ for event in events))
        found = f"there is {quoted(same[0])}" if same else f"there are {', '.join(types) or 'none'}"
        yield ExpectedFact(
            f"{pointer}/{number}",
            place is not None,
            f"expected the event {quoted(shown)}{behind}",
            found,
        )
        start = start if place is None else place + 1


def _is(expected: EventExpected, event: ev.Event) -> bool:
    return type(event).__name__ == expected.type and all(
        same(getattr(event, name), value) for name, value in expected.values.items()
    )


def same(found: Any, wanted: Any) -> bool:
    """Return true if two JSON values are equal. True is not 1, and tuples count as lists."""
    match found:
        case Mapping() if isinstance(wanted, Mapping):
            return found.keys() == wanted.keys() and all(
                same(found[key], wanted[key]) for key in wanted
            )
        case list() | tuple() if isinstance(wanted, list | tuple):
            return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)


def _pause(expect: PauseExpected | None, paused: Paused | None, pointer: str) -> ExpectedFact:
    if expect is None:
        said = "" if paused is None else f"it waits for {quoted(paused.what)}"
        return ExpectedFact(pointer, paused is None, "expected it not to wait for an answer", said)
    if paused is None:
        return ExpectedFact(pointer, False, "expected it to wait for an answer", "it does not")
    tool = None if paused.call is None else paused.call.get("name")
    holds = (
        expect.what in (None, paused.what)
        and expect.kind in (None, paused.kind)
        and expect.tool in (None, tool)
    )
    wanted = expect.model_dump(exclude_none=True) or "an answer"
    found = {"what": paused.what, "kind": paused.kind, **({"tool": tool} if tool else {})}
    return ExpectedFact(
        pointer, holds, f"expected it to wait for {quoted(wanted)}", f"it waits for {quoted(found)}"
    )
