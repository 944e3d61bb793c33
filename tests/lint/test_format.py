"""Rules of the family form, and those that look at names and schemas: each with a faulty document
and a good one.
"""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to
from llm_fsm import check
from llm_fsm.definition.names import MEMORY_TOOLS, REPLY_TOOL
from llm_fsm.llm.structured_output import TOOL_NAME
from llm_fsm.session.memory import SPECS

A = "/states/a"
DID = "did you mean"


def one(**keys: Any) -> Written:
    """A machine of one state."""
    return {"name": "case", "initial_state": "a", "states": {"a": keys}}


def keys(properties: Any, **more: Any) -> Written:
    """A machine with a `context_schema`."""
    return {
        **one(purpose="x"),
        "context_schema": {"type": "object", "properties": properties, **more},
    }


def result(*results: Any) -> Written:
    return one(kind="task", key_results=list(results))


def condition(logic: Any) -> Written:
    return machine({"a": {"transitions": [to("b", {"logic": logic})]}})


FANNED = {"$ref": "#/$defs/d0"}


def referring(length: int) -> Written:
    """Definitions each of which refers to the next one eight times."""
    found: Written = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(length)
    }
    return {**found, f"d{length}": {"type": "string"}}


LOGIC = "/states/a/transitions/0/conditions/0/logic"
PROPERTIES = "/context_schema/properties"

