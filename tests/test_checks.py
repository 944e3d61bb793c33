import pytest

from llm_fsm.checks import examine
from llm_fsm.codes import CODES


def machine(states=None, **keys):
    return {"name": "n", "initial_state": "a", "states": {"a": {}, **(states or {})}, **keys}


def said(document):
    return [(found.name, found.pointer, found.hint) for found in examine(document)]


def condition(logic):
    return {"a": {"transitions": [{"target_state": "b", "conditions": [{"logic": logic}]}]}, "b": {}}


DID = "did you mean"

CASES = [
    (machine(), []),
    # names of states
    (
        machine({"greet": {}, "b": {"transitions": [{"target_state": "gret"}]}}),
        [("unknown-target", "/states/b/transitions/0/target_state", f'{DID} "greet"?')],
    ),
    (
        machine(global_transitions=[{"target_state": "help"}]),
        [("unknown-target", "/global_transitions/0/target_state", "the states are a")],
    ),
    (machine({"b": {"on_timeout": "A"}}), [("unknown-target", "/states/b/on_timeout", f'{DID} "a"?')]),
    (
        machine({"b": {"on_exhausted": "nowhere"}}),
        [("unknown-target", "/states/b/on_exhausted", "the states are a, b")],
    ),
    (
        machine(
            {"b": {"on_exhausted": "continue"}, "c": {"on_exhausted": "raise"}, "d": {"on_exhausted": "b"}}
        ),
        [],
    ),
    (
        {**machine({"hello": {}}), "initial_state": "helo"},
        [("unknown-initial-state", "/initial_state", f'{DID} "hello"?')],
    ),
    (
        machine({"b": {"id": "c"}}),
        [("mismatched-id", "/states/b/id", 'write "id": "b", or leave the id away')],
    ),
    (machine({"b": {"id": "b"}, "c": {"id": ""}}), []),
    # moves without effect
    (
        machine({"b": {"kind": "final", "transitions": [{"target_state": "a"}]}}),
        [("final-with-transitions", "/states/b/transitions", None)],
    ),
    (machine({"b": {"kind": "final", "transitions": []}}), []),
    # conditions
    (machine(condition({"==": [{"var": "x"}, 1]})), []),
    (
        machine(condition({"and": [{"has_contex": "x"}]})),
        [
            (
                "bad-condition",
                "/states/a/transitions/0/conditions/0/logic/and/0/has_contex",
                f'{DID} "has_context"?',
            )
        ],
    ),
    # tools
    (
        machine(
            {"b": {"tools": ["find"]}}, tools={"find": {"registered": "f"}, "x": {"mcp": "m", "tool": "t"}}
        ),
        [],
    ),
    (
        machine({"b": {"tools": ["fnd"]}}, tools={"find": {"registered": "f"}}),
        [("unknown-tool", "/states/b/tools/0", f'{DID} "find"?')],
    ),
    (
        machine({"b": {"tools": ["x"]}}),
        [("unknown-tool", "/states/b/tools/0", 'there are no tools under "tools"')],
    ),
    (
        machine(tools={"t": {"registered": "f", "scope": ["a", "bb"]}}),
        [("unknown-state", "/tools/t/scope/1", "the states are a")],
    ),
    # context keys
    (machine({"b": {"required_context_keys": ["x", "x.y", "x-1"]}}), []),
    (
        machine({"b": {"required_context_keys": ["_turn"]}}),
        [("bad-key", "/states/b/required_context_keys/0", 'write "turn"')],
    ),
    (
        machine(
            {"b": {"required_context_keys": ["email", "mail.to", "emial"]}},
            context_schema={"properties": {"email": {}, "mail": {}}},
        ),
        [("undeclared-key", "/states/b/required_context_keys/2", f'{DID} "email"?')],
    ),
    (
        machine(
            {"b": {"required_context_keys": ["tier"]}},
            context_schema={"properties": {"tier": {"x-source": "host"}}},
        ),
        [("unwritable-key", "/states/b/required_context_keys/0", None)],
    ),
    # schemas
    (machine(context_schema={}), []),
    (
        machine(context_schema={"email": {"type": "string"}}),
        [
            (
                "no-keys",
                "/context_schema",
                'write {"type": "object", "properties": {"key": {"type": "string"}}}',
            )
        ],
    ),
    (
        machine(context_schema={"properties": {"n": {"type": "interger"}}}),
        [("bad-context-schema", "/context_schema/properties/n/type", f'{DID} "integer"?')],
    ),
    (
        machine(context_schema={"properties": {"n": {"x-source": "modl"}}}),
        [("bad-value", "/context_schema/properties/n/x-source", f'{DID} "model"?')],
    ),
    (
        machine(context_schema={"properties": {"n": {"x-secret": "yes"}}}),
        [("wrong-type", "/context_schema/properties/n/x-secret", None)],
    ),
    (
        machine(
            context_schema={"$defs": {"s": {"type": "string"}}, "properties": {"n": {"$ref": "#/$defs/s"}}}
        ),
        [],
    ),
]


