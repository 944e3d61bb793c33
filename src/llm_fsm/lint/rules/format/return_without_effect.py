"""A transition of a state has `return`, which works on global transitions only, or what it leads to never comes back.

Why it is bad:
The conversation does not come back as the author expects.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "help", "return": true}]},
               "help": {"purpose": "Explain the rules"}}

Fix:
Move the transition to `global_transitions`, or remove `return` and lead back by a transition. A digression comes back
in a state without transitions: let one be reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.graph import reachable
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.endings import ends, unsure
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look for `return` on transitions of states."""
    for name, transition in subject.transitions():
        if name is not None and transition.value.get("return") is True:
            yield RULE.finding(
                '"return" has no effect on a transition of a state',
                pointer=transition.pointer + "/return",
                hint='only transitions under "global_transitions" come back',
            )
    yield from _endless(subject)


def _endless(subject: Subject) -> Iterator[Finding]:
    """Digressions from which no way leads to a state without transitions."""
    last = ends(subject)
    graph: dict[str, list[str]] = {name: [] for name in subject.states}
    for arc in subject.own:
        if arc.target in graph:
            graph[arc.source].append(arc.target)
    for name, state in subject.states.items():
        aside = (state.value.get("on_timeout"), state.value.get("on_exhausted"))
        graph[name] += [target for target in aside if isinstance(target, str) and target in graph]
    for transition in subject.root.items("global_transitions"):
        target = transition.value.get("target_state")
        if transition.value.get("return") is not True or not isinstance(target, str) or target not in graph:
            continue
        reached = reachable(graph, [target])
        if last.isdisjoint(reached) and unsure(subject).isdisjoint(reached):
            yield RULE.finding(
                f"the digression to {quoted(target)} never comes back: no state without transitions is reached there",
                pointer=transition.pointer + "/return",
                hint="a digression comes back by itself: take out the transitions that are to lead back",
            )


RULE = Rule(name="return-without-effect", code="F112", level="warning", check=check, at_key=True)