BAD: list[tuple[str, Written, list[tuple[str, str]]]] = [
    ("unknown-key", one(porpose="x"), [("warning", A + "/porpose")]),
    ("wrong-type", one(purpose=3), [("error", A + "/purpose")]),
    ("missing-key", one(transitions=[{}]), [("error", A + "/transitions/0")]),
    ("bad-value", one(kind="talk"), [("error", A + "/kind")]),
    ("bad-state-id", {**one(), "states": {"a b": {}}}, [("error", "/states/a b")]),
    ("bad-tool", {**one(), "tools": {"t": {}}}, [("error", "/tools/t")]),
    (
        "bad-tool",
        {**one(), "tools": {"t": {"registered": "f", "mcp": "m"}}},
        [("error", "/tools/t")],
    ),
    ("bad-tool", {**one(), "tools": {"t": {"mcp": "m"}}}, [("error", "/tools/t")]),
    ("bad-context-schema", keys({"n": {"type": "interger"}}), [("error", PROPERTIES + "/n/type")]),
    (
        "bad-context-schema",
        keys({"n": {"minLength": "x"}}),
        [("error", PROPERTIES + "/n/minLength")],
    ),
    ("bad-context-schema", keys({"n": {}}, required=3), [("error", "/context_schema/required")]),
    (
        "bad-context-schema",
        keys({"n": FANNED}, **{"$defs": referring(30)}),
        [("error", PROPERTIES + "/n")],
    ),
    (
        "bad-answer-schema",
        one(kind="wait", answer_schema={**FANNED, "$defs": referring(30)}),
        [("error", A + "/answer_schema")],
    ),
    ("bad-template", one(reply="{{ x"), [("error", A + "/reply")]),
    ("bad-template", one(reply=["{% if x %}", "y"]), [("error", A + "/reply")]),
    (
        "bad-answer-schema",
        one(kind="wait", answer_schema={"type": []}),
        [("error", A + "/answer_schema/type")],
    ),
    (
        "confusable-ids",
        machine({"a": {}, "ask_name": {}, "Ask-Name": {}}),
        [("warning", "/states/Ask-Name")],
    ),
    ("confusable-ids", keys({"email": {}, "e_mail": {}}), [("warning", PROPERTIES + "/e_mail")]),
    ("confusable-ids", keys({"email": {}, "emаil": {}}), [("warning", PROPERTIES + "/emаil")]),
    (
        "confusable-ids",
        machine({"a": {"required_context_keys": ["user_id", "userId"]}}),
        [("warning", A + "/required_context_keys/1")],
    ),
    (
        "confusable-ids",
        {**one(), "tools": {"seаrch": {"registered": "f"}}},
        [("warning", "/tools/seаrch")],
    ),
    ("reserved-name", machine({"a": {}, "continue": {}}), [("warning", "/states/continue")]),
    ("reserved-name", keys({"target_state": {}}), [("warning", PROPERTIES + "/target_state")]),
    (
        "duplicate-name",
        result({"name": "k"}, {"name": "k"}),
        [("error", A + "/key_results/1/name")],
    ),
    (
        "repeated-entry",
        one(required_context_keys=["x", "y", "x"]),
        [("warning", A + "/required_context_keys/2")],
    ),
    (
        "repeated-entry",
        one(context_scope={"read": ["x", "x"]}),
        [("warning", A + "/context_scope/read/1")],
    ),
    ("bad-key-setting", keys({"n": {"x-source": "modl"}}), [("error", PROPERTIES + "/n/x-source")]),
    ("bad-key-setting", keys({"n": {"x-secret": "yes"}}), [("error", PROPERTIES + "/n/x-secret")]),
    (
        "bad-key-setting",
        keys({"n": {"x-currency": "€"}}),
        [("error", PROPERTIES + "/n/x-currency")],
    ),
    (
        "bad-key-setting",
        keys({"n": {"x-currency": 978}}),
        [("error", PROPERTIES + "/n/x-currency")],
    ),
    ("unknown-rule", {**one(), "x-lint": {"ignore": ["trp"]}}, [("warning", "/x-lint/ignore/0")]),
    (
        "ignore-without-reason",
        {**one(porpose=1), "x-lint": {"ignore": ["S101"]}},
        [("info", "/x-lint/ignore/0")],
    ),
    ("unused-ignore", {**one(), "x-lint": {"ignore": ["trap"]}}, [("info", "/x-lint/ignore/0")]),
    ("older-form", one(transitions=["a"]), [("info", A + "/transitions/0")]),
    ("not-mapped", one(context_extractors=[1]), [("warning", A + "/context_extractors")]),
    ("no-effect", one(metadata={"x": 1}), [("info", A + "/metadata")]),
    (
        "bad-condition",
        condition({"and": [{"has_contex": "x"}]}),
        [("error", LOGIC + "/and/0/has_contex")],
    ),
    (
        "bad-condition",
        condition({"or": [{"foo": 1}, {"bar": 2}]}),
        [("error", LOGIC + "/or/0/foo"), ("error", LOGIC + "/or/1/bar")],
    ),
    (
        "bad-check",
        result({"name": "k", "check": {"nope": 1}}),
        [("error", A + "/key_results/0/check/nope")],
    ),
    (
        "bad-check",
        result({"name": "k", "check": {"judge": ""}}),
        [("error", A + "/key_results/0/check")],
    ),
    (
        "bad-check",
        result({"name": "k", "check": {"judge": "x", "registered": "y"}}),
        [("error", A + "/key_results/0/check")],
    ),
    (
        "bad-key",
        one(required_context_keys=["first name"]),
        [("error", A + "/required_context_keys/0")],
    ),
    ("bad-key", keys({"_x": {}}), [("error", PROPERTIES + "/_x")]),
    ("bad-key", keys({"größe": {}}), [("warning", PROPERTIES + "/größe")]),
    (
        "undeclared-key",
        {
            **machine(
                {"a": {"required_context_keys": ["mail.to", "emial"]}}, {"email": {}, "mail": {}}
            )
        },
        [("warning", A + "/required_context_keys/1")],
    ),
    (
        "unwritable-key",
        machine({"a": {"required_context_keys": ["tier"]}}, {"tier": {"x-source": "host"}}),
        [("warning", A + "/required_context_keys/0")],
    ),
]

