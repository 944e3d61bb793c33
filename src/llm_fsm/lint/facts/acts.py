"""What acts in a document, which yes leads there, and which guards hold for it.

An act is a task with `acts`, or a state that lists a tool with `acts`. A yes is a transition with
`agrees` out of a state with `confirms`. An approval is an answer to a state that waits, or a tool
that asks a person itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, object_at, texts_at
from llm_fsm.conditions.operators import PRESENCE
from llm_fsm.definition.graph import explored, path_in
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Computed, Document, once, once_each
from llm_fsm.lint.facts.subflows import called
from llm_fsm.lint.graph import Arc, arcs_from, fallback_targets, kind_of, pattern_targets
from llm_fsm.lint.logics import compiled_rules
from llm_fsm.lint.solver.outcomes import operators_in

_PRESENCE = PRESENCE | {"var", "!", "!!", "and", "or"}
"""Operators that only ask if something is known."""


class ActingPlace(NamedTuple):
    """An act: its state, the pointer of what acts, and its name in words."""

    state: str
    pointer: str
    what: str


class ActStep(NamedTuple):
    """One way from a state to another one. `arc`: its transition; None for a time-out and the like."""

    target: str
    arc: Arc | None


Allows = Callable[[ActStep], bool]


@once_each
def acts_of(document: Document) -> Iterator[ActingPlace]:
    """Every act of a document that no person approves each time.

    An act of a called definition that has no yes of its own there is one of the state that calls it.
    """
    return _acts(document, frozenset())


def _acts(document: Document, above: frozenset[str | None]) -> Iterator[ActingPlace]:
    """Yield the acts of a document. `above`: the files that call it."""
    tools = object_at(document.root.value, "tools")
    for name, state in document.states.items():
        listed = [(pointer, tool, object_at(tools, tool)) for pointer, tool in state.texts("tools")]
        # In a task that acts, all tools do if none says so.
        acting = [one for one in listed if one[2].get("acts") is True] or listed
        approved = bool(acting) and all(one[2].get("approval") is True for one in acting)
        by_itself = state.get("execute") is not None or not approved
        if kind_of(document, name) == "task" and state.get("acts") is True and by_itself:
            yield ActingPlace(name, f"{state.pointer}/acts", f'the task "{name}"')
        for pointer, tool, settings in listed:
            if settings.get("acts") is True and settings.get("approval") is not True:
                yield ActingPlace(name, pointer, f'the tool "{tool}" in state "{name}"')
    for name, inner in called(document).items():
        if inner.file in above:
            continue
        for act in _acts(inner, above | {inner.file}):
            if unagreed_path(inner, act):
                pointer = f"{document.states[name].pointer}/flow"
                yield ActingPlace(name, pointer, f'{act.what}, called in state "{name}",')


@once
def steps_from(document: Document) -> Mapping[str, tuple[ActStep, ...]]:
    """State id to the ways out of it that lead to known states, found when they are first read."""

    def steps(name: str) -> tuple[ActStep, ...]:
        known = [arc for arc in arcs_from(document)[name] if arc.target in document.states]
        aside = (*pattern_targets(document, name), *fallback_targets(document, name))
        return (
            *(ActStep(arc.target, arc) for arc in known),
            *(ActStep(target, None) for target in aside),
        )

    return Computed(steps)


def is_yes(transition: JsonMap) -> bool:
    """Return true for a transition that is the user's yes, in words or picked."""
    return transition.get("agrees") in (True, "picked")


def confirmed_by(document: Document, step: ActStep) -> frozenset[str]:
    """Return the keys to which a step is the user's yes; none if it is no yes."""
    if step.arc is None or not is_yes(step.arc.placed.value):
        return frozenset()
    source = document.states.get(step.arc.source)
    return frozenset() if source is None else frozenset(source.names("confirms"))


def unagreed_path(document: Document, act: ActingPlace) -> tuple[str, ...]:
    """Return a shortest path to an act since whose last yes something agreed has changed, or
    without any yes.

    Returns:
        The ids of its states; () if every path has a yes or an approval.
    """
    path = path_in(_agreed_in(document), (act.state, None))
    return tuple(state for state, _ in path)


