"""Mappings between a subflow and its caller."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.subflows import Side, called, mapping_fault, side
from llm_fsm.lint.rule import lint_rule


@lint_rule("R903", "error", blocks=False)
def flow_mapping(document: Document) -> Iterator[Finding]:
    """The `input` or `output` of a subflow names an unknown key, or passes a secret to one that is not.

    Why it is bad:
    The value never arrives, or a value that must stay out of prompts and logs would be shown in them. The machine
    cannot be made.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "payment.json", "output": {"paid": "piad"},
                           "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    `input` is key of the called definition ← key here, `output` is key here ← key of the called definition. Correct
    the name, or declare the key with `x-secret` on both sides. Definitions that the host registers are looked at when
    the machine is made.
    """
    here = side(document)
    for name, inner in called(document).items():
        state, there = document.states[name], side(inner)
        for option, taker, giver in (("input", there, here), ("output", here, there)):
            for key, source_key in _entries(state, option):
                own = source_key if option == "input" else key
                fault = mapping_fault(key, source_key, taker, giver) if _is_known(here, own) else None
                if fault is not None:
                    yield flow_mapping.finding(fault[0], pointer=f"{state.pointer}/{option}{step(key)}", hint=fault[1])


def _entries(state: Placed, option: str) -> Iterator[tuple[str, str]]:
    mapping = state.value.get(option)
    for key, source_key in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(source_key, str):
            yield key, source_key


def _is_known(side: Side, name: str) -> bool:
    return side.keys is None or name in side.keys or name.split(".", 1)[0] in side.keys