GOOD: list[tuple[str, Written]] = [
    ("unknown-key", one(purpose="x", **{"x-owner": "me"})),
    ("wrong-type", one(purpose=["x", "y"], max_retries=2.0)),
    ("missing-key", one(transitions=[{"target_state": "a"}])),
    ("bad-value", one(kind="converse")),
    ("bad-state-id", {**one(), "states": {"a-b_C9": {}}}),
    ("bad-tool", {**one(), "tools": {"t": {"registered": "f"}, "u": {"mcp": "m", "tool": "u"}}}),
    (
        "bad-context-schema",
        keys({"n": {"$ref": "#/$defs/s"}}, **{"$defs": {"s": {"type": "string"}}}),
    ),
    ("bad-context-schema", keys({"n": FANNED}, **{"$defs": referring(4)})),
    ("bad-answer-schema", one(kind="wait", answer_schema={**FANNED, "$defs": referring(4)})),
    ("bad-template", one(reply="{{ '}}' }} {# {{ #}{% raw %}{{{% endraw %}")),
    ("bad-answer-schema", one(kind="wait", answer_schema={"type": ["string", "null"]})),
    ("confusable-ids", machine({"ask": {}, "task": {}, "ask2": {}}, {"ask": {}, "naïve": {}})),
    ("reserved-name", machine({"start": {}, "message_2": {}}, {"message": {}})),
    (
        "reserved-name",
        machine(
            {
                "a": {},
                **{
                    name: {}
                    for name in ("stay", "none", "null", "true", "message", "transition", "Raise")
                },
            }
        ),
    ),
    ("reserved-name", keys({"null": {}, "context_update": {}, "raise": {}})),
    ("duplicate-name", result({"name": "k"}, {"name": "K"})),
    ("repeated-entry", one(required_context_keys=["x", "y"], tools=["x"])),
    ("bad-key-setting", keys({"n": {"x-source": "tool", "x-secret": False, "x-fast": True}})),
    ("bad-key-setting", keys({"n": {"type": "number", "x-currency": "EUR"}})),
    ("unknown-rule", {**one(), "x-lint": {"ignore": [], "token_budget": 5000}}),
    (
        "ignore-without-reason",
        {
            **one(porpose=1),
            "x-lint": {"ignore": [{"rule": "unknown-key", "reason": "our editor's"}]},
        },
    ),
    (
        "unused-ignore",
        {**one(porpose=1), "x-lint": {"ignore": [{"rule": "S1", "at": A, "reason": "x"}]}},
    ),
    ("older-form", one(transitions=[{"target_state": "a"}])),
    ("not-mapped", one(purpose="x")),
    ("no-effect", one(**{"x-metadata": {}})),
    ("bad-condition", condition({"has_context": "x"})),
    (
        "bad-check",
        result({"name": "k", "check": {"judge": "x"}}, {"name": "l", "check": {"var": "output"}}),
    ),
    ("bad-key", one(required_context_keys=["x", "x.y", "x-1"])),
    ("bad-key", keys({"größe": {"x-source": "host"}})),
    ("undeclared-key", machine({"a": {"required_context_keys": ["mail.to"]}}, {"mail": {}})),
    ("undeclared-key", one(required_context_keys=["anything"])),
    (
        "unwritable-key",
        machine({"a": {"required_context_keys": ["tier"]}}, {"tier": {"x-source": "model"}}),
    ),
]


def said(rule: str, document: Written) -> list[tuple[str, str]]:
    return [(found.level, found.pointer) for found in check(document) if found.name == rule]


@pytest.mark.parametrize(("rule", "document", "expected"), BAD)
def test_each_fault_is_found_where_it_stands(
    rule: str, document: Written, expected: list[tuple[str, str]]
) -> None:
    assert said(rule, document) == expected


@pytest.mark.parametrize(("rule", "document"), GOOD)
def test_what_looks_alike_and_is_right_is_not_found(rule: str, document: Written) -> None:
    assert said(rule, document) == []


@pytest.mark.parametrize(
    ("rule", "document", "hint"),
    [
        ("bad-condition", condition({"has_contex": "x"}), f'{DID} "has_context"?'),
        ("bad-key", one(required_context_keys=["_turn"]), 'write "turn"'),
        ("bad-context-schema", keys({"n": {"type": "interger"}}), f'{DID} "integer"?'),
        ("bad-key-setting", keys({"n": {"x-source": "modl"}}), f'{DID} "model"?'),
        ("unknown-rule", {**one(), "x-lint": {"ignore": ["trp"]}}, f'{DID} "trap"?'),
        ("unknown-rule", {**one(), "x-lint": {"ignroe": []}}, f'{DID} "ignore"?'),
        (
            "undeclared-key",
            machine({"a": {"required_context_keys": ["emial"]}}, {"email": {}}),
            f'{DID} "email"?',
        ),
    ],
)
def test_a_hint_says_what_would_be_right(rule: str, document: Written, hint: str) -> None:
    assert [found.hint for found in check(document) if found.name == rule] == [hint]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"states": [], "tools": 3, "context_schema": "x"},
        {
            "states": {
                "a": 3,
                "b": {"transitions": {"x": 1}, "tools": "t", "key_results": [1], "reply": [1]},
            }
        },
        {
            "initial_state": 3,
            "states": {"a": {"id": 3, "transitions": [{"target_state": 3, "conditions": [{}]}]}},
        },
        {
            "states": {
                "a": {
                    "kind": [],
                    "remind": "x",
                    "timeout": "soon",
                    "on": {},
                    "required_context_keys": {},
                }
            }
        },
    ],
)
def test_what_has_the_wrong_shape_is_left_to_the_form(document: Written) -> None:
    names = {rule for rule, _ in GOOD} - {"wrong-type", "missing-key", "bad-value", "unknown-key"}
    assert not names & {found.name for found in check(document)}


