from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import IDS, TEXTS
from llm_fsm.conditions import infix
from llm_fsm.definition.models import Definition, Transition
from llm_fsm.documents.convert.chart import conditions_of
from llm_fsm.documents.convert.registry import CHARTS, WRITERS, convert, detect
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.draw.extract import one_line
from llm_fsm.documents.loader import load, load_dict

LINES = TEXTS.map(one_line).filter(lambda text: "\ufffe" not in text and "\uffff" not in text)
KEYS = st.sampled_from(["name", "age", "order.number"])
NUMBERS = st.integers(-5, 5)
RULES = st.one_of(
    st.builds(
        lambda sign, key, number: {sign: [{"var": key}, number]},
        st.sampled_from(["<", ">=", "=="]),
        KEYS,
        NUMBERS,
    ),
    st.builds(lambda key, text: {"===": [{"var": key}, text]}, KEYS, LINES),
    st.builds(
        lambda key: {"or": [{"!!": [{"var": key}]}, {"!": [{"<": [{"var": "age"}, 3]}]}]}, KEYS
    ),
)
BY_RULE = st.one_of(
    st.builds(
        lambda keys: {"requires_context_keys": keys},
        st.lists(KEYS, min_size=1, max_size=2, unique=True),
    ),
    st.builds(lambda rule: {"logic": rule}, RULES),
    st.builds(lambda key, rule: {"requires_context_keys": [key], "logic": rule}, KEYS, RULES),
)
IN_WORDS = LINES.filter(lambda text: conditions_of(text) == ({"description": text},)).map(
    lambda text: {"description": text}
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """A definition of what all notations can carry."""
    ids = draw(st.lists(IDS, min_size=1, max_size=5, unique=True))
    targets = st.sampled_from(ids)
    decided = st.fixed_dictionaries(
        {
            "target_state": targets,
            "description": LINES,
            "conditions": BY_RULE.map(lambda one: [one]),
        }
    )
    picked = st.fixed_dictionaries(
        {"target_state": targets, "description": LINES},
        optional={"conditions": st.one_of(BY_RULE, IN_WORDS).map(lambda one: [one])},
    )
    automatic = st.fixed_dictionaries(
        {"target_state": targets, "description": LINES, "auto": st.just(True)},
        optional={"conditions": BY_RULE.map(lambda one: [one])},
    )
    move = st.one_of(picked, automatic)
    states = {}
    for name in ids:
        kind = draw(st.sampled_from(["converse", "converse", "decide", "final"]))
        states[name] = {"kind": kind, "purpose": draw(LINES)}
        if kind == "decide":
            states[name]["transitions"] = draw(st.lists(decided, min_size=1, max_size=3))
        elif kind == "converse":
            states[name]["transitions"] = draw(st.lists(move, max_size=3))
    document = {
        "name": draw(LINES.filter(lambda text: text not in ("", "G", "g"))),
        "initial_state": draw(targets),
        "states": states,
        "global_transitions": draw(st.lists(move, max_size=2)),
    }
    return load_dict(document).definition


def move_of(move: Transition) -> tuple[Any, ...]:
    keys = sorted(key for one in move.conditions for key in one.requires_context_keys)
    rules = [json.dumps(one.logic) for one in move.conditions if one.logic is not None]
    words = [one.description for one in move.conditions if one.judged]
    return (move.target_state, move.description, move.auto, tuple(keys), tuple(rules), tuple(words))


def graph(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "initial": definition.initial_state,
        "states": {
            name: (
                definition.kind_of(name),
                state.purpose,
                Counter(map(move_of, state.transitions)),
            )
            for name, state in definition.states.items()
        },
        "global": Counter(map(move_of, definition.global_transitions)),
    }


@pytest.mark.parametrize("form", CHARTS)
@given(data=st.data())
def test_what_a_notation_carries_comes_back(form: str, data: st.DataObject) -> None:
    definition = data.draw(definitions())
    text = WRITERS[form](definition)
    assert detect(text) == form
    assert graph(convert(text, form, "x").definition) == graph(definition)


def conversational() -> list[str]:
    """The shipped definitions that only talk: other notations have no word for work, waiting and
    calls.
    """
    return [
        name
        for name, path in definition_paths().items()
        if not {"task", "wait", "subflow"} & {state.kind for state in load(path).states.values()}
    ]


@pytest.mark.parametrize("form", CHARTS)
@pytest.mark.parametrize("name", conversational())
def test_shipped_definitions_keep_their_graph(name: str, form: str) -> None:
    definition = load(definition_paths()[name])
    back = convert(WRITERS[form](definition), form, "x").definition
    assert back.initial_state == definition.initial_state
    assert [(state, back.kind_of(state)) for state in sorted(back.states)] == [
        (state, definition.kind_of(state)) for state in sorted(definition.states)
    ]
    for state in definition.states:
        moves = Counter(
            (move.target_state, move.auto) for move in definition.states[state].transitions
        )
        assert (
            Counter((move.target_state, move.auto) for move in back.states[state].transitions)
            == moves
        )


@given(rule=RULES, others=st.lists(RULES, max_size=2))
def test_an_expression_reads_back_as_the_rule(rule: Any, others: list[Any]) -> None:
    whole = {"and": [rule, *others]} if others else rule
    text = infix.write(whole)
    assert text is not None
    assert infix.read(text) == whole
