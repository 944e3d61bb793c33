"""Rules about the schemas of keys and answers: each with a faulty schema and good ones that look
alike.
"""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

KEYS = "/context_schema/properties"


def key(**schema: Any) -> Written:
    """A machine with one declared key, `k`, that is collected and demanded."""
    moves = [to("b", when(None, "k"))]
    return machine(
        {"a": {"purpose": "x", "required_context_keys": ["k"], "transitions": moves}}, {"k": schema}
    )


def fast(reply: str | None = "And k?", **schema: Any) -> Written:
    """As `key`, with `x-fast`; `reply`: the fixed words that ask for it."""
    document = key(**{"x-fast": True, **schema})
    document["states"]["a"]["reply"] = reply
    return document


def whole(**more: Any) -> Written:
    document = key(type="string")
    document["context_schema"].update(more)
    return document


def answer(schema: Written) -> Written:
    return machine(
        {"a": {"kind": "wait", "wait_for": "x", "answer_schema": schema, "transitions": [to("b")]}}
    )


BAD: list[tuple[str, Written, str, str]] = [
    ("impossible-schema", key(type="string", pattern="$AB[0-9]^"), "/pattern", "^…$"),
    ("impossible-schema", key(type="string", pattern=r"^\\d{5}$"), "/pattern", r'write "^\\d{5}$"'),
    ("idle-schema-word", key(**{"type": "string", "x-fast": True}), "/x-fast", "enum"),
    ("idle-schema-word", key(**{"type": "array", "x-fast": True}), "/x-fast", "a boolean"),
    ("idle-schema-word", key(**{"type": "boolean", "x-source": "host", "x-fast": True}), "/x-fast", ""),
    ("idle-schema-word", fast(type="string", minLength=20), "/x-fast", "enum"),
    ("idle-schema-word", fast(type="string", pattern="^[A-Z]{3}$"), "/x-fast", "format"),
    ("idle-schema-word", fast(type="integer"), "/x-fast", "format"),
    ("idle-schema-word", fast(None, type="boolean"), "/x-fast", "reply"),
    ("impossible-schema", key(type="string", minLength=5, maxLength=2), "/minLength", "wrong way round"),
    ("impossible-schema", key(type="integer", minimum=5, maximum=2), "/minimum", "wrong way round"),
    ("impossible-schema", key(type="number", exclusiveMinimum=2, maximum=2), "/exclusiveMinimum", ""),
    ("impossible-schema", key(type="array", items={}, minItems=2, maxItems=1), "/minItems", "wrong way round"),
    ("impossible-schema", key(enum=[]), "/enum", "list the values"),
    ("impossible-schema", key(type="integer", enum=["a", "b"]), "/enum", ""),
    ("impossible-schema", key(type="string", const=3), "/const", ""),
    ("impossible-schema", key(properties={"n": {"minimum": 2, "maximum": 1}}), "/properties/n/minimum", ""),
    ("refused-by-schema", key(type="integer", minimum=5, default=2), "/default", ""),
    ("refused-by-schema", key(type="integer", default="2"), "/default", ""),
    ("refused-by-schema", key(type="string", enum=["s", 3]), "/enum/1", ""),
    ("refused-by-schema", key(enum=["s", "m", "s"]), "/enum/2", "another value"),
    ("refused-by-schema", key(enum=["small", "Small", "large"]), "/enum/1", "keep one"),
    ("refused-by-schema", key(enum=["small", "large "]), "/enum/1", 'write "large"'),
    ("refused-by-schema", key(type="string", pattern="^[0-9]+$", examples=["12", "x"]), "/examples/1", ""),
    ("refused-by-schema", key(type="string", format="date", default="soon"), "/default", ""),
    ("idle-schema-word", key(type="integer", minimun=2), "/minimun", '"minimum"'),
    ("idle-schema-word", key(type="string", min_length=2), "/min_length", '"minLength"'),
    ("idle-schema-word", key(type="string", format="e-mail"), "/format", '"email"'),
    ("idle-schema-word", key(type="string", format="DateTime"), "/format", '"date-time"'),
    ("idle-schema-word", key(**{"type": "string", "x-sorce": "host"}), "/x-sorce", '"x-source"'),
    ("idle-schema-word", key(**{"type": "string", "xs-ource": "host"}), "/xs-ource", '"x-source"'),
    ("idle-schema-word", key(type="string", minimum=3), "/minimum", ""),
    ("idle-schema-word", key(type="integer", pattern="^a$"), "/pattern", ""),
    ("idle-schema-word", key(type="object", properties={"a": {}}, required=["aa"]), "/required/0", '"a"'),
]  # fmt: skip

