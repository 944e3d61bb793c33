"""Labels of endings that a called definition does not have."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.graph import reachable
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.endings import ends, graph_without_returns
from llm_fsm.lint.facts.subflows import called
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule

_ALWAYS = ("default", "cancelled")


@lint_rule("T518", "warning")
def unknown_ending(document: Document) -> Iterator[Finding]:
    """A subflow leads on by an ending that the called definition does not have, or leaves one out.

    Why it is bad:
    A transition with `on` waits for a final state of that name. The run ends there, stuck, if no label fits and no
    transition has `default` or no label.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "payment.json",
                           "transitions": [{"target_state": "done", "on": "piad"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Write the id of a final state of the called definition, `cancelled` or `default`.
    """
    for name, inner in called(document).items():
        transitions = list(document.states[name].items("transitions"))
        last = [end for end in inner.states if end in ends(inner)]
        if not last or not transitions:
            continue
        for transition in transitions:
            label = transition.value.get("on")
            if isinstance(label, str) and label.strip() not in (*last, *_ALWAYS):
                yield unknown_ending.finding(
                    f'no final state of the called definition is named {quoted(label)}: "on" never fits',
                    pointer=transition.pointer + "/on",
                    hint=document.speller.hint(label, last, "final states"),
                )
        labels = [transition.value.get("on") for transition in transitions]
        graph = graph_without_returns(inner)
        on_the_way = inner.reached if inner.initial is None else reachable(graph, [inner.initial])
        left = [end for end in last if end in on_the_way and end not in labels]
        if left and None not in labels and "default" not in labels:
            yield unknown_ending.finding(
                f"state {quoted(name)} has no transition for what the called definition ends in: "
                f"{', '.join(map(quoted, left[:4]))}",
                pointer=document.states[name].pointer + "/transitions",
                hint='add one with "on": "default"',
                path=document.path_to(name),
            )
