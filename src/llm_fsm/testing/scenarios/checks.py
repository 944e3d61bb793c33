"""Find what a file of tests says that makes no sense, before anything is played.

Three kinds: names that the definition does not have, values that no key can have, and cases that play or expect
nothing. So a typo is reported as a typo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import step
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flows
from llm_fsm.session.context import Keys, compile_keys
from llm_fsm.session.memory import NAMES as MEMORY_TOOLS
from llm_fsm.testing.scenarios.models import Case, Expect, Step, WordsExpected, script
from llm_fsm.testing.scenarios.problems import Fault, Text, in_order, meant, quoted

_OWN_KEYS = ("_extra",)
_NULL_SAYS = frozenset({"paused", "output"})
_EMPTY_SAYS_NOT = frozenset({"context", "absent", "events"})


class Nonsense(NamedTuple):
    """Something that cannot be. `at_key`: the key at `pointer` is meant, not the value."""

    pointer: str
    message: str
    hint: str | None = None
    at_key: bool = False


class Sense(NamedTuple):
    """The names of a definition and of those that it calls. `written` None: any context key may be set."""

    definition: Definition
    states: frozenset[str]
    patterns: frozenset[str]
    tools: frozenset[str]
    functions: frozenset[str]
    written: frozenset[str] | None
    keys: Keys


def sense_of(flows: Flows, cases: Iterable[Case]) -> Sense:
    """Return the names that conversations of these cases can have, on a definition and those that it calls."""
    definition, every = flows.root.definition, definitions_of(flows)
    declared = frozenset(key for one in every for key in one.key_schemas) if definition.key_schemas else frozenset()
    outputs = {key for one in every for ref in one.tools.values() for key in ref.output}
    outputs |= {key for one in every for state in one.states.values() for key in state.output}
    for setup in cases:
        outputs |= set(setup.context) | {key for item in setup.handlers for key in item.set}
        outputs |= {key for given in setup.functions.values() for item in given for key in item.set}
    states = frozenset(state_id for one in every for state_id in one.states)
    return Sense(
        definition=definition,
        states=states,
        patterns=frozenset(name for one in every for name in one.patterns),
        tools=frozenset(name for one in every for name in one.tools),
        functions=frozenset(name for one in every for name in function_names(one)),
        written=declared | outputs | frozenset(_OWN_KEYS) if declared else None,
        keys=compile_keys(definition, ()),
    )


def definitions_of(flows: Flows) -> list[Definition]:
    """The definition itself, and all that it calls."""
    return [flows.root.definition, *(flow.definition for flow in flows.called.values())]


def tasks_of(flows: Flows) -> Mapping[str, str | None]:
    """The states of a definition and of those that it calls that are worked on, each with its function.

    A state of the definition itself hides one of the same name.
    """
    found = {
        name: (one.kind_of(name), state.execute)
        for one in reversed(definitions_of(flows))
        for name, state in one.states.items()
    }
    return {name: execute for name, (kind, execute) in found.items() if kind == "task"}


def function_names(definition: Definition) -> dict[str, bool]:
    """Every registered function that a definition names, and whether it is a check."""
    found: dict[str, bool] = {}
    for state_id, state in definition.states.items():
        if definition.kind_of(state_id) != "task":
            continue
        for result in state.key_results:
            if isinstance(result.check, dict) and isinstance(result.check.get("registered"), str):
                found[str(result.check["registered"])] = True
        if state.execute is not None:
            found[state.execute] = False
    return found


def nonsense(sense: Sense, setup: Case, pointer: str, *, shared: bool = False) -> Iterator[Nonsense]:
    """Yield everything impossible in a case, or in the shared part of a file."""
    if setup.state is not None:
        yield from _states(sense, [setup.state], f"{pointer}/state")
    for name in setup.tools:
        if name not in sense.tools:
            place = f"{pointer}/tools{step(name)}"
            yield Nonsense(place, f"the definition has no tool {name!r}", meant(name, sorted(sense.tools)), True)
    for name in setup.functions:
        if name not in sense.functions:
            place = f"{pointer}/functions{step(name)}"
            yield Nonsense(place, f"the definition names no function {name!r}", meant(name, sense.functions), True)
    for number, handler in enumerate(setup.handlers):
        yield from _states(sense, handler.state or (), f"{pointer}/handlers/{number}/state")
    yield from _case(sense, setup, pointer)
    if not shared and (setup.start is None or setup.start.expect is None):
        yield from _given(sense, setup.context, f"{pointer}/context")


def _given(sense: Sense, values: Mapping[str, Any], pointer: str) -> Iterator[Nonsense]:
    """Values with which no conversation begins."""
    for key, value in values.items():
        reason = sense.keys.fault(key, value) if key in sense.definition.key_schemas and value is not None else None
        if reason is not None:
            yield Nonsense(f"{pointer}{step(key)}", f"no conversation begins with {key} {quoted(value)}: {reason}")


def _case(sense: Sense, case: Case, pointer: str) -> Iterator[Nonsense]:
    if case.start is not None:
        yield from _expect(sense, case.start.expect, f"{pointer}/start/expect")
    for number, one in enumerate(case.steps):
        place = f"{pointer}/steps/{number}"
        yield from _replies(sense, one, place)
        yield from _expect(sense, one.expect, f"{place}/expect")
    yield from _expect(sense, case.expect, f"{pointer}/expect")


def _replies(sense: Sense, played: Step, pointer: str) -> Iterator[Nonsense]:
    """A lone reply that moves to no state; with a second one behind it, that is what is tested."""
    replies = script(played)
    to = replies[0].to if len(replies) == 1 else None
    if to is not None and to not in sense.patterns:
        place = f"{pointer}/reply/to" if played.reply is not None else f"{pointer}/replies/0/to"
        yield from _states(sense, [to], place, "the reply moves to {}, which is no state of the definition")


def _states(
    sense: Sense,
    names: Iterable[str],
    pointer: str,
    said: str = "the definition has no state {}",
    known: Collection[str] = (),
) -> Iterator[Nonsense]:
    for number, name in enumerate(names):
        if name not in sense.states and name not in known:
            place = f"{pointer}/{number}"
            yield Nonsense(
                place, said.format(repr(name)), meant(name, (*sense.definition.states, *sense.definition.patterns))
            )


def _expect(sense: Sense, expect: Expect | None, pointer: str, *, denied: bool = False) -> Iterator[Nonsense]:
    if expect is None:
        return
    yield from _states(sense, expect.state or (), f"{pointer}/state")
    yield from _states(sense, expect.path or (), f"{pointer}/path")
    yield from _states(sense, expect.open or (), f"{pointer}/open", known=sense.patterns)
    yield from _values(sense, expect.context, f"{pointer}/context", denied=denied)
    yield from _values(sense, expect.context_exact or {}, f"{pointer}/context_exact", denied=denied)
    for number, key in enumerate(expect.absent):
        yield from _key(sense, key, f"{pointer}/absent/{number}", at_key=False)
    for number, call in enumerate(expect.tools or ()):
        if call.name not in sense.tools | MEMORY_TOOLS and call.error is not True:
            place = f"{pointer}/tools/{number}"
            yield Nonsense(place, f"the definition has no tool {call.name!r}", meant(call.name, sorted(sense.tools)))
    yield from _expect(sense, expect.none_of, f"{pointer}/not", denied=True)
    for number, choice in enumerate(expect.any_of):
        yield from _expect(sense, choice, f"{pointer}/any_of/{number}", denied=denied)


def _values(sense: Sense, values: Mapping[str, Any], pointer: str, *, denied: bool) -> Iterator[Nonsense]:
    for key, value in values.items():
        place = f"{pointer}{step(key)}"
        yield from _key(sense, key, place, at_key=True)
        if denied or value is None or key not in sense.definition.key_schemas:
            continue
        reason = sense.keys.fault(key, value)
        if reason is not None:
            yield Nonsense(place, f"{key} can never be {quoted(value)}: {reason}")


def _key(sense: Sense, key: str, pointer: str, *, at_key: bool) -> Iterator[Nonsense]:
    if sense.written is not None and key.partition(".")[0] not in sense.written and key not in sense.written:
        known = sorted(sense.written - set(_OWN_KEYS))
        message = f"nothing can set the context key {key!r}: the definition's context_schema has no such key"
        yield Nonsense(pointer, message, meant(key, known), at_key)


def plays_nothing(case: Case) -> bool:
    """True for a case without a step, without a start and without anything expected, unless it is skipped."""
    return not case.steps and case.start is None and expects_nothing(case)


def expects_nothing(case: Case) -> bool:
    """True for a case that passes whatever is said and done."""
    every = (case.expect, *(step.expect for step in (case.start, *case.steps) if step is not None))
    return case.skip is None and not any(map(_says, every))


def _says(expect: Expect | None) -> bool:
    if expect is None:
        return False
    return any(_claims(name, getattr(expect, name)) for name in expect.model_fields_set)


def _claims(name: str, value: object) -> bool:
    if isinstance(value, Expect):
        return _says(value)
    if isinstance(value, WordsExpected):
        return value.equals is not None or any((*value.contains, *value.matches))
    if name == "any_of" and isinstance(value, list):  # an alternative that says nothing always holds
        return all(map(_says, value))
    return name in _NULL_SAYS if value is None else bool(value) or name not in _EMPTY_SAYS_NOT


def warnings(text: Text, cases: Iterable[tuple[str, Case]]) -> tuple[Fault, ...]:
    """A warning for each case, given with its pointer, that expects nothing; one for all rows of a table."""
    said = "this case expects nothing, so it passes wherever the conversation goes"
    hint = 'give a step an "expect"'
    found = (text.fault(said, pointer, hint=hint, level="warning") for pointer, case in cases if expects_nothing(case))
    return tuple(in_order(found))
