from __future__ import annotations

import pytest

from llm_fsm.definition.models import ToolRef
from llm_fsm.session.messages import ToolSpec
from llm_fsm.turn.effects import PlannedCall
from llm_fsm.turn.tool_policy import ToolPolicy, planned

SPEC = ToolSpec(name="own", description="d", parameters={"type": "object"})
YES = {
    "breaking": True,
    "approval": True,
    "at_most_once": True,
    "parallel": True,
    "timeout": 5.0,
    "scope": ("a",),
}
NO = {"breaking": False, "approval": False, "at_most_once": False, "parallel": False}


def attributes(terms: ToolPolicy) -> dict[str, object]:
    return {name: getattr(terms, name) for name in YES}


@pytest.mark.parametrize(
    ("ref", "own", "wanted"),
    [
        ({}, {}, {**NO, "timeout": None, "scope": None}),
        ({}, YES, YES),
        (NO, YES, {**YES, **NO}),
        ({"timeout": 9.0, "scope": ["b"]}, YES, {**YES, "timeout": 9.0, "scope": ("b",)}),
        ({"scope": []}, YES, {**YES, "scope": ()}),
        ({**YES, "scope": ["a"]}, {}, YES),
    ],
)
def test_what_the_definition_says_counts_and_for_the_rest_what_the_host_said(ref, own, wanted):
    terms = planned(
        "seen", ToolRef.model_validate(ref), ToolPolicy(spec=SPEC, registered="own", **own)
    )
    assert attributes(terms) == wanted
    assert (terms.name, terms.spec.description, terms.registered) == ("seen", "d", "own")


def test_only_the_definition_says_what_is_written_to_the_context():
    ref = ToolRef.model_validate({"output": {"key": "a.b"}})
    assert planned("x", ref, ToolPolicy(spec=SPEC, output={"other": "c"})).output == {"key": "a.b"}


def test_a_call_is_planned_on_the_terms():
    terms = ToolPolicy(
        spec=SPEC,
        mcp="shop",
        tool="find",
        timeout=3.0,
        parallel=True,
        at_most_once=True,
        scope=("a",),
    )
    assert terms.plan(id="1", arguments={"q": 1}, key="k") == PlannedCall(
        id="1",
        name="own",
        arguments={"q": 1},
        key="k",
        mcp="shop",
        tool="find",
        timeout=3.0,
        parallel=True,
        at_most_once=True,
        scope=("a",),
    )
    assert (terms.usable_in("a"), terms.usable_in("b"), ToolPolicy(spec=SPEC).usable_in("b")) == (
        True,
        False,
        True,
    )