GOOD: list[tuple[str, Written]] = [
    ("impossible-schema", key(type="string", pattern=r"^\d+\$a|^[$^]b$")),
    ("impossible-schema", key(type="string", pattern=r"^[A-Z]:\\data\\\w+$")),
    ("impossible-schema", key(type="string", pattern="(^a|b)$")),
    ("idle-schema-word", fast(type="string", format="email")),
    ("idle-schema-word", fast(enum=["tea", "milk"])),
    (
        "idle-schema-word",
        fast(anyOf=[{"type": "string", "enum": ["tea", "milk"]}, {"type": "null"}]),
    ),
    ("idle-schema-word", fast(type="boolean")),
    ("idle-schema-word", key(**{"type": "string", "x-fast": False})),
    ("impossible-schema", key(type="integer", minimum=2, maximum=2)),
    ("impossible-schema", key(type=["integer", "string"], enum=["a", 3])),
    ("impossible-schema", key(type="object", properties={"n": {"minimum": 1}}, minProperties=1)),
    ("refused-by-schema", key(type="integer", minimum=5, default=5, examples=[6])),
    (
        "refused-by-schema",
        key(type="string", default=None, format="email", examples=["a@b.example"]),
    ),
    ("refused-by-schema", key(enum=["s", "m", 1, "1", None])),
    (
        "idle-schema-word",
        key(type="string", title="t", label="x", note="n", order=2, group="g", ui={"a": 1}),
    ),
    ("idle-schema-word", key(**{"type": "string", "x-order": 3, "x-note": "n", "x-sample": 1})),
    ("idle-schema-word", key(type=["string", "null"], minLength=2, format="uuid", nullable=True)),
    ("idle-schema-word", key(minLength=2, minimum=3)),
    ("idle-schema-word", whole(required=["k"], additionalProperties=False, title="Order")),
]


@pytest.mark.parametrize(("rule", "document", "place", "hint"), BAD)
def test_a_faulty_schema_is_found_once_at_its_place(
    rule: str, document: Written, place: str, hint: str
) -> None:
    found = [one for one in check(document) if one.name == rule]
    assert [one.pointer for one in found] == [KEYS + "/k" + place]
    assert hint in (found[0].hint or "")


@pytest.mark.parametrize(("rule", "document"), GOOD)
def test_what_looks_alike_and_is_right_is_not_found(rule: str, document: Written) -> None:
    assert found_by(rule, document) == []


def test_an_unknown_format_is_a_note_where_none_is_near() -> None:
    found = found_by("idle-schema-word", key(type="string", format="iban"))
    assert briefly(found) == [("info", KEYS + "/k/format")]


def test_a_key_beside_properties_is_found() -> None:
    found = found_by("idle-schema-word", whole(town={"type": "string"}))
    assert [(one.pointer, one.hint) for one in found] == [
        ("/context_schema/town", 'put it inside "properties"')
    ]


def test_answers_are_looked_at_too() -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean", "default": "yes"}},
        "required": ["okay"],
    }
    place = "/states/a/answer_schema"
    assert briefly(found_by("refused-by-schema", answer(schema))) == [
        ("warning", place + "/properties/ok/default")
    ]
    assert briefly(found_by("idle-schema-word", answer(schema))) == [
        ("warning", place + "/required/0")
    ]


