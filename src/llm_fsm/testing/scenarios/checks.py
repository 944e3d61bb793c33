"""Find impossible things in a file of tests, before anything is played.

There are three kinds: names that the definition does not have, values that no key can have, and
cases that play or expect nothing. So a typo is reported as a typo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, step
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flows
from llm_fsm.session.context import Keys, compile_keys
from llm_fsm.session.memory import NAMES as MEMORY_TOOLS
from llm_fsm.testing.scenarios.models import Case, CaseStep, Expect, WordsExpected, script
from llm_fsm.testing.scenarios.problems import CaseFileText, FileFault, in_order, meant, quoted

_OWN_KEYS = ("_extra",)
_NULL_SAYS = frozenset({"paused", "output"})
_EMPTY_SAYS_NOT = frozenset({"context", "absent", "events"})


class Inconsistency(NamedTuple):
    """Something impossible. `at_key`: the key at `pointer` is wrong, not the value."""

    pointer: str
    message: str
    hint: str | None = None
    at_key: bool = False


class Vocabulary(NamedTuple):
    """The names of a definition and of those that it calls. `written` None: any context key may be
    set.
    """

    definition: Definition
    states: frozenset[str]
    patterns: frozenset[str]
    tools: frozenset[str]
    functions: frozenset[str]
    written: frozenset[str] | None
    keys: Keys

    def refusal(self, key: str, value: Any) -> str | None:
        """Return why a declared key cannot have a value; null is no value."""
        if value is None or key not in self.definition.key_schemas:
            return None
        return self.keys.fault(key, value)


def vocabulary_of(flows: Flows, cases: Iterable[Case]) -> Vocabulary:
    """Return the names that conversations of these cases can have, on a definition and those that
    it calls.
    """
    definition = flows.root.definition
    every = definitions_of(flows)
    written = {*_OWN_KEYS, *definition.machine_keys}
    for one in every:
        written.update(one.key_schemas)
        for tool in one.tools.values():
            written.update(tool.output)
        for state in one.states.values():
            written.update(state.output)
    for setup in cases:
        written.update(setup.context)
        for handler in setup.handlers:
            written.update(handler.set)
        for result in chain.from_iterable(setup.functions.values()):
            written.update(result.set)
    return Vocabulary(
        definition=definition,
        states=_all_of(one.states for one in every),
        patterns=_all_of(one.patterns for one in every),
        tools=_all_of(one.tools for one in every),
        functions=_all_of(map(function_names, every)),
        # Without a schema of its own, a definition takes keys of any name.
        written=frozenset(written) if definition.key_schemas else None,
        keys=compile_keys(definition, ()),
    )


def _all_of(names: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(chain.from_iterable(names))


def definitions_of(flows: Flows) -> list[Definition]:
    """Return the definition itself, and all that it calls."""
    return [flows.root.definition, *(flow.definition for flow in flows.called.values())]


def tasks_of(flows: Flows) -> Mapping[str, str | None]:
    """Return the task states of a definition and of those that it calls, each with its function.

    A state of the definition itself hides one of the same name.
    """
    found = {}
    for one in reversed(definitions_of(flows)):
        for name, state in one.states.items():
            found[name] = (one.kind_of(name), state.execute)
    return {name: execute for name, (kind, execute) in found.items() if kind == "task"}


def function_names(definition: Definition) -> dict[str, bool]:
    """Return every registered function that a definition names, and true for a check."""
    found = {}
    for state_id, state in definition.states.items():
        if definition.kind_of(state_id) != "task":
            continue
        for result in state.key_results:
            if isinstance(result.check, dict) and isinstance(result.check.get("registered"), str):
                found[str(result.check["registered"])] = True
        if state.execute is not None:
            found[state.execute] = False
        if state.route is not None:
            found[state.route] = False
    return found


def inconsistencies(
    vocabulary: Vocabulary, setup: Case, pointer: str, *, shared: bool = False
) -> Iterator[Inconsistency]:
    """Yield everything impossible in a case, or in the shared part of a file."""
    check = _Checker(vocabulary)
    if setup.state is not None:
        yield from check.states([setup.state], f"{pointer}/state")
    for name in setup.tools:
        if name not in vocabulary.tools:
            yield check.no_tool(name, f"{pointer}/tools{step(name)}", at_key=True)
    for name in setup.functions:
        if name not in vocabulary.functions:
            message = f"the definition names no function {name!r}"
            hint = meant(name, sorted(vocabulary.functions))
            yield Inconsistency(f"{pointer}/functions{step(name)}", message, hint, at_key=True)
    for number, handler in enumerate(setup.handlers):
        yield from check.states(handler.state, f"{pointer}/handlers/{number}/state")
    yield from check.case(setup, pointer)
    if not shared and (setup.start is None or setup.start.expect is None):
        yield from check.given(setup.context, f"{pointer}/context")


class _Checker(NamedTuple):
    """Finds names and values that a vocabulary does not have."""

    vocabulary: Vocabulary

    def no_tool(self, name: str, pointer: str, *, at_key: bool = False) -> Inconsistency:
        hint = meant(name, sorted(self.vocabulary.tools))
        return Inconsistency(pointer, f"the definition has no tool {name!r}", hint, at_key)

    def given(self, values: JsonMap, pointer: str) -> Iterator[Inconsistency]:
        """Yield the values that no conversation can begin with."""
        for key, value in values.items():
            reason = self.vocabulary.refusal(key, value)
            if reason is not None:
                said = f"no conversation begins with {key} {quoted(value)}: {reason}"
                yield Inconsistency(f"{pointer}{step(key)}", said)

    def case(self, case: Case, pointer: str) -> Iterator[Inconsistency]:
        if case.start is not None:
            yield from self.expect(case.start.expect, f"{pointer}/start/expect")
        for number, one in enumerate(case.steps):
            place = f"{pointer}/steps/{number}"
            yield from self.replies(one, place)
            yield from self.expect(one.expect, f"{place}/expect")
        for number, turn in enumerate(case.turns):
            place = f"{pointer}/turns/{number}"
            yield from self.states(turn.state, f"{place}/state")
            for key in turn.values:
                yield from self.key(key, f"{place}/values{step(key)}", at_key=True)
        yield from self.expect(case.expect, f"{pointer}/expect")

    def replies(self, played: CaseStep, pointer: str) -> Iterator[Inconsistency]:
        """Yield a lone reply that moves to an unknown state. If a second one follows, the test
        means it.
        """
        replies = script(played)
        if len(replies) != 1 or replies[0].to is None:
            return
        place = f"{pointer}/reply/to" if played.reply is not None else f"{pointer}/replies/0/to"
        said = "the reply moves to {}, which is no state of the definition"
        yield from self.states([replies[0].to], place, said, known=self.vocabulary.patterns)

    def states(
        self,
        names: Iterable[str] | None,
        pointer: str,
        said: str = "the definition has no state {}",
        known: Collection[str] = (),
    ) -> Iterator[Inconsistency]:
        vocabulary = self.vocabulary
        for number, name in enumerate(names or ()):
            if name not in vocabulary.states and name not in known:
                hint = meant(name, (*vocabulary.definition.states, *vocabulary.definition.patterns))
                yield Inconsistency(f"{pointer}/{number}", said.format(repr(name)), hint)

    def expect(
        self, expect: Expect | None, pointer: str, *, denied: bool = False
    ) -> Iterator[Inconsistency]:
        if expect is None:
            return
        vocabulary = self.vocabulary
        yield from self.states(expect.state, f"{pointer}/state")
        yield from self.states(expect.path, f"{pointer}/path")
        yield from self.states(expect.open, f"{pointer}/open", known=vocabulary.patterns)
        yield from self.values(expect.context, f"{pointer}/context", denied=denied)
        exact = expect.context_exact or {}
        yield from self.values(exact, f"{pointer}/context_exact", denied=denied)
        for number, key in enumerate(expect.absent):
            yield from self.key(key, f"{pointer}/absent/{number}", at_key=False)
        for number, call in enumerate(expect.tools or ()):
            if call.name not in vocabulary.tools | MEMORY_TOOLS and call.error is not True:
                yield self.no_tool(call.name, f"{pointer}/tools/{number}")
        yield from self.expect(expect.none_of, f"{pointer}/not", denied=True)
        for number, choice in enumerate(expect.any_of):
            yield from self.expect(choice, f"{pointer}/any_of/{number}", denied=denied)

    def values(self, values: JsonMap, pointer: str, *, denied: bool) -> Iterator[Inconsistency]:
        for key, value in values.items():
            place = f"{pointer}{step(key)}"
            yield from self.key(key, place, at_key=True)
            reason = None if denied else self.vocabulary.refusal(key, value)
            if reason is not None:
                yield Inconsistency(place, f"{key} can never be {quoted(value)}: {reason}")

    def key(self, key: str, pointer: str, *, at_key: bool) -> Iterator[Inconsistency]:
        written = self.vocabulary.written
        if written is not None and written.isdisjoint((key, key.partition(".")[0])):
            known = sorted(written - set(_OWN_KEYS))
            message = (
                f"nothing can set the context key {key!r}: the definition's context_schema has"
                " no such key"
            )
            yield Inconsistency(pointer, message, meant(key, known), at_key)


def plays_nothing(case: Case) -> bool:
    """Return true for a case without steps, start and expectations, unless it is skipped."""
    return not case.steps and not case.turns and case.start is None and expects_nothing(case)


def expects_nothing(case: Case) -> bool:
    """Return true for a case that passes with any result."""
    every = (case.expect, *(step.expect for step in (case.start, *case.steps) if step is not None))
    return case.skip is None and not case.turns and not any(map(_says, every))


def _says(expect: Expect | None) -> bool:
    if expect is None:
        return False
    return any(_claims(name, getattr(expect, name)) for name in expect.model_fields_set)


def _claims(name: str, value: object) -> bool:
    match value:
        case Expect():
            return _says(value)
        case WordsExpected():
            return value.equals is not None or any((*value.contains, *value.matches))
    if name == "any_of" and isinstance(value, list):  # an empty alternative is always met
        return all(map(_says, value))
    if value is None:
        return name in _NULL_SAYS
    return bool(value) or name not in _EMPTY_SAYS_NOT


def warnings(text: CaseFileText, cases: Iterable[tuple[str, Case]]) -> tuple[FileFault, ...]:
    """Return a warning for each case that expects nothing, with its pointer, and one for all rows
    of a table.
    """
    said = "this case expects nothing, so it passes wherever the conversation goes"
    hint = 'give a step an "expect"'
    found = (
        text.fault(said, pointer, hint=hint, level="warning")
        for pointer, case in cases
        if expects_nothing(case)
    )
    return tuple(in_order(found))
