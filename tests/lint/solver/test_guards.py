"""What is proven about conditions must be so when they are evaluated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.conditions.compiler import compile_rule
from llm_fsm.conditions.compiler import test as holds_for
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.lint.facts.schema_parts import unfolds
from llm_fsm.lint.solver.cases import ANY, Conjunction, Effort, both, contexts
from llm_fsm.lint.solver.guards import guard_of
from llm_fsm.lint.solver.outcomes import split
from llm_fsm.lint.solver.value_sets import EVERYTHING, SET, UNSET, ValueSet, domain, points

SCHEMAS: dict[str, dict[str, Any]] = {
    "tier": {"type": "string", "enum": ["gold", "silver", ""]},
    "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
    "ok": {"type": "boolean"},
    "note": {"type": "string", "minLength": 1},
    "free": {},
    "mark": {"enum": [1, "1", None, True, 7.5, []]},
    "items": {"type": "array"},
}
DOMAINS = {name: domain(schema, {}) | UNSET for name, schema in SCHEMAS.items()}
SHAPES = {name: compile_shape(schema) for name, schema in SCHEMAS.items()}
LITERALS = [
    None,
    True,
    False,
    0,
    1,
    2.5,
    18,
    130,
    -1,
    1e300,
    "",
    "gold",
    "18",
    " 1",
    "silver",
    "x",
    [],
    [1],
    ["a"],
]
VALUES = [
    *LITERALS,
    "zz",
    17,
    19,
    0.5,
    131,
    "1.0",
    {},
    {"a": 1},
    [0],
    ["gold"],
    [[]],
    "Infinity",
    "0x12",
]


def accepts(name: str, value: object) -> bool:
    return value is None or SHAPES[name].fault(value) is None


names = st.sampled_from(sorted(SCHEMAS))
literals = st.sampled_from(LITERALS)
variables = st.builds(lambda name: {"var": name}, names) | st.builds(
    lambda name, default: {"var": [name, default]}, names, literals
)


def _rule(operator: str, *arguments: Any) -> dict[str, Any]:
    return {operator: list(arguments)}


atoms = st.one_of(
    st.builds(
        _rule,
        st.sampled_from(["==", "!=", "===", "!==", "<", "<=", ">", ">="]),
        variables,
        literals,
    ),
    st.builds(
        _rule,
        st.sampled_from(["==", "!=", "===", "!==", "<", "<=", ">", ">="]),
        literals,
        variables,
    ),
    st.builds(_rule, st.sampled_from(["<", "<="]), literals, variables, literals),
    st.builds(_rule, st.sampled_from(["==", "<", "in", "+"]), variables, variables),
    st.builds(lambda v, options: {"in": [v, options]}, variables, st.lists(literals, max_size=4)),
    st.builds(_rule, st.sampled_from(["in", "contains"]), literals, variables),
    st.builds(lambda name: {"has_context": name}, names),
    st.builds(lambda some: {"missing": some}, st.lists(names, min_size=1, max_size=3)),
    st.builds(lambda v, n: {">": [{"len": [v]}, n]}, variables, literals),
    st.builds(lambda v: {"==": [{"lower": [v]}, "gold"]}, variables),
    variables,
    literals,
)
rules = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"!": [part]}, inner),
        st.builds(lambda part: {"!!": part}, inner),
        st.builds(lambda a, b, c: {"if": [a, b, c]}, inner, inner, inner),
        st.builds(lambda part, flag: {"==": [part, flag]}, inner, st.booleans()),
    ),
    max_leaves=6,
)
data = st.fixed_dictionaries({}, optional={name: st.sampled_from(VALUES) for name in SCHEMAS}).map(
    lambda found: {
        key: value for key, value in found.items() if value is not None and accepts(key, value)
    }
)


def _covered(cases: Any, context: dict[str, Any]) -> bool:
    return any(
        all(not (points([context.get(name)]) & values).empty for name, values in case.sets.items())
        for case in cases
    )


@settings(max_examples=400, deadline=None)
@given(rules, data)
def test_the_cases_of_an_answer_hold_every_context_for_which_it_is_yes(
    rule: Any, context: dict[str, Any]
) -> None:
    guard = guard_of([], [rule], DOMAINS.__getitem__)
    holds = holds_for(compile_rule(rule), context).holds
    assert guard.test(context) is holds
    cases = guard.holds if holds else guard.fails
    assert cases is None or _covered(cases, context)


@settings(max_examples=200, deadline=None)
@given(rules, st.lists(names, max_size=2), data)
def test_keys_that_a_guard_needs_are_set_when_it_holds(
    rule: Any, keys: list[str], context: dict[str, Any]
) -> None:
    guard = guard_of(keys, [rule], DOMAINS.__getitem__)
    if guard.test(context):
        assert guard.needs <= set(context)
        assert not guard.never
    else:
        assert not guard.always


@settings(max_examples=200, deadline=None)
@given(rules, rules, data)
def test_two_guards_without_a_common_case_never_hold_together(
    one: Any, other: Any, context: dict[str, Any]
) -> None:
    first = guard_of([], [one], DOMAINS.__getitem__)
    second = guard_of([], [other], DOMAINS.__getitem__)
    common = both(first.holds, second.holds)
    if common == ():
        assert not (first.test(context) and second.test(context))
    if both(first.holds, second.fails) == () and first.test(context):
        assert second.test(context)


def drawn(name: str, values: ValueSet) -> list[Any]:
    return [value for value in values.samples() if accepts(name, value)]


@settings(max_examples=100, deadline=None)
@given(rules)
def test_contexts_drawn_from_a_case_fit_the_schema(rule: Any) -> None:
    for case in guard_of([], [rule], DOMAINS.__getitem__).holds or ():
        for context in contexts(case, drawn, limit=8):
            assert all(accepts(name, value) for name, value in context.items())


NEVER = [
    {"==": [{"var": "tier"}, "bronze"]},
    {">": [{"var": "age"}, 130]},
    {"<": [10, {"var": "age"}, 11]},
    {"and": [{"<": [{"var": "size"}, 1]}, {">": [{"var": "size"}, 2]}]},
    {"and": [{"var": "ok"}, {"!": {"var": "ok"}}]},
    {"and": [{"has_context": "note"}, {"missing": ["note"]}]},
    {
        "and": [
            {"==": [{"var": "free"}, {"var": "note"}]},
            {"!=": [{"var": "free"}, {"var": "note"}]},
        ]
    },
    {"in": [{"var": "tier"}, ["Gold", "Silver"]]},
    {"===": [{"var": "age"}, "18"]},
    {"!": {"or": [{"==": [{"var": "free"}, 1]}, {"!=": [{"var": "free"}, 1]}]}},
    {"==": [1, 2]},
    {"and": [{"<": ["08:00", {"var": "note"}]}, {"<": [{"var": "note"}, "07:00"]}]},
    {"and": [{"has_context": "tier"}, {"==": [{"has_context": "tier"}, False]}]},
]
MAY = [
    {"==": [{"var": "tier"}, "gold"]},
    {">": [{"var": "age"}, 129]},
    {"<": [9, {"var": "age"}, 11]},
    {"<": [{"var": "age"}, 1]},
    {"==": [{"var": "age"}, None]},
    {"and": [{"<": [{"var": "size"}, 2]}, {">": [{"var": "size"}, 1]}]},
    {"and": [{"var": "free"}, {"==": [{"var": "free"}, "0"]}]},
    {"==": [{"var": "note"}, 5]},
    {">": [{"var": "free"}, {"var": "age"}]},
    {
        "and": [
            {"==": [{"var": "free"}, 0]},
            {"==": [{"var": "free"}, ""]},
            {"===": [{"var": "free"}, False]},
        ]
    },
]


@pytest.mark.parametrize("rule", NEVER, ids=str)
def test_what_cannot_hold_is_proven(rule: Any) -> None:
    assert guard_of([], [rule], DOMAINS.__getitem__).never


@pytest.mark.parametrize("rule", MAY, ids=str)
def test_what_may_hold_is_not_denied(rule: Any) -> None:
    assert not guard_of([], [rule], DOMAINS.__getitem__).never


@pytest.mark.parametrize(
    ("rule", "always"),
    [
        ({"<": [{"var": "age"}, 200]}, True),
        ({">=": [{"var": "age"}, 0]}, True),
        ({"<": [{"var": "size"}, 2.5]}, False),
        ({"or": [{"has_context": "note"}, {"!": {"has_context": "note"}}]}, True),
        (
            {
                "or": [
                    {"==": [{"len": [{"var": "free"}]}, 1]},
                    {"!=": [{"len": [{"var": "free"}]}, 1]},
                ]
            },
            False,
        ),
        ({"!=": [{"var": "tier"}, "bronze"]}, True),
    ],
    ids=str,
)
def test_what_holds_in_any_case_is_proven_unless_it_may_break(rule: Any, always: bool) -> None:
    assert guard_of([], [rule], DOMAINS.__getitem__).always is always


def test_keys_that_are_required_are_needed() -> None:
    guard = guard_of(
        ["note"],
        [{"or": [{">": [{"var": "age"}, 5]}, {"==": [{"var": "age"}, 3]}]}],
        DOMAINS.__getitem__,
    )
    assert guard.needs == {"note", "age"}


def test_too_many_cases_are_not_told() -> None:
    parts = [
        {"or": [{"==": [{"var": f"k{n}"}, 1]}, {"==": [{"var": f"m{n}"}, 1]}]} for n in range(9)
    ]
    guard = guard_of([], [{"and": parts}], lambda _: EVERYTHING)
    assert guard.holds is None
    assert not guard.never


scalars = st.sampled_from(VALUES)
sets = st.recursive(
    st.builds(points, st.lists(scalars, max_size=3))
    | st.sampled_from([EVERYTHING, SET, UNSET, *DOMAINS.values()]),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner)
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(sets, sets, scalars)
def test_sets_of_values_obey_set_algebra(a: ValueSet, b: ValueSet, value: Any) -> None:
    def has(found: ValueSet) -> bool:
        return not (found & points([value])).empty

    assert has(a & b) is (has(a) and has(b))
    assert has(a | b) or not (has(a) or has(b))
    if not a.whole and not isinstance(value, list | dict):
        assert has(~a) is not has(a)


@settings(max_examples=200, deadline=None)
@given(sets)
def test_samples_and_finite_values_are_members(found: ValueSet) -> None:
    for value in [*found.samples(), *(found.finite(64) or [])]:
        assert not (found & points([value])).empty
    assert bool(found.samples()) is not found.empty or found.numbers or found.texts


@settings(max_examples=200, deadline=None)
@given(sets, sets, scalars)
def test_membership_and_difference_are_what_the_algebra_says(
    a: ValueSet, b: ValueSet, value: Any
) -> None:
    assert a.has(value) is not (a & points([value])).empty
    if not b.whole:
        assert a.minus(b) == a & ~b


def test_long_lists_of_values_obey_the_same_algebra() -> None:
    even, all_ = (
        points([f"{n:03}" for n in range(0, 200, 2)]),
        points([f"{n:03}" for n in range(200)]),
    )
    odd = points([f"{n:03}" for n in range(1, 200, 2)])
    assert all_.minus(even)[:3] == odd[:3]
    assert (all_ & even, (odd & even).empty) == (even, True)
    yes, no = split_of({"in": [{"var": "k"}, [f"{n:03}" for n in range(0, 200, 2)]]}, all_ | UNSET)
    assert (yes[:3], no[:3]) == (even[:3], (odd | UNSET)[:3])
    yes, no = split_of(
        {"in": [{"var": "k"}, [*(f"{n:03}" for n in range(200)), None, True]]}, all_ | UNSET
    )
    assert (yes[:3], no.empty) == ((all_ | UNSET)[:3], True)


def split_of(rule: Any, values: ValueSet) -> tuple[ValueSet, ValueSet]:
    return split(rule, compile_rule(rule), "k", values)


def test_reasoning_beyond_its_effort_cannot_tell() -> None:
    cases = (Conjunction({"k": points(range(50))}, {}), Conjunction({"k": points(["a", "b"])}, {}))
    effort = Effort(400)
    assert both(cases, cases, effort) is not None
    assert both(cases, cases, effort) is None
    assert both(cases, (), effort) == ()
    assert both(cases, (ANY,), effort) == cases


def test_a_part_of_the_effort_is_taken_from_the_whole_and_never_less_than_the_least() -> None:
    whole = Effort(1000)
    part = whole.part(300, 10)
    assert (part.spend(250), part.spend(250), whole.left) == (True, False, 750)
    assert whole.part(300, 10).left == 300
    assert whole.spend(750)
    assert whole.part(300, 10).left == 10


@pytest.mark.parametrize(
    ("definitions", "small"),
    [
        ({"a": {"type": "string"}, "b": {"items": {"$ref": "#/$defs/a"}}}, True),
        ({"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/lost"}]}}, True),
        ({f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(30)}, False),
        ({f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(5000)}, False),
    ],
)
def test_definitions_that_unfold_without_end_are_not_reasoned_about(
    definitions: dict[str, Any], small: bool
) -> None:
    assert unfolds(definitions) is small
    assert not domain({"$ref": "#/$defs/d0"}, definitions).empty
