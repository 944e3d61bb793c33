"""No path from the initial state leads to a state.

Why it is bad:
What the state does never happens. Mostly a transition to it is missing, or names another state.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
               "help": {"purpose": "Explain the rules", "transitions": [{"target_state": "bye"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Lead a transition to it, or remove it. If the host starts conversations in it, say so under `x-lint`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed, nearest
from llm_fsm.definition.graph import reversed_graph
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_GUESSED = 20


def _misspelt(subject: Subject) -> set[str | None]:
    """States that unknown targets were probably meant to be: mending those targets is enough."""
    own: dict[str, list[str]] = {}
    for arc in subject.own:
        own.setdefault(arc.source, []).append(arc.target)
    shared = [arc.target for arc in subject.shared]
    named: dict[str, None] = {}
    for name in subject.states:
        named.update(dict.fromkeys(own.get(name, ())))
        if subject.offers(name):
            named.update(dict.fromkeys(shared))
            shared = []
    unknown = [target for target in named if target not in subject.states]
    return {nearest(target, subject.states) for target in unknown[:_GUESSED]}


def check(subject: Subject) -> Iterator[Finding]:
    """Every state that is not reached, with who leads to it; `ends-at-once` says why all are lost."""
    lost = [name for name in subject.states if name not in subject.reached]
    if not lost or (subject.initial is not None and subject.kind_of(subject.initial) == "final"):
        return
    before = reversed_graph(subject.graph)
    misspelt = _misspelt(subject)
    for name in lost:
        if name in misspelt:
            continue
        others = [quoted(other) for other in before[name] if other != name]
        why = (
            f"only {listed(others, 4)} would lead there, unreachable too"
            if others
            else "no transition leads there"
        )
        yield RULE.finding(
            f"state {quoted(name)} is never reached: {why}",
            pointer=subject.states[name].pointer,
            hint="add a transition to it, or remove it",
        )


RULE = Rule(name="unreachable-state", code="F103", level="warning", check=check, at_key=True)
