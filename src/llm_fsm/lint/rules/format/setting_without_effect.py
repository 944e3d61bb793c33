"""Settings that do nothing in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from llm_fsm._json import list_at
from llm_fsm._text import listed
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.graph import reachable
from llm_fsm.definition.names import Kind
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.endings import ends, unsure
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import kind_of, own_arcs, states_of_kind
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("F110", "warning", at_key=True)
def final_with_transitions(document: Document) -> Faults:
    """A state of kind `final` has transitions.

    Why it is bad:
    A final state ends the conversation. Its transitions are never taken, and their targets are not reached.

    Example:
        "states": {"hello": {"kind": "final", "purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Remove `kind` if the conversation continues from here, or else the transitions.
    """
    for name, state in document.states.items():
        if state.get("kind") == "final" and state.get("transitions"):
            yield Fault(
                f"state {quoted(name)} is final: its transitions are never taken",
                pointer=state.pointer + "/transitions",
                hint='remove "kind" if the conversation continues from here, or else the'
                " transitions",
            )


@lint_rule("F112", "warning", at_key=True)
def return_without_effect(document: Document) -> Faults:
    """`return` does nothing: it is on a transition of a state, or its target never returns.

    Why it is bad:
    The conversation does not return as the author expects.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "help", "return": true}]},
                   "help": {"purpose": "Explain the rules"}}

    Fix:
    Move the transition to `global_transitions`, or remove `return` and lead back by a transition. A digression returns
    in a state without transitions, so let it reach one.
    """
    for name, transition in transitions_of(document):
        if name is not None and transition.get("return") is True:
            yield Fault(
                '"return" has no effect on a transition of a state',
                pointer=transition.pointer + "/return",
                hint='only transitions under "global_transitions" return',
            )
    yield from _endless(document)


def _endless(document: Document) -> Faults:
    """Find digressions from which no path leads to a state without transitions."""
    last = ends(document)
    graph: dict[str, list[str]] = {name: [] for name in document.states}
    for arc in own_arcs(document):
        if arc.target in graph:
            graph[arc.source].append(arc.target)
    for name, state in document.states.items():
        aside = (state.get("on_timeout"), state.get("on_exhausted"))
        graph[name] += [target for target in aside if isinstance(target, str) and target in graph]
    for transition in document.root.items("global_transitions"):
        target = transition.get("target_state")
        if (
            transition.get("return") is not True
            or not isinstance(target, str)
            or target not in graph
        ):
            continue
        reached = reachable(graph, [target])
        if last.isdisjoint(reached) and unsure(document).isdisjoint(reached):
            yield Fault(
                f"the digression to {quoted(target)} never returns: no state without transitions"
                " is reached there",
                pointer=transition.pointer + "/return",
                hint="a digression returns by itself: remove the transitions that lead back",
            )


@lint_rule("F116", "warning", at_key=True)
def collects_at_the_end(document: Document) -> Faults:
    """A state that ends the conversation has keys to collect.

    Why it is bad:
    The conversation is over when the state is entered. Its question is never answered, and the keys stay empty. Mostly
    its transitions are missing: a state without transitions is an end.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "email"}]},
                   "email": {"purpose": "Ask for the address", "required_context_keys": ["email"]}}

    Fix:
    Add the transitions, or collect the keys before.
    """
    for name, state in states_of_kind(document, "final"):
        keys = [quoted(key) for key in state.names("required_context_keys")]
        if keys:
            stated = state.get("kind") == "final"
            why = "" if stated else ": it has no transitions"
            yield Fault(
                f"state {quoted(name)} ends the conversation{why}, so {listed(keys, 4)} cannot be"
                " collected there",
                pointer=state.pointer + "/required_context_keys",
                hint="collect them before"
                if stated
                else "add its transitions, or collect the keys before",
            )


@lint_rule("T510", "warning", at_key=True)
def on_timeout_without_timeout(document: Document) -> Faults:
    """A state has `on_timeout`, but no `timeout`.

    Why it is bad:
    The target is never reached, because the state waits for ever.

    Example:
        "states": {"approval": {"kind": "wait", "on_timeout": "late", "transitions": [{"target_state": "done"}]},
                   "late": {"purpose": "Say that it is too late"}, "done": {"purpose": "Say that it is done"}}

    Fix:
    Add `timeout` in seconds.
    """
    for name, state in document.states.items():
        if state.get("on_timeout") is not None and state.get("timeout") is None:
            yield Fault(
                f'"on_timeout" of state {quoted(name)} never happens: there is no "timeout"',
                pointer=state.pointer + "/on_timeout",
                hint='add "timeout" in seconds',
            )


KINDS: tuple[str, ...] = get_args(Kind)
_KINDS: Mapping[str, tuple[str, ...]] = {
    "key_results": ("task",),
    "max_retries": ("task",),
    "on_exhausted": ("task",),
    "execute": ("task",),
    "route": ("task",),
    "flow": ("subflow",),
    "input": ("subflow",),
    "output": ("wait", "subflow"),
    "wait_for": ("wait",),
    "answer_schema": ("wait",),
    "timeout": ("wait", "converse"),
    "on_timeout": ("wait", "converse"),
    "remind": ("wait", "converse"),
    "messages": ("wait",),
    "outcome": ("final",),
    "required_context_keys": ("converse", "final", "task"),
    "example_dialogue": ("converse", "final", "task"),
    "choices": ("converse",),
    "tools_first": ("converse",),
    "reply_alone": ("converse", "final", "wait"),
    "confirms": ("converse",),
    "acts": ("task",),
    "ask": ("converse",),
}
"""Key of a state to the kinds in which it does something."""
_LABELLED = ("task", "subflow", "wait")


@lint_rule("T513", "warning", at_key=True)
def setting_without_effect(document: Document) -> Faults:
    """A state has a key that works only in states of another kind.

    Why it is bad:
    The key is read and does nothing. Mostly `kind` is missing.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "write"}]},
                   "write": {"purpose": "Write it", "key_results": [{"name": "long", "description": "200 words"}],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the `kind` that the key belongs to, or remove the key.
    """
    for name, state in document.states.items():
        kind = kind_of(document, name)
        if kind not in KINDS:
            continue
        for key, kinds in _KINDS.items():
            if state.get(key) in (None, [], {}, "") or kind in kinds:
                continue
            meant = " or ".join(f'"{one}"' for one in kinds)
            yield Fault(
                f'"{key}" has no effect in state {quoted(name)}, which is of kind "{kind}"',
                pointer=f"{state.pointer}/{key}",
                hint=f'it belongs to "kind": {meant}'
                if len(kinds) < 3
                else "ask in a state that converses",
            )
        if kind == "wait" and state.get("messages") == "record" and state.get("remind"):
            yield Fault(
                f'"remind" has no effect in state {quoted(name)}: a person has taken over there',
                pointer=f"{state.pointer}/remind",
                hint='remove "remind"; "timeout" and "on_timeout" work',
            )
    for owner, transition in transitions_of(document):
        if transition.get("on") is not None and (
            owner is None or kind_of(document, owner) not in _LABELLED
        ):
            yield Fault(
                '"on" has no effect here: only tasks, flows and answers lead on by a label',
                pointer=transition.pointer + "/on",
                hint='write a "description" or conditions',
            )


@lint_rule("T515", "warning")
def remind_after_timeout(document: Document) -> Faults:
    """A reminder of a state is due after its time-out.

    Why it is bad:
    It is never sent.

    Example:
        "states": {"approval": {"kind": "wait", "timeout": 3600, "on_timeout": "late", "remind": [600, 7200],
                                "transitions": [{"target_state": "late"}]},
                   "late": {"purpose": "Say that it is too late"}}

    Fix:
    Remind earlier, or wait longer. Both are seconds from the beginning of the wait.
    """
    for state in document.states.values():
        timeout = state.get("timeout")
        if not is_number(timeout):
            continue
        for index, seconds in enumerate(list_at(state.value, "remind")):
            if isinstance(seconds, int | float) and seconds >= timeout:
                yield Fault(
                    f"the wait is over after {timeout:g} seconds, before this reminder",
                    pointer=f"{state.pointer}/remind/{index}",
                    hint="remind earlier, or wait longer",
                )
