"""Whatever a model replies within flows, digressions and patterns: the definition's moves, and
nothing lost.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._json import read, text_of
from llm_fsm.definition.names import PATTERNS
from llm_fsm.definition.subflows import MAX_DEPTH
from llm_fsm.session import events as ev
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Session, dump_session, parse_session
from llm_fsm.turn.compiled import CompiledMachine
from machines import Played, nested, reply, say, start

INNER: dict[str, Any] = {
    "name": "inner",
    "initial_state": "pick",
    "context_schema": {"properties": {"n": {"type": "integer"}, "pin": {"type": "string", "x-secret": True}}},
    "states": {
        "pick": {"purpose": "Pick", "required_context_keys": ["n"], "transitions": [
            {"target_state": "low", "conditions": [{"logic": {"<": [{"var": "n"}, 5]}}]},
            {"target_state": "high", "conditions": [{"logic": {">=": [{"var": "n"}, 5]}}]},
            {"target_state": "out"}]},
        "low": {"reply": "Low {{ n }}?", "transitions": [{"target_state": "out"}, {"target_state": "pick"}]},
        "high": {"purpose": "High", "transitions": [{"target_state": "out"}]},
        "out": {"reply": "Out."},
        "tip": {"purpose": "Tip"},
    },
    "global_transitions": [{"target_state": "tip", "return": True}],
}  # fmt: skip
OUTER: dict[str, Any] = {
    "name": "outer",
    "initial_state": "a",
    "states": {
        "a": {"purpose": "A", "required_context_keys": ["k"], "transitions": [
            {"target_state": "route", "conditions": [{"requires_context_keys": ["k"]}]},
            {"target_state": "call"}]},
        "route": {"kind": "decide", "transitions": [
            {"target_state": "b", "conditions": [{"logic": {"==": [{"var": "k"}, 1]}}]},
            {"target_state": "call"}]},
        "b": {"purpose": "B", "required_context_keys": ["x"], "transitions": [
            {"target_state": "end"}, {"target_state": "call", "conditions": [{"requires_context_keys": ["x"]}]}]},
        "call": {"kind": "subflow", "flow": "inner", "input": {"n": "k"}, "output": {"x": "n"}, "transitions": [
            {"target_state": "b", "on": "out"}, {"target_state": "a", "on": "default"}]},
        "aside": {"purpose": "OfferedDigression", "transitions": [{"target_state": "hint"}, {"target_state": "end"}]},
        "hint": {"purpose": "Hint"},
        "other": {"kind": "subflow", "flow": "inner"},
        "end": {"purpose": "End"},
    },
    "global_transitions": [{"target_state": name, "return": True} for name in ("aside", "hint", "other")],
}  # fmt: skip
MACHINES = {
    "bare": nested(OUTER, inner=INNER),
    "repairing": nested({**OUTER, "patterns": list(PATTERNS)}, inner=INNER),
    "own": nested(
        {
            **OUTER,
            "patterns": list(PATTERNS),
            "states": {**OUTER["states"], "cancelled": {"reply": "No."}, "clarify": {"purpose": "Explain"}},
        },
        inner={
            **INNER,
            "states": {**INNER["states"], "cancel": {"reply": "Sure?", "transitions": [{"target_state": "out"}]}},
        },
    ),
}  # fmt: skip
TARGETS = st.sampled_from(
    [
        *OUTER["states"],
        *INNER["states"],
        *PATTERNS,
        "cancelled",
        "nowhere",
        "a",
        "b",
        "call",
        "pick",
        "aside",
    ]
)
UPDATES = st.dictionaries(
    st.sampled_from(["k", "x", "n", "pin", "_extra", "_clear"]),
    st.integers(0, 8) | st.sampled_from(["secret-1", "k", None, ["k"], ["n", "x"]]),
    max_size=3,
)
REPLIES = st.builds(
    lambda target, update, message: json.dumps(
        {"transition": {"target_state": target, "context_update": update}, "message": message}
    ),
    TARGETS,
    UPDATES,
    st.sampled_from(["", "Fine.", "And now?"]),
) | st.just("garbage")


def check_moves(made: CompiledMachine, before: Session, played: Played) -> bool:
    """Every move is one of the definition at work, or of a pattern, or comes back to where it had
    been.

    True when a secret was told.
    """
    session, told, crossed = before, False, False
    for event in played.events:
        program = made.of(session)
        if isinstance(event, ev.StateEntered):
            plan = program.states[session.state]
            assert event.previous == session.state or event.by == "restart"
            if event.by in PATTERNS and event.by not in ("skip", "cannot_handle", "handover"):
                assert made.patterns or made.own_patterns
            else:
                moves = program.asides if crossed else plan.moves
                move = next(move for move in moves if move.pointer == event.transition)
                assert move.target == event.state
        elif isinstance(event, ev.FlowPushed) and event.kind == "subflow":
            assert program.states[session.state].calls == event.flow
            assert event.entered == made.flows[event.flow].definition.initial_state
        elif isinstance(event, ev.FlowReturned):
            assert session.stack[event.frame].saved["state"] == event.state
        elif isinstance(event, ev.FlowPushed):
            assert event.caller is None or event.caller in session.callers()
        elif isinstance(event, ev.ContextSet) and session.flow == "inner":
            assert set(event.values) <= {"n", "pin", "_extra"}
            told = told or event.values.get("pin") == "secret-1"
        crossed = isinstance(event, ev.FlowPushed) and event.caller is not None
        session = apply(session, event)
    assert session == played.session
    return told


def check(made: CompiledMachine, before: Session, played: Played) -> None:
    told = check_moves(made, before, played)
    session = played.session
    assert made.knows(session)
    assert len(session.stack) <= MAX_DEPTH + 26
    assert played.text
    assert played.usage.calls <= 3
    assert len(played.of(ev.BotSaid)) == 1
    if told:
        assert "secret-1" not in str(session.window[-1])
    if session.ended:
        assert session.silence is None
    elif made.of(session).patterns and made.of(session).states[session.state].kind == "converse":
        assert session.silence is not None
    document = [json.loads(text_of(event)) for event in played.events]
    assert fold(before, [read(item, ev.AnyEvent, "event") for item in document]) == session
    assert parse_session(dump_session(session)) == session


@given(
    name=st.sampled_from(sorted(MACHINES)),
    rounds=st.lists(
        st.tuples(st.sampled_from(["yes", "secret-1"]), REPLIES, REPLIES), min_size=1, max_size=8
    ),
)
def test_any_reply_leads_to_legal_events(name: str, rounds: list[tuple[str, str, str]]) -> None:
    made = MACHINES[name]
    session = start(made, context={"k": 1} if name == "own" else None).session
    for user, first, second in rounds:
        if session.ended:
            break
        spare = [reply(session.state, "Well?")] * 3
        played = say(made, session, user, first, second, *spare, spare=True)
        check(made, session, played)
        session = played.session
