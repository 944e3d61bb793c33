"""Acts without a yes, guards that a correction gets around, and marks of a yes that do nothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import permutations

from llm_fsm._text import listed
from llm_fsm.definition.names import declared_key, root_of
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.acts import (
    ActGuard,
    ActStep,
    acts_of,
    confirmed_by,
    guards_of,
    is_yes,
    path_within,
    states_within,
    unagreed_path,
)
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import digressions_of, kind_of, own_arcs, pattern_states, reached_states
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_MOST_STATES = 400
"""The time for guards grows with the square of the states. A machine that large is made by a
program.
"""


@lint_rule("F120", "error", blocks=False)
def act_without_yes(document: Document) -> Faults:
    """An act can be reached without a yes and without an approval.

    Why it is bad:
    The path that is shown changes the world outside, and nobody agreed to it. After the last change of an agreed
    value, it has no transition with `agrees`. No state waits for a person, and the tool asks nobody. An act of a called
    definition is judged where it is called.

    Example:
        "states": {"hello": {"purpose": "What shall I book?", "required_context_keys": ["day"],
                             "transitions": [{"target_state": "book"}]},
                   "book": {"kind": "task", "purpose": "Book it", "acts": true,
                            "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Read the values back in a state with `confirms`, and lead on by a transition with `agrees`. Or ask a person: by
    `approval` at the tool, or in a state that waits.
    """
    for act in acts_of(document):
        path = unagreed_path(document, act)
        if path:
            yield Fault(
                f"{act.what} acts without a yes on the way {' → '.join(path)}",
                pointer=act.pointer,
                hint='lead there from a state with "confirms", by a transition with "agrees", or ask for approval',
                path=path,
            )


@lint_rule("F121", "warning")
def guard_before_change(document: Document) -> Faults:
    """A condition that must hold for the end or the act can be got around by a correction.

    Why it is bad:
    The condition is checked once, and later the user may still correct the value. The last move does not check it
    again. So the machine acts on a value that it would have refused.

    Example:
        "states": {"hello": {"purpose": "How many people?", "required_context_keys": ["people"], "transitions": [
                {"target_state": "check", "conditions": [{"logic": {"<": [{"var": "people"}, 9]}}]}]},
            "check": {"purpose": "Is that right?", "transitions": [{"target_state": "booked"}]},
            "booked": {"purpose": "Say that the table is booked"}}

    Fix:
    State the rule once, as `x-valid` of the key: then it holds for every value in every state. Or repeat the condition
    at the last move, or let the state `confirms` the key.
    """
    if "correct" in document.root.names("patterns"):
        return  # a correction leads back to the condition
    if len(document.states) > _MOST_STATES:
        return
    acting = list(dict.fromkeys(act.state for act in acts_of(document)))
    told = set()
    for state in acting:
        for found in _around(document, state, acts=True):
            told.add(found.pointer)
            yield found
    aside = {*digressions_of(document), *pattern_states(document), *acting, *_without_yes(document)}
    for state in document.states:
        if kind_of(document, state) in ("final", "task") and state not in aside:
            others = (
                one for one in _around(document, state, acts=False) if one.pointer not in told
            )
            first = next(others, None)
            if first is not None:
                yield first
                return


def _without_yes(document: Document) -> Iterable[str]:
    """Return the states that a "no" reaches, too: where a yes is asked for, only it leads to an act."""
    says_yes = any(is_yes(arc.placed.value) for arc in own_arcs(document))
    if document.initial is None or not says_yes:
        return ()
    return states_within(document, document.initial, partial(_is_no_yes, document))


def _is_no_yes(document: Document, step: ActStep) -> bool:
    return not confirmed_by(document, step)


def _around(document: Document, goal: str, *, acts: bool) -> Faults:
    """Find the guards that must hold for a state, and that a correction gets around; each key once."""
    start = document.initial
    if start is None or goal not in reached_states(document):
        return
    told = set()
    for guard in guards_of(document):
        if guard.keys in told or guard.step.arc is None or guard.step.arc.is_global:
            continue
        if not acts and _only_chooses(document, guard):
            continue
        looks = [one.step for one in guards_of(document) if one.keys >= guard.keys]

        def past(step: ActStep, looks: list[ActStep] = looks) -> bool:
            return step not in looks

        def unconfirmed(step: ActStep, keys: frozenset[str] = guard.keys) -> bool:
            return keys.isdisjoint(map(root_of, confirmed_by(document, step)))

        if path_within(document, start, goal, past) or not path_within(
            document, start, goal, unconfirmed
        ):
            continue
        for state in path_within(document, start, goal, _any_step)[:-1]:
            rest = path_within(document, state, goal, past)
            if kind_of(document, state) != "converse" or not rest:
                continue
            told.add(guard.keys)
            path = (*path_within(document, start, state, _any_step), *rest[1:])
            names = listed([quoted(key) for key in sorted(guard.keys)], 4)
            yield Fault(
                f"a correction of {names} in state {quoted(state)} gets around this condition on the way"
                f" {' → '.join(path)}",
                pointer=guard.pointer,
                hint='state it as "x-valid" of the key, or repeat it at the last move',
                path=path,
            )
            break


def _any_step(_: ActStep) -> bool:
    return True


def _only_chooses(document: Document, guard: ActGuard) -> bool:
    """Return true for a guard beside another one over the same key, or in a state that decides: it
    chooses the way.
    """
    assert guard.step.arc is not None
    source = guard.step.arc.source
    if kind_of(document, source) == "decide":
        return True
    beside = [
        one
        for one in guards_of(document)
        if one.step.arc is not None and one.step.arc.source == source
    ]
    return any(one.step.target != guard.step.target and one.keys & guard.keys for one in beside)


@lint_rule("F122", "error", at_key=True, blocks=False)
def yes_without_effect(document: Document) -> Faults:
    """`agrees` or `confirms` does nothing in its place, or names a key that is not declared.

    Why it is bad:
    `agrees` is the user's yes to the values that its state `confirms`. Without `confirms` it is a yes to nothing, and
    nothing is bound to it. `confirms` without a transition with `agrees` asks for a yes that has no effect.

    Example:
        "states": {"hello": {"purpose": "Shall I book it?", "transitions": [{"target_state": "bye", "agrees": true}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Add `confirms` with the keys that the state reads back, or `agrees` to the transition that is the yes.
    """
    for name, transition in transitions_of(document):
        if not is_yes(transition.value):
            continue
        state = document.states.get(name or "")
        if state is None or not state.get("confirms"):
            yield Fault(
                '"agrees" is a yes to nothing: only transitions out of a state with "confirms" have it',
                pointer=transition.pointer + "/agrees",
                hint='add "confirms" with the keys that the state reads back',
            )
        elif transition.get("auto") is True:
            yield Fault(
                '"auto" and "agrees" exclude each other: only the user says yes',
                pointer=transition.pointer + "/auto",
                hint='remove "auto"',
            )
    for name, state in document.states.items():
        confirms = state.texts("confirms")
        yields_yes = any(is_yes(one.value) for one in state.items("transitions"))
        if confirms and kind_of(document, name) == "converse" and not yields_yes:
            yield Fault(
                f"state {quoted(name)} confirms values, but none of its transitions is the yes",
                pointer=state.pointer + "/confirms",
                hint='add "agrees": true to the transition that the user agrees to',
                level="warning",
            )
        keys = document.keys
        for pointer, key in confirms if document.has_schema else ():
            if declared_key(key, keys) is None:
                yield Fault(
                    f'{quoted(key)} cannot be confirmed: "context_schema" does not declare it',
                    pointer=pointer,
                    hint=document.speller.hint(key, keys, "declared keys"),
                )


@lint_rule("F123", "warning")
def confirmed_not_shown(document: Document) -> Faults:
    """A fixed reply does not show a value that its state `confirms`.

    Why it is bad:
    The user says yes to a value that nobody read to them. The state then asks with a list of its own
    in place of your text.

    Example:
        "context_schema": {"type": "object", "properties": {"day": {"type": "string"}, "sum": {"type": "number"}}},
        "states": {"hello": {"purpose": "Shall I book it?", "reply": "Shall I book {{ day }}?",
                             "confirms": ["day", "sum"], "transitions": [{"target_state": "bye", "agrees": true}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Show the value in the reply, take the key out of `confirms`, or leave the reply away.
    """
    replies = data_flow(document).replies
    for name, state in document.states.items():
        shown = {root_of(mention.name) for mention in replies.get(name, ())}
        for pointer, key in state.texts("confirms") if state.get("reply") else ():
            if root_of(key) not in shown:
                yield Fault(
                    f"state {quoted(name)} confirms {quoted(key)}, and its reply does not show it",
                    pointer=pointer,
                    hint=f"write {{{{ {key} }}}} in the reply",
                )


@lint_rule("F124", "warning")
def second_act(document: Document) -> Faults:
    """A second act stands behind one yes, without a new read-back.

    Why it is bad:
    One yes is good for one act of each tool or task. What the user heard was said before the first
    act, and what that act brought was not read to them.

    Example:
        "context_schema": {"type": "object", "properties": {"day": {"type": "string"}}},
        "states": {"hello": {"purpose": "Shall I book it?", "confirms": ["day"],
                             "transitions": [{"target_state": "book", "agrees": true}]},
                   "book": {"kind": "task", "purpose": "Book", "acts": true, "transitions": [{"target_state": "pay"}]},
                   "pay": {"kind": "task", "purpose": "Pay", "acts": true, "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Read back what the second act does in a state with `confirms` between them, or make one act of both.
    """
    unconfirmed = partial(_is_no_yes, document)
    told = set()
    for first, second in permutations(acts_of(document), 2):
        path = path_within(document, first.state, second.state, unconfirmed)
        if len(path) > 1 and second not in told:
            told.add(second)
            yield Fault(
                f"{second.what} acts behind the same yes on the way {' → '.join(path)}",
                pointer=second.pointer,
                hint='read it back in a state with "confirms" between the two acts',
                path=path,
            )


@lint_rule("F125", "info")
def confirmed_not_demanded(document: Document) -> Faults:
    """A state `confirms` a key, and nothing on the way there demands that it is known.

    Why it is bad:
    The state can be reached with a blank. It then leads back in place of asking for the yes.

    Example:
        "context_schema": {"type": "object", "properties": {"day": {"type": "string"}}},
        "states": {"hello": {"purpose": "Which day?", "required_context_keys": ["day"],
                             "transitions": [{"target_state": "check"}]},
                   "check": {"purpose": "Is that right?", "confirms": ["day"],
                             "transitions": [{"target_state": "bye", "agrees": true}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Demand the key by `requires_context_keys` on the way to the state.
    """
    start = document.initial
    for name, state in document.states.items() if start is not None else ():
        shown = data_flow(document).replies.get(name, ())
        optional = {root_of(mention.name) for mention in shown if mention.guarded}
        for pointer, key in state.texts("confirms"):
            allows = partial(_demands_not, document, root_of(key))
            path = path_within(document, start or "", name, allows)
            if path and root_of(key) not in optional and _is_asked_for(document, root_of(key)):
                yield Fault(
                    f"state {quoted(name)} confirms {quoted(key)}, which nothing demands on the way"
                    f" {' → '.join(path)}",
                    pointer=pointer,
                    hint='demand it by "requires_context_keys" on the way',
                    path=path,
                )


def _is_asked_for(document: Document, key: str) -> bool:
    """Return true for a key that replies write, and that nothing else gives."""
    schema = document.keys.get(key, {})
    return schema.get("x-source", "model") == "model" and "default" not in schema


def _demands_not(document: Document, key: str, step: ActStep) -> bool:
    """Return true for a step that can be taken without a key."""
    if step.arc is None:
        return True
    owner = step.arc.placed
    demanded = (*owner.at("set").value, *data_flow(document).condition_names(owner))
    return key not in map(root_of, demanded)