def test_the_rules_read_documents_that_do_not_load() -> None:
    document = {**one(purpose=3), "initial_state": "z"}
    assert {"wrong-type", "unknown-initial-state"} <= {found.name for found in check(document)}
    assert briefly(found_by("unknown-initial-state", document)) == [("error", "/initial_state")]


ANY = {"a": {"type": "string"}, "b": {"type": "string"}}
IDLE_ROOTS: list[Written] = [
    {"if": {"properties": {"a": {"const": "x"}}}},
    {"then": {"required": ["b"]}},
    {"else": {}},
    {"not": {"required": ["a"]}},
    {"allOf": [{"required": ["b"]}]},
    {"anyOf": [{"required": ["b"]}]},
    {"oneOf": [{"required": ["b"]}]},
    {"dependentRequired": {"a": ["b"]}},
    {"dependentSchemas": {"a": {"required": ["b"]}}},
    {"dependencies": {"a": ["b"]}},
    {"minProperties": 2},
    {"maxProperties": 2},
    {"patternProperties": {"^x": {"type": "string"}}},
    {"propertyNames": {"pattern": "^[a-z]+$"}},
]


@pytest.mark.parametrize("root", IDLE_ROOTS)
def test_a_rule_about_several_keys_is_a_warning_at_its_keyword(root: Written) -> None:
    (word,) = root
    found = [
        finding
        for finding in check(keys(ANY, **root))
        if finding.name == "idle-schema-word" and finding.pointer == f"/context_schema/{word}"
    ]
    assert [(finding.level, DID in str(finding.hint)) for finding in found] == [("warning", False)]
    inside = check(keys({"o": {"type": "object", "properties": ANY, **root}}))
    idle = [str(finding.pointer) for finding in inside if finding.name == "idle-schema-word"]
    assert f"/context_schema/properties/o/{word}" not in idle


def test_words_of_every_generated_schema_are_no_finding() -> None:
    more = {
        "required": ["a"],
        "additionalProperties": False,
        "title": "T",
        "$defs": {},
        "description": "d",
    }
    assert not [
        finding for finding in check(keys(ANY, **more)) if finding.name == "idle-schema-word"
    ]


def tooled(name: str, *, memory: bool = False) -> Written:
    state = {"kind": "task", "purpose": "Do it.", "memory": memory, "tools": [name]}
    return {**one(**state), "tools": {name: {"registered": "tool"}}}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *(
            (name, "error")
            for name in ("look up", "files.read", "files/read", "a" * 65, "gr\u00f6\u00dfe")
        ),
        *((name, "error") for name in ("a:b", "\U0001f600", "a\n")),
        *((name, "warning") for name in ("2nd", "-x")),
        *((name, None) for name in ("a", "_x", "Look-up_2", "a" * 64)),
    ],
)
def test_a_name_that_providers_refuse_is_found_at_its_key(name: str, level: str | None) -> None:
    found = [finding for finding in check(tooled(name)) if finding.name == "bad-tool-name"]
    place = "/tools/" + name.replace("/", "~1")
    assert [(finding.level, finding.pointer) for finding in found] == (
        [(level, place)] if level else []
    )


@pytest.mark.parametrize("name", ["get_memory", "Get-Memory", "set_memory", "view_all_memory"])
def test_a_name_of_the_memory_s_tools_is_an_error_where_a_state_has_them(name: str) -> None:
    found = [
        finding for finding in check(tooled(name, memory=True)) if finding.name == "taken-tool-name"
    ]
    assert [(finding.level, finding.pointer) for finding in found] == [("error", A + "/tools/0")]
    assert not [finding for finding in check(tooled(name)) if finding.name == "taken-tool-name"]


def test_a_tool_called_reply_is_a_warning() -> None:
    found = [finding for finding in check(tooled("Reply")) if finding.name == "taken-tool-name"]
    assert [(finding.level, finding.pointer) for finding in found] == [("warning", "/tools/Reply")]


def test_the_name_of_the_reply_is_the_one_that_a_model_is_offered() -> None:
    assert TOOL_NAME == REPLY_TOOL


def test_the_names_of_the_memory_s_tools_are_those_that_a_model_is_offered() -> None:
    assert list(MEMORY_TOOLS) == [spec.name for spec in SPECS]