Agreed = frozenset[str] | None
"""The keys agreed to; None without a yes."""


@once
def _agreed_in(document: Document) -> Mapping[tuple[str, Agreed], tuple[str, Agreed] | None]:
    """Each state with what can be agreed to there, and the step before on a shortest path."""

    def after(here: tuple[str, Agreed]) -> Iterator[tuple[str, Agreed]]:
        state, agreed = here
        for step in steps_from(document)[state]:
            then = _after_step(document, state, step, agreed)
            yield step.target, _after_state(document, step.target, then)

    start = document.initial
    return {} if start is None else explored([(start, _after_state(document, start, None))], after)


def _after_step(document: Document, state: str, step: ActStep, agreed: Agreed) -> Agreed:
    """Return the keys agreed to after a step; None without a yes. An answer of a person allows
    anything.
    """
    if kind_of(document, state) == "wait" and step.arc is not None:
        return agreed if agreed is not None else frozenset()
    keys = confirmed_by(document, step)
    if keys:
        agreed = keys
    if step.arc is not None and agreed and not agreed.isdisjoint(_assigned(step.arc.placed.value)):
        return None
    return agreed


def _after_state(document: Document, state: str, agreed: Agreed) -> Agreed:
    """Return the keys agreed to in a state that was entered: those that it sets or asks for are
    open again.
    """
    if not agreed:
        return agreed
    value = document.states[state].value
    changed = {*_assigned(value), *object_at(value, "output")}
    if kind_of(document, state) == "converse":
        changed.update(
            root_of(key) for _, key in document.states[state].texts("required_context_keys")
        )
    return agreed if agreed.isdisjoint(changed) else None


def _assigned(owner: Any) -> set[str]:
    return {*object_at(owner, "set"), *texts_at(owner, "clear")}


# -- guards ----------------------------------------------------------------------------------------


class ActGuard(NamedTuple):
    """A condition over the values of keys that a reply may write. `pointer`: the condition."""

    step: ActStep
    pointer: str
    keys: frozenset[str]


@once_each
def guards_of(document: Document) -> Iterator[ActGuard]:
    """The guards of all transitions of states."""
    for name in document.states:
        for step in steps_from(document)[name]:
            yield from _guards(document, step)


def _guards(document: Document, step: ActStep) -> Iterator[ActGuard]:
    for condition in step.arc.conditions if step.arc is not None else ():
        rule = compiled_rules(document).get(condition.pointer + "/logic")
        if rule is None or _only_asks_if_known(condition.get("logic")):
            continue
        roots = {root_of(name) for name in rule.reads}
        keys = frozenset(key for key in roots if _is_writable(document, key))
        if keys and keys == roots:
            yield ActGuard(step, condition.pointer, keys)


def _only_asks_if_known(logic: Any) -> bool:
    """Return true for a rule that asks if something is known, or was declined: `phone is known or
    declined is true`.
    """
    operators = set(operators_in(logic))
    asks = operators - {"var", "and", "or"}
    return operators <= _PRESENCE or (
        operators <= _PRESENCE | {"==", "==="} and bool(asks & _PRESENCE)
    )


def _is_writable(document: Document, key: str) -> bool:
    """Return true if a reply may write a key, and no rule of `x-valid` holds for its value."""
    if not key or key.startswith("_"):
        return False
    if not document.has_schema:
        return True
    schema = document.keys.get(key, {"x-source": "host"})
    return schema.get("x-source", "model") == "model" and not schema.get("x-valid")


def states_within(document: Document, start: str, allows: Allows) -> dict[str, str | None]:
    """Return the states that allowed steps reach, each with the one before it."""
    return explored(
        [start], lambda name: [step.target for step in steps_from(document)[name] if allows(step)]
    )


def path_within(document: Document, start: str, goal: str, allows: Allows) -> tuple[str, ...]:
    """Return a shortest path of allowed steps; () if there is none."""
    return path_in(states_within(document, start, allows), goal)