@pytest.mark.parametrize(
    ("path", "found"), [("okay", 1), ("$.okay", 1), ("ok", 0), ("$", 0), ("ok.deep", 0)]
)
def test_an_output_of_an_answer_names_one_of_its_members(path: str, found: int) -> None:
    document = answer({"type": "object", "properties": {"ok": {"type": "boolean"}}})
    document["states"]["a"]["output"] = {"approved": path}
    pointers = [one.pointer for one in found_by("unknown-key-in-mapping", document)]
    assert pointers == ["/states/a/output/approved"] * found


@pytest.mark.parametrize("word", ["proprties", "Properties"])
def test_misspelt_properties_are_one_finding_without_consequences(word: str) -> None:
    document = key(type="string")
    document["context_schema"][word] = document["context_schema"].pop("properties")
    assert [found.name for found in check(document) if found.level != "info"] == [
        "idle-schema-word"
    ]


def test_keys_without_properties_are_one_finding_without_consequences() -> None:
    document = key(type="string")
    document["context_schema"] = document["context_schema"]["properties"]
    assert [found.name for found in check(document) if found.level != "info"] == [
        "idle-schema-word"
    ]


def test_a_key_without_values_explains_why_a_condition_cannot_hold() -> None:
    names = {found.name for found in check(key(type="integer", minimum=5, maximum=2))}
    assert "impossible-schema" in names
    assert "never-holds" not in names


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ("string", 'write {"type": "string"}'),
        ("text", 'write {"type": "string"}'),
        (["s", "m"], 'write {"enum": ["s", "m"]}'),
        (None, 'write {"type": "string"}'),
        ({"type": "string", "enum": "s"}, 'write "enum": ["s"]'),
        ({"type": "string", "pattern": "(a"}, "close its brackets"),
        ({"type": "string", "required": True}, "required_context_keys"),
    ],
)
def test_short_forms_of_schemas_are_explained(schema: Any, hint: str) -> None:
    document = key(type="string")
    document["context_schema"]["properties"]["k"] = schema
    [found] = [one for one in check(document) if one.level == "error"]
    assert found.name == "bad-context-schema"
    assert hint in (found.hint or "")


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([{"logic": {">": [{"var": "n"}, 1]}, "description": "More than one"}], []),
        ("n > 1", [("error", "")]),
        ([{"description": "More than one"}], [("error", "/0")]),
        (
            [{"logic": {"===>": [{"var": "n"}, 1]}, "description": "x"}],
            [("error", "/0/logic/===>")],
        ),
        ([{"logic": {">": [{"var": "m"}, 1]}, "description": "x"}], [("error", "/0/logic")]),
        (
            [{"logic": {">": [{"var": "n"}, 1]}, "descripton": "x"}],
            [("warning", "/0"), ("error", "/0/descripton")],
        ),
    ],
)
def test_a_rule_for_values_over_unknown_keys_or_of_another_shape_is_found(
    rules: Any, found: Any
) -> None:
    states = {
        "a": {"purpose": "How many?", "required_context_keys": ["n"], "transitions": [to("b")]},
        "b": {},
    }
    written = machine(states, {"n": {"type": "integer", "x-valid": rules}})
    place = "/context_schema/properties/n/x-valid"
    expected = sorted((level, place + pointer) for level, pointer in found)
    assert sorted(briefly(found_by("bad-key-setting", written))) == expected


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"x-said": "quote"}, 0),
        ({"x-said": "digits", "x-source": "model"}, 0),
        ({"x-said": "quotes"}, 1),
        ({"x-said": True}, 1),
        ({"x-said": "quote", "x-source": "host"}, 1),
    ],
)
def test_a_proof_that_does_not_exist_or_of_a_key_that_no_reply_writes_is_found(
    schema: Any, found: int
) -> None:
    places = [
        place for _, place in briefly(found_by("bad-key-setting", key(type="string", **schema)))
    ]
    assert places == [f"{KEYS}/k/x-said"] * found