@pytest.mark.parametrize(("document", "expected"), CASES)
def test_each_fault_has_a_name_a_place_and_a_hint(document, expected):
    assert said(document) == expected


@pytest.mark.parametrize(
    ("document", "name", "pointer"),
    [
        (
            machine({"b": {"transitions": [{"target_state": "b"}]}}),
            "self-transition",
            "/states/b/transitions/0/target_state",
        ),
        (
            machine({"b": {"transitions": [{"target_state": "a", "return": True}]}}),
            "return-without-effect",
            "/states/b/transitions/0/return",
        ),
        (machine(condition({"matches": [{"var": "x"}, "(a"]})), "bad-condition", None),
        (
            machine({"b": {"key_results": [{"name": "k", "check": {"nope": 1}}]}}),
            "bad-check",
            "/states/b/key_results/0/check/nope",
        ),
        (
            machine({"b": {"key_results": [{"name": "k", "check": {"judge": ""}}]}}),
            "bad-check",
            "/states/b/key_results/0/check",
        ),
        (
            machine({"b": {"key_results": [{"name": "k", "check": {"judge": "x", "registered": "y"}}]}}),
            "bad-check",
            None,
        ),
        (
            machine({"b": {"key_results": [{"name": "k"}, {"name": "k"}]}}),
            "bad-value",
            "/states/b/key_results/1/name",
        ),
        (machine(tools={"t": {}}), "bad-tool", "/tools/t"),
        (machine(tools={"t": {"registered": "f", "mcp": "m"}}), "bad-tool", "/tools/t"),
        (machine(tools={"t": {"mcp": "m"}}), "bad-tool", "/tools/t"),
        (machine({"b": {"reply": "{{ x"}}), "bad-template", "/states/b/reply"),
        (machine({"b": {"reply": ["{% if x %}", "y"]}}), "bad-template", "/states/b/reply"),
        (
            machine({"b": {"required_context_keys": ["first name"]}}),
            "bad-key",
            "/states/b/required_context_keys/0",
        ),
        (machine(context_schema={"properties": {"_x": {}}}), "bad-key", "/context_schema/properties/_x"),
        (machine(context_schema={"properties": {"x" * 65: {}}}), "bad-key", None),
        (
            machine(context_schema={"properties": {"n": {"minLength": "x"}}}),
            "bad-context-schema",
            "/context_schema/properties/n/minLength",
        ),
        (
            machine(context_schema={"properties": {"n": {"$ref": "https://example.com/x"}}}),
            "bad-context-schema",
            None,
        ),
        (
            machine(context_schema={"required": 3, "properties": {"n": {}}}),
            "bad-context-schema",
            "/context_schema/required",
        ),
        (
            machine({"b": {"answer_schema": {"type": []}}}),
            "bad-answer-schema",
            "/states/b/answer_schema/type",
        ),
    ],
)
def test_more_faults(document, name, pointer):
    [found] = examine(document)
    assert found.name == name
    assert pointer is None or found.pointer == pointer


def test_many_faults_of_one_rule_are_all_found():
    logic = {"or": [{"foo": 1}, {"==": []}, {"bar": 2}]}
    assert len(examine(machine(condition(logic)))) == 3


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"states": [], "tools": 3, "context_schema": "x"},
        {"states": {"a": 3, "b": {"transitions": {"x": 1}, "tools": "t", "key_results": [1], "reply": [1]}}},
        {
            "initial_state": 3,
            "states": {"a": {"id": 3, "transitions": [{"target_state": 3, "conditions": [{"logic": None}]}]}},
        },
    ],
)
def test_what_has_the_wrong_shape_is_left_to_the_form(document):
    assert examine(document) == []


def test_a_hopeless_file_gets_every_finding_and_hints_for_the_first_ones():
    found = examine(machine({"b": {"transitions": [{"target_state": f"t{i}"} for i in range(300)]}}))
    assert len(found) == 300
    assert (found[0].hint, found[-1].hint) == ("the states are a, b", None)


def test_codes_are_unique():
    codes = [code.code for code in CODES.values()]
    assert len(set(codes)) == len(codes)
