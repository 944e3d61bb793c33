"""Rules of the family data flow, and how texts are searched for the names of keys."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm.definition.reply_names import Mention, mentions, placeholders
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.data_flow import data_flow

TEXT = {"type": "string"}
CITY = {"city": TEXT}
TWO = {"city": TEXT, "seat": TEXT}
SECRET = {"pin": {"type": "string", "x-secret": True}}
ANSWER = {"approved": {"type": "boolean", "x-source": "answer"}}
TOOL = {"price": {"type": "number", "x-source": "tool"}}


PUBLISHED: dict[str, Any] = {
    "name": "publishing",
    "initial_state": "write",
    "context_schema": {"type": "object", "properties": {"url": {"type": "string", "x-source": "tool"}}},
    "tools": {"publish": {"registered": "publish", "output": {"url": "url"}, "approval": True}},
    "states": {
        "write": {
            "kind": "task", "purpose": "Publish the text", "tools": ["publish"],
            "key_results": [{"name": "ok", "check": {"!=": [{"var": "output"}, None]}}],
            "transitions": [{"target_state": "done"}],
        },
        "done": {"kind": "final", "reply": "Published: {{ url }}"},
    },
}  # fmt: skip
"""A tool that needs approval may be refused, and then its key is not set."""


def trip(reply: str, schema: dict[str, Any] | None = CITY, *demands: str, **more: Any) -> Written:
    """A state that collects the city, and a final one with a fixed reply."""
    conditions = [when(None, *demands)] if demands else []
    states = {
        "a": {"required_context_keys": ["city"], "transitions": [to("b", *conditions)], **more},
        "b": {"kind": "final", "purpose": "End", "reply": reply},
    }
    return machine(states, schema)


def waiting(*conditions: Written, **output: str) -> Written:
    states = {
        "a": {"transitions": [to("w")]},
        "w": {
            "kind": "wait",
            "wait_for": "boss",
            "output": output,
            "transitions": [to("b", *conditions)],
        },
    }
    return machine(states, ANSWER)


def answering(keys: Written) -> Written:
    """A state that waits for a yes or a no, with these context keys."""
    answer = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    wait = {
        "kind": "wait",
        "answer_schema": answer,
        "output": {"ok": "$.ok"},
        "transitions": [to("b")],
    }
    return machine({"w": wait}, keys)


def round_trip(*collected: str) -> Written:
    """A state that demands the seat, which is asked for only in a state that comes after it."""
    states = {
        "a": {"required_context_keys": list(collected), "transitions": [to("s")]},
        "s": {"transitions": [to("b", when(None, "seat")), to("t")]},
        "t": {"required_context_keys": ["seat"], "transitions": [to("a")]},
    }
    return machine(states, TWO)


MOVE = "/states/a/transitions/0"


def seats(*moves: Written, **more: Any) -> Written:
    """A state that collects the city, with these ways on, and one behind it that collects the seat."""
    states = {
        "a": {"required_context_keys": ["city"], "transitions": list(moves), **more},
        "b": {
            "required_context_keys": ["seat"],
            "transitions": [to("c", when(None, "seat")), to("a")],
        },
    }
    return machine(states, TWO)


def sorted_early(*moves: Written) -> Written:
    """A state that decides before the seat is asked for."""
    asks = {"required_context_keys": ["seat"], "transitions": [to("c", when(None, "seat"))]}
    decides = {"kind": "decide", "transitions": list(moves)}
    return machine({"a": {"transitions": [to("d")]}, "d": decides, "b": asks}, TWO)


IS_AISLE = when({"==": [{"var": "seat"}, "aisle"]})

GEO: Written = {
    "type": "object",
    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
    "required": ["lat", "lon"],
}


def apart(first: list[str], second: list[str], needed: list[str], **more: Any) -> Written:
    """Two states that ask for parts of one object, of which its schema needs some."""
    schema = {
        "type": "object",
        "properties": {"street": TEXT, "city": TEXT},
        "required": needed,
        **more,
    }
    states = {"a": {"required_context_keys": first, "transitions": [to("b")]},
              "b": {"required_context_keys": second, "transitions": [to("c")]}}  # fmt: skip
    return machine(states, {"x": schema})


BAD: list[tuple[str, Written, list[tuple[str, str]]]] = [
    ("used-before-set", trip("{{ city }} {{ seat }}", TWO), [("warning", "/states/b/reply")]),
    (
        "used-before-set",
        machine(
            {
                "a": {"transitions": [to("d")]},
                "d": {"kind": "decide", "transitions": [to("b", when(None, "city")), to("c")]},
            },
            CITY,
        ),
        [("info", "/states/d/transitions/0/conditions")],
    ),
    (
        "used-before-set",
        machine(
            {
                "a": {"transitions": [to("s")]},
                "s": {
                    "kind": "subflow",
                    "flow": "pay",
                    "input": {"town": "city"},
                    "transitions": [to("b")],
                },
            },
            CITY,
        ),
        [("warning", "/states/s/input/town")],
    ),
    ("never-asked-for", trip("Bye", TWO, "city", "seat"), [("info", MOVE)]),
    ("never-asked-for", round_trip("city"), [("info", "/states/s/transitions/0")]),
    ("asked-for-later", seats(to("b", when(None, "city", "seat"))), [("warning", MOVE)]),
    ("asked-for-later", seats(to("b", IS_AISLE)), [("warning", MOVE)]),
    (
        "asked-for-later",
        seats(to("b", when({"!=": [{"var": "seat"}, "aisle"]}))),
        [("warning", MOVE)],
    ),
    ("asked-for-later", {**seats(to("b", IS_AISLE)), "context_schema": None}, [("warning", MOVE)]),
    (
        "asked-for-later",
        sorted_early(to("c", IS_AISLE), to("b")),
        [("warning", "/states/d/transitions/0")],
    ),
    ("used-before-set", sorted_early(to("c", IS_AISLE), to("b")), []),
    ("never-asked-for", seats(to("b", when(None, "city", "seat"))), []),
    (
        "mapping-never-fits",
        answering({"ok": {"type": "string"}}),
        [("warning", "/states/w/output/ok")],
    ),
    (
        "mapping-never-fits",
        answering({"ok": {"enum": ["maybe"], "type": "string"}}),
        [("warning", "/states/w/output/ok")],
    ),
    (
        "mapping-never-fits",
        answering({"ok": {"x-source": "host"}}),
        [("warning", "/states/w/output/ok")],
    ),
    (
        "mapping-never-fits",
        {**trip("Bye"), "tools": {"t": {"registered": "f", "output": {"city": "$.city"}}}}
        | {"context_schema": {"properties": {"city": {"x-source": "answer"}}}},
        [("warning", "/tools/t/output/city")],
    ),
    ("reply-key-may-be-missing", trip("{{ city }}"), [("info", "/states/b/reply")]),
    ("reply-key-may-be-missing", PUBLISHED, [("info", "/states/done/reply")]),
    ("collected-never-read", trip("Bye"), [("info", "/states/a/required_context_keys/0")]),
    ("set-never-used", waiting(approved="$.ok"), [("info", "/states/w/output/approved")]),
    ("unknown-key-in-reply", trip("{{ citty }}"), [("warning", "/states/b/reply")]),
    ("unknown-key-in-reply", trip("{{ citty }}", None), [("info", "/states/b/reply")]),
    ("unknown-key-in-reply", trip("{{ _turns }}", None), [("warning", "/states/b/reply")]),
    ("unknown-key-in-mapping", waiting(aproved="$.ok"), [("warning", "/states/w/output/aproved")]),
    (
        "unknown-key-in-mapping",
        trip("Bye", CITY, context_scope={"read": ["city", "ctiy"]}),
        [("warning", "/states/a/context_scope/read/1")],
    ),
    (
        "unobtainable-key",
        machine({"a": {"transitions": [to("b", when(None, "approved"))]}}, ANSWER),
        [("error", MOVE)],
    ),
    (
        "unobtainable-key",
        machine(
            {
                "a": {
                    "transitions": [to("b", when({">": [{"var": "price"}, 5]}))],
                    "tools": ["shop"],
                }
            },
            TOOL,
            tools={"shop": {"registered": "shop", "output": {}}},
        ),
        [("error", MOVE)],
    ),
    (
        "unobtainable-key",
        machine(
            {
                "a": {"transitions": [to("b", when(None, "approved")), to("w")]},
                "w": {"kind": "wait", "output": {"approved": "$.ok"}, "transitions": [to("c")]},
            },
            ANSWER,
        ),
        [("warning", MOVE)],
    ),
    (
        "secret-in-prompt",
        trip("Bye", SECRET, purpose="Compare with {{pin}}"),
        [("warning", "/states/a/purpose")],
    ),
    (
        "secret-in-prompt",
        trip("Bye", SECRET, example_dialogue=[{"user": "It is {pin}"}]),
        [("warning", "/states/a/example_dialogue/0/user")],
    ),
    (
        "secret-in-prompt",
        trip("Bye", SECRET, context_scope={"read": ["pin"]}),
        [("warning", "/states/a/context_scope/read/0")],
    ),
    ("secret-in-reply", trip("{{ pin }}", SECRET), [("error", "/states/b/reply")]),
    (
        "secret-in-reply",
        trip("{% if pin %}{{ pin | length }}{% endif %}", SECRET),
        [("error", "/states/b/reply")],
    ),
    (
        "secret-in-reply",
        trip("{% if pin %}Thanks{% endif %}", SECRET),
        [("warning", "/states/b/reply")],
    ),
    (
        "scope-hides-required",
        trip("Bye", CITY, context_scope={"read": []}),
        [("info", "/states/a/context_scope/read")],
    ),
    (
        "parts-asked-apart",
        apart(["x.street"], ["x.city"], ["street", "city"]),
        [
            ("warning", "/states/a/required_context_keys"),
            ("warning", "/states/b/required_context_keys"),
        ],
    ),
    (
        "parts-asked-apart",
        apart(["x.geo.lat"], ["x.geo.lon"], [], properties={"geo": GEO}),
        [
            ("warning", "/states/a/required_context_keys"),
            ("warning", "/states/b/required_context_keys"),
        ],
    ),
    (
        "parts-asked-apart",
        apart(["x.street"], [], ["street", "city"]),
        [("warning", "/states/a/required_context_keys")],
    ),
    (
        "bad-key",
        machine({"a": {"required_context_keys": ["first name", "_x"], "transitions": [to("b")]}}),
        [
            ("error", "/states/a/required_context_keys/0"),
            ("error", "/states/a/required_context_keys/1"),
        ],
    ),
    (
        "undeclared-key",
        machine({"a": {"required_context_keys": ["ctiy"], "transitions": [to("b")]}}, CITY),
        [("warning", "/states/a/required_context_keys/0")],
    ),
    (
        "unwritable-key",
        machine({"a": {"required_context_keys": ["approved"], "transitions": [to("b")]}}, ANSWER),
        [("warning", "/states/a/required_context_keys/0")],
    ),
]

GOOD: list[tuple[str, Written]] = [
    ("used-before-set", trip("{{ city }}")),
    ("used-before-set", trip("{{ city }} {{ seat }}", None)),
    ("used-before-set", trip("{% if seat %}{{ seat }}{% endif %}", TWO)),
    ("used-before-set", trip("{{ seat }}", TWO, purpose="Ask for city and seat.")),
    ("used-before-set", trip("{{ seat }}", {**TWO, "seat": {"x-source": "host"}})),
    ("asked-for-later", seats(to("b", when(None, "city")))),
    ("asked-for-later", seats(to("b", IS_AISLE), required_context_keys=["city", "seat"])),
    ("asked-for-later", seats(to("b", when({"!": {"var": "seat"}})))),
    # a short cut for those who say it early
    ("asked-for-later", seats(to("c", when(None, "seat")), to("b"))),
    ("asked-for-later", seats(to("c", IS_AISLE), to("b"))),  # the way leads back here
    ("asked-for-later", sorted_early(to("c", when(None, "seat")), to("b"))),
    ("asked-for-later", {**seats(to("b", IS_AISLE)), "initial_state": "b"}),
    ("never-asked-for", trip("Bye", CITY, "city")),
    ("never-asked-for", round_trip("city", "seat")),
    ("mapping-never-fits", answering({"ok": {"type": "boolean"}})),
    (
        "mapping-never-fits",
        answering({"ok": {"type": ["string", "boolean"], "x-source": "answer"}}),
    ),
    ("mapping-never-fits", answering({"ok": {}})),
    ("mapping-never-fits", answering({})),
    ("never-asked-for", trip("Bye", TWO, "city", "seat", purpose="Learn the city and the seat.")),
    ("never-asked-for", trip("Bye", {**TWO, "seat": {"x-source": "host"}}, "seat")),
    ("never-asked-for", trip("Bye", None, "seat")),
    ("reply-key-may-be-missing", trip("{{ city }}", CITY, "city")),
    ("reply-key-may-be-missing", trip("{{ city | default('there') }}")),
    ("collected-never-read", trip("Bye", CITY, "city")),
    ("collected-never-read", trip("Bye", None)),
    ("set-never-used", waiting(when(None, "approved"), approved="$.ok")),
    (
        "unknown-key-in-reply",
        trip("{{ city }} {{ _turn }} {% for x in city %}{{ x }}{{ loop.index }}{% endfor %}"),
    ),
    ("unknown-key-in-reply", trip("{{ set_by_the_host }}", None)),
    ("unknown-key-in-mapping", waiting(approved="$.ok")),
    ("unobtainable-key", waiting(when(None, "approved"), approved="$.ok")),
    (
        "unobtainable-key",
        machine(
            {"a": {"transitions": [to("b", when(None, "price"))], "tools": ["shop"]}},
            TOOL,
            tools={"shop": {"registered": "shop", "output": {"price": "$.price"}}},
        ),
    ),
    (
        "unobtainable-key",
        machine({"a": {"transitions": [to("b", when({"!": {"var": "approved"}}))]}}, ANSWER),
    ),
    ("parts-asked-apart", apart(["x.street"], ["x.city"], [])),
    ("parts-asked-apart", apart(["x.geo.lat", "x.geo.lon"], [], ["geo"], properties={"geo": GEO})),
    (
        "parts-asked-apart",
        apart(
            ["x.geo.lat", "x.street"], ["x.geo"], ["geo"], properties={"geo": {"type": "object"}}
        ),
    ),
    ("parts-asked-apart", apart(["x.street", "x.city"], ["x.city"], ["street", "city"])),
    ("parts-asked-apart", apart(["x"], ["x.city"], ["street", "city"])),
    ("parts-asked-apart", apart(["x.street"], ["x.city"], ["street"])),
    (
        "parts-asked-apart",
        apart(["x.street"], ["x.city"], ["street", "city"], **{"x-source": "host"}),
    ),
    ("secret-in-prompt", trip("Bye", SECRET, purpose="Ask for the pin; never repeat it")),
    ("secret-in-reply", trip("Your pin is stored", SECRET)),
    ("secret-in-reply", trip("{{ pin }}", {"pin": TEXT})),
    ("scope-hides-required", trip("Bye", CITY, context_scope={"read": ["city"]})),
    ("unwritable-key", trip("Bye")),
    ("undeclared-key", trip("Bye")),
    (
        "used-before-set",
        machine(
            {
                "a": {"transitions": [to("s")]},
                "s": {
                    "kind": "subflow",
                    "flow": "ask",
                    "input": {"town": "city"},
                    "output": {"city": "town"},
                    "transitions": [to("b")],
                },
            },
            CITY,
        ),
    ),
]


@pytest.mark.parametrize(
    ("rule", "document", "expected"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_fault_in_the_flow_of_keys_is_found_at_its_place(
    rule: str, document: Written, expected: list[tuple[str, str]]
) -> None:
    assert briefly(found_by(rule, document)) == expected


@pytest.mark.parametrize(
    ("rule", "document"), GOOD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_good_flow_of_keys_is_left_alone(rule: str, document: Written) -> None:
    assert found_by(rule, document) == []


def test_paths_show_how_a_key_stays_unset() -> None:
    [finding] = found_by("reply-key-may-be-missing", trip("{{ city }}"))
    assert finding.path == ("a", "b")


def test_keys_are_demanded_on_all_paths_or_not_at_all() -> None:
    states = {
        "a": {
            "transitions": [to("b", when(None, "x", "y")), to("c", when({"==": [{"var": "x"}, 1]}))]
        },
        "b": {"transitions": [to("d")]},
        "c": {"transitions": [to("d", when(None, "z"))]},
        "d": {"transitions": [to("b")]},
    }
    must = data_flow(Document(Placed("", machine(states)))).must
    assert {name: set(keys) for name, keys in must.items()} == {
        "a": set(),
        "b": {"x"},
        "c": {"x"},
        "d": {"x"},
    }


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Hi {{ name }}!", [Mention("name", True, False)]),
        ("{{ address.city|upper }}", [Mention("address.city", True, False)]),
        (
            "{{ a or 'x' }} {{ b if b else 'y' }}",
            [Mention("a", True, True), *[Mention("b", True, True)] * 2],
        ),
        (
            "{% if a is defined and not b %}{{ c }}{% endif %}{{ d }}",
            [
                Mention("a", False, True),
                Mention("b", False, True),
                Mention("c", True, True),
                Mention("d", True, False),
            ],
        ),
        ("{% for item in items %}{{ item.name }}{% endfor %}", [Mention("items", False, True)]),
        ("{{ items|join(sep=', ')|replace('a', \"b\") }}", [Mention("items", True, False)]),
        ("{# {{ x }} #}{% raw %}{{ y }}{% endraw %}{ z }", []),
        ("{{ text.title() }}", [Mention("text", True, False)]),
        ("{{ 'lit' }}{{ m }}", [Mention("m", True, False)]),
    ],
)
def test_names_in_templates_are_read(template: str, expected: list[Mention]) -> None:
    assert mentions(template) == expected


def test_placeholders_are_read_from_words() -> None:
    assert list(placeholders("a {b} {{ c|upper }} {{d.e}} {f g} { } {1}")) == ["b", "c", "d.e"]
