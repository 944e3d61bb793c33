"""The context: what an update may write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.session.context import accept_host, accept_reply, has
from llm_fsm.session.events import ContextRefused, ContextSet
from llm_fsm.session.session import dump_session, parse_session
from llm_fsm.turn.output_mapping import read_value
from machines import GREETER, machine, program, reply, say, start, talk
from paths import TESTS

BLNS = json.loads((TESTS / "data" / "blns" / "blns.json").read_text(encoding="utf-8"))


CONTACT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phone": {"type": "string", "maxLength": 4},
        "city": {"type": "string"},
        "flat": {"type": "string"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("updates", "context"),
    [
        ([{"contact": {"city": "Bonn"}}, {"contact": {"phone": "123"}}], {"contact": {"city": "Bonn", "phone": "123"}}),
        ([{"contact": {"phone": "1", "flat": "b"}}, {"contact": {"phone": None, "city": "B", "flat": None}}],
         {"contact": {"phone": "1", "city": "B", "flat": "b"}}),
        ([{"contact": {"phone": "1", "flat": "b"}}, {"contact": {"phone": "2", "city": "B"}}],
         {"contact": {"phone": "2", "city": "B", "flat": "b"}}),
        ([{"contact.city": "Bonn", "contact.phone": "123"}], {"contact": {"city": "Bonn", "phone": "123"}}),
        ([{"contact": {"city": "Bonn", "flat": "2"}}, {"contact.phone": "123"}],
         {"contact": {"city": "Bonn", "flat": "2", "phone": "123"}}),
        ([{"contact": {"city": "Bonn"}}, {"contact.phone": "12345"}], {"contact": {"city": "Bonn"}}),
        ([{"contact.fax": "1", "note.city": "x"}], {"_extra": {"contact.fax": "1", "note.city": "x"}}),
    ],
)  # fmt: skip
def test_parts_of_an_object_that_are_asked_for_by_name_stay_and_may_be_sent_by_name(
    updates: list[Any], context: Any
) -> None:
    needs = [{"requires_context_keys": ["contact.city"]}]
    states = {
        "ask": {
            "required_context_keys": ["contact.phone"],
            "transitions": [{"target_state": "b", "conditions": needs}],
        },
        "b": {},
    }
    made = machine(
        states, context_schema={"properties": {"contact": CONTACT, "note": {"type": "string"}}}
    )
    session = start(made).session
    for update in updates:
        session = say(made, session, "m", reply("ask", **update)).session
    assert session.context == context


PLACE = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "zip": {"type": "string", "maxLength": 5}},
}
VISIT = {
    "type": "object",
    "properties": {"place": PLACE, "day": {"type": "string"}, "note": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("updates", "visit"),
    [
        ([{"visit.place.street": "High St", "visit.day": "Mon"}], {"place": {"street": "High St"}, "day": "Mon"}),
        ([{"visit": {"place": {"street": "High St", "zip": "1"}}}, {"visit.place.zip": "2"}],
         {"place": {"street": "High St", "zip": "2"}}),
        ([{"visit": {"place": {"street": "High St", "zip": "1"}, "day": "Mon"}}, {"visit": {"place": {"zip": "2"}}}],
         {"place": {"street": "High St", "zip": "2"}, "day": "Mon"}),
        ([{"visit": {"place": {"street": "High St"}}}, {"visit": {"place": {"street": None}, "day": "Mon"}}],
         {"place": {"street": "High St"}, "day": "Mon"}),
        ([{"visit": {"place": {"street": "High St"}, "day": "Mon"}}, {"visit.place.zip": "123456"}],
         {"place": {"street": "High St"}, "day": "Mon"}),
        ([{"visit": {"place": {"street": "High St"}, "day": "Mon", "note": "n"}},
          {"visit": {"place": {"street": "Low St"}, "day": "Tue"}}],
         {"place": {"street": "Low St"}, "day": "Tue", "note": "n"}),
        ([{"visit": {"place": {"street": "High St", "zip": "1"}}},
           {"_clear": ["visit.place.zip"], "_quotes": {"_clear": "m"}}],
         {"place": {"street": "High St"}}),
        ([{"visit": {"place": {"street": "High St"}}}, {"visit.place.floor": "3"}],
         {"place": {"street": "High St"}}),
    ],
)  # fmt: skip
def test_parts_of_parts_stay_and_may_be_sent_by_name(updates: list[Any], visit: Any) -> None:
    ask = {
        "required_context_keys": ["visit.place.street", "visit.day"],
        "transitions": [{"target_state": "b"}],
    }
    states: dict[str, Any] = {"ask": ask, "b": {}}
    made = machine(states, context_schema={"properties": {"visit": VISIT}})
    session = start(made).session
    for update in updates:
        session = say(made, session, "m", reply("ask", **update)).session
    assert session.context["visit"] == visit


def test_a_reply_writes_no_part_of_an_object_that_is_a_key_of_the_program() -> None:
    keys = {"user": {"type": "object"}, "user.tier": {"x-source": "host"}}
    gold = [{"requires_context_keys": ["user.tier"]}]
    states = {
        "a": {"transitions": [{"target_state": "b", "conditions": gold}, {"target_state": "a"}]},
        "b": {},
    }
    made = machine(states, context_schema={"properties": keys})
    for update in ({"user": {"name": "Ada", "tier": "gold"}}, {"user.tier": "gold"}):
        played = talk(made, "I am gold", reply("b", **update), reply("a", **update))
        assert played.session.state == "a"
        assert not has(played.session.context, "user.tier")
        assert played.of(ContextRefused)
    told = talk(made, "I am Ada", reply("a", user={"name": "Ada"})).session
    assert told.context == {"user": {"name": "Ada"}}
    assert accept_host(made.keys, told.context, {"user.tier": "gold"})[0].values == {
        "user.tier": "gold"
    }


def test_dotted_names_look_into_objects_and_an_exact_key_wins() -> None:
    data = {"a": {"b": 1, "c": None}, "a.c": 2}
    assert [has(data, name) for name in ("a", "a.b", "a.c", "a.d", "x")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_changes_of_the_host_are_checked_by_the_schema_and_recorded() -> None:
    keys = program(GREETER, context_schema={"properties": {"n": {"type": "integer"}}}).keys
    events = accept_host(keys, {"old": 1}, {"n": "x", "free": (1,), "old": None, "_turn": 2})
    assert [(type(event).__name__, getattr(event, "key", None)) for event in events] == [
        ("ContextSet", None),
        ("ContextRefused", "n"),
        ("ContextRefused", "_turn"),
    ]
    assert (events[0].values, events[0].removed) == ({"free": [1]}, ("old",))  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", BLNS)
def test_hostile_strings_survive_as_values_keys_and_messages(text: str) -> None:
    made = machine({"a": {"purpose": "x", "transitions": [{"target_state": "a"}]}})
    begun = start(made, context={"value": text}).session
    update = {"again": text, "_extra": {text or "x": text}}
    played = say(made, begun, text or "x", reply("a", text or "x", **update))
    session = played.session
    assert (session.context["value"], session.context["again"]) == (text, text)
    assert parse_session(dump_session(session)) == session
    for message in played.requests[0].messages:
        message.content.encode()
    if text and not text.startswith("_") and len(text) <= 200:
        assert session.context["_extra"] == {text: text}


def test_thousand_keys_are_the_most() -> None:
    made = program(GREETER)
    first = talk(made, "m", reply("hello", **{f"k{n}": n for n in range(1200)}))
    assert len(first.session.context) == 1000


ADDRESS = machine(
    {"ask": {"purpose": "Where do you live?"}},
    context_schema={
        "properties": {
            "address": {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                },
                "required": ["street", "zip"],
            },
            "day": {"type": "string", "format": "date"},
        }
    },
).keys


@pytest.mark.parametrize(
    ("had", "sent", "kept"),
    [
        (
            {"street": "Elm 5", "zip": "10115"},
            {"zip": "10117"},
            {"street": "Elm 5", "zip": "10117"},
        ),
        (
            {"street": "Elm 5", "zip": "10115"},
            {"street": None, "zip": "10117"},
            {"street": "Elm 5", "zip": "10117"},
        ),
        (
            {"street": "Elm 5", "zip": "10115"},
            {"street": "Oak 1", "zip": "20095"},
            {"street": "Oak 1", "zip": "20095"},
        ),
        ({"street": "Elm 5", "zip": "10115"}, {"zip": "1"}, None),
        (None, {"zip": "10117"}, None),
    ],
)
def test_a_part_of_an_object_is_corrected_by_itself(had: Any, sent: Any, kept: Any) -> None:
    [event] = accept_reply(ADDRESS, {} if had is None else {"address": had}, {"address": sent})
    if kept is None:
        assert isinstance(event, ContextRefused)
    else:
        assert event == ContextSet(source="model", values={"address": kept})


def test_an_empty_value_for_what_is_known_was_not_mentioned() -> None:
    known = {"day": "2030-01-01", "address": {"street": "Elm 5", "zip": "10115"}}
    assert accept_reply(ADDRESS, known, {"day": "", "address": {}}) == ()


def test_an_empty_value_for_what_is_not_known_is_refused_and_told() -> None:
    [event] = accept_reply(ADDRESS, {}, {"day": ""})
    assert isinstance(event, ContextRefused)
    assert event.told


@pytest.mark.parametrize(
    ("schema", "sent", "reason"),
    [
        ({"type": "integer", "maximum": 5}, "9", "9 is greater than the maximum of 5"),
        ({"type": "integer", "maximum": 5}, "nine", '"nine" is not a whole number'),
        (
            {"type": "array", "items": {"enum": ["rye"]}},
            "oats",
            'at /0: "oats" is not one of "rye"',
        ),
        ({"type": ["integer", "null"]}, "null", '"null" is not a whole number'),
    ],
)
def test_a_refusal_tells_why_what_was_meant_does_not_fit(
    schema: dict[str, Any], sent: str, reason: str
) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"n": schema}})
    turn = say(made, start(made).session, "m", reply("ask", n=sent))
    told = ContextRefused(key="n", reason=reason, source="model", told=True)
    assert turn.of(ContextRefused) == [told, told]
    assert "n" not in turn.session.context


MISFITS: list[Any] = [
    *(
        {"a": 1},
        {"x": "q"},
        {"": 1},
        {"a": None},
        {"l": {"q": 1}},
        [{"x": "q"}],
        [[]],
        [None],
        "",
        "[1]",
        '{"a": "b"}',
    ),
    *(0, 1.5, True, [1, "x", {"y": 2}], {"a": {"l": {"q": 1}}}, {"a": 1, "l": {"z": 1}}),
]
SHAPES: list[Any] = [
    {"type": "array", "items": {"type": "integer"}},
    {
        "type": "array",
        "items": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "l": {"type": "array"}},
        "required": ["a", "l"],
    },
    {
        "anyOf": [
            {"type": "array", "items": {"type": "integer"}},
            {"type": "object", "required": ["q"]},
        ]
    },
    *(
        {"type": "string"},
        {"type": "integer"},
        {"type": "boolean"},
        {"type": "null"},
        {},
        True,
        False,
    ),
]


@pytest.mark.parametrize("schema", SHAPES)
@pytest.mark.parametrize("sent", MISFITS)
@pytest.mark.parametrize("name", ["k", "k.a", "k.0"])
def test_value_of_any_kind_is_kept_or_refused(schema: Any, sent: Any, name: str) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"k": schema}})
    session = talk(made, "x", reply("ask", **{name: sent})).session
    played = say(made, session, "y", reply("ask", **{name: sent}))
    assert played.session.state == "ask"


def test_why_a_lone_item_of_a_list_is_refused_is_said() -> None:
    keys = {"k": {"type": "array", "items": {"type": "integer"}}}
    made = machine(
        {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}},
        context_schema={"properties": keys},
    )
    refused = [
        event
        for event in talk(made, "x", reply("ask", k={"a": 1})).events
        if isinstance(event, ContextRefused)
    ]
    assert {(event.key, event.reason) for event in refused} == {
        ("k", 'at /0: {"a":1} is not a whole number')
    }


@pytest.mark.parametrize(
    ("schema", "sent", "kept"),
    [
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": ["integer", "null"]}, 3.0, 3),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, 2], [1, 2]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 4.0}, {"n": 4}),
        ({"type": "number"}, 3.0, 3.0),
        ({"type": "integer"}, 1e16, 10**16),
        ({"type": "integer"}, -1e18, -(10**18)),
        ({"type": "integer"}, "1e16", 10**16),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2.0**60, 2**60),
        (
            {"additionalProperties": {"type": "integer"}},
            {"a": 2.0, "b": 2e17},
            {"a": 2, "b": 2 * 10**17},
        ),
        (
            {"prefixItems": [{"type": "number"}, {"type": "integer"}]},
            [1.0, 9e15],
            [1.0, 9 * 10**15],
        ),
        ({"enum": [10**16, 2]}, 1e16, 10**16),
        ({"type": "number", "minimum": 1}, 3.0, 3.0),
        ({"type": "number"}, 1e16, 1e16),
        ({"type": "integer"}, "+1E2", 100),
        ({"type": "array", "items": {"type": "integer"}}, "1e2", [100]),
        ({"const": 2}, "2.0", 2),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, 2.0, 2),
    ],
)
def test_whole_number_is_kept_as_one(schema: Any, sent: Any, kept: Any) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"k": schema}})
    assert repr(talk(made, "x", reply("ask", k=sent)).session.context["k"]) == repr(kept)


@pytest.mark.parametrize("value", [1e16, 9007199254740994.0, -3e17, 2.0**62, 7.0, 1e30, -1e19])
@pytest.mark.parametrize("deep", [False, True])
def test_integer_is_an_integer_or_refused_whoever_writes_it(value: float, deep: bool) -> None:
    whole = {"type": "integer"}
    schema = {"properties": {"of": {"items": whole}}, "type": "object"} if deep else whole
    sent: Any = {"of": [value]} if deep else value
    kept: Any = {"of": [int(value)]} if deep else int(value)
    fits = abs(value) < 2**63
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"k": schema}})
    session = talk(made, "x", reply("ask", k=sent)).session
    assert repr(session.context.get("k")) == repr(kept if fits else None)
    host = accept_host(made.keys, {}, {"k": sent})
    assert repr(host[0]) == repr(
        ContextSet(source="host", values={"k": kept})
        if fits
        else ContextRefused(key="k", reason="whole numbers must fit in 64 bits", source="host")
    )
    read, reason = read_value(made.keys, "k", sent)
    assert (repr(read), reason is None) == (repr(kept if fits else sent), fits)


TRIP: dict[str, Any] = {
    "properties": {
        "city": {"type": "string"},
        "day": {"properties": {"hour": {"type": "integer"}}},
    },
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("cleared", "context", "refused"),
    [
        (["occasion"], {"trip": {"city": "Bonn", "day": {"hour": 9}}, "_extra": {"guests": 4}}, []),
        (["occasion", "guests"], {"trip": {"city": "Bonn", "day": {"hour": 9}}}, []),
        (
            ["trip.day"],
            {"trip": {"city": "Bonn"}, "_extra": {"guests": 4, "occasion": "birthday"}},
            [],
        ),
        (
            ["trip.day.hour"],
            {"trip": {"city": "Bonn", "day": {}}, "_extra": {"guests": 4, "occasion": "birthday"}},
            [],
        ),
        (["trip"], {"_extra": {"guests": 4, "occasion": "birthday"}}, []),
        (["trip.city"], None, [("trip.city", '"city" is a required property', True)]),
        (
            ["trip.", "_extra"],
            None,
            [(name, "a reply cannot clear this key", False) for name in ("trip.", "_extra")],
        ),
    ],
)
def test_facts_and_parts_of_objects_can_be_taken_back(
    cleared: Any, context: Any, refused: Any
) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"trip": TRIP}})
    known = {
        "trip": {"city": "Bonn", "day": {"hour": 9}},
        "_extra": {"guests": 4, "occasion": "birthday"},
    }
    session = talk(made, "x", reply("ask", **known)).session
    played = say(made, session, "y", reply("ask", _clear=cleared, _quotes={"_clear": "y"}))
    assert played.session.context == (known if context is None else context)
    found = [(one.key, one.reason, one.told) for one in played.of(ContextRefused)]
    assert found[: len(refused)] == refused
    assert {*found} == {*refused}


def test_fact_that_is_said_anew_with_its_name_among_those_taken_back_stays() -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    session = talk(
        made := machine(states, context_schema={}), "x", reply("ask", _extra={"a": 1, "b": 2})
    ).session
    played = say(
        made,
        session,
        "y",
        reply("ask", _extra={"a": 3}, _clear=["a", "b"], _quotes={"_clear": "y"}),
    )
    assert played.session.context == {"_extra": {"a": 3}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"n": 1e999}', "finite"),
        ('{"n": NaN}', "finite"),
        ('{"n":' * 40 + "1" + "}" * 40, "deep"),
        ('{"n": "' + "x" * 20_000 + '"}', "characters long"),
    ],
)
@pytest.mark.parametrize("required", [[], ["n", "other"]])
def test_an_object_written_as_a_text_is_bounded_as_any_other(
    text: str, reason: str, required: list[str]
) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(
        states, context_schema={"properties": {"k": {"type": "object", "required": required}}}
    )
    played = talk(made, "x", reply("ask", k=text))
    assert ("k" in played.session.context, played.session.begun) == (False, {})
    assert {reason in one.reason for one in played.of(ContextRefused)} == {True}


def test_half_a_character_in_an_object_written_as_a_text_is_made_whole() -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"k": {"type": "object"}}})
    assert talk(made, "x", reply("ask", k='{"n": "\\ud800"}')).session.context["k"] == {
        "n": "\ufffd"
    }


def test_parts_that_are_too_long_together_do_not_wait() -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in "abc"},
        "required": [*"abc"],
    }
    made = machine(states, context_schema={"properties": {"k": schema}})
    session = talk(made, "x", reply("ask", k={"a": "x" * 9_000})).session
    played = say(made, session, "y", reply("ask", k={"b": "y" * 9_000}))
    assert list(played.session.begun["k"]) == ["a"]
    assert {"characters long" in one.reason for one in played.of(ContextRefused)} == {True}


@pytest.mark.parametrize(
    ("schema", "known", "sent", "kept"),
    [
        (
            {"type": "object", "properties": {"a": {}, "b": {}}},
            {"a": 1, "b": 2},
            {"a": None, "b": 3},
            {"a": 1, "b": 3},
        ),
        ({"type": "object"}, {"a": 1, "b": 2}, {"a": None, "b": 3}, {"a": 1, "b": 3}),
        (
            {"type": "object"},
            {"a": {"x": 1, "y": 2}},
            {"a": {"x": None, "y": 3}},
            {"a": {"x": 1, "y": 3}},
        ),
        ({}, {"a": 1}, {"a": None}, {"a": 1}),
        ({}, {"a": 1}, '{"a": null, "b": 2}', '{"a": null, "b": 2}'),
        ({"type": "object"}, {"a": 1, "c": 3}, '{"a": null, "b": 2}', {"a": 1, "b": 2, "c": 3}),
        ({"type": "array"}, [1], [{"a": 1, "b": None}], [1, {"a": 1}]),
        ({"type": "object"}, None, {"a": None, "b": {"c": None}}, None),
        (
            {"allOf": [{"properties": {"a": {}, "b": {}}}]},
            {"a": 1, "b": 2},
            {"a": None, "b": 3},
            {"a": 1, "b": 3},
        ),
    ],
)
def test_null_inside_an_object_means_not_mentioned(
    schema: Any, known: Any, sent: Any, kept: Any
) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"k": schema}})
    played = say(
        made,
        start(made, context={} if known is None else {"k": known}).session,
        "x",
        reply("ask", k=sent),
    )
    assert played.session.context.get("k") == kept


@pytest.mark.parametrize("declared", [True, False])
def test_a_part_is_taken_back_by_its_dotted_name_with_and_without_a_schema(declared: bool) -> None:
    states = {"ask": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(
        states,
        **({"context_schema": {"properties": {"card": {"type": "object"}}}} if declared else {}),
    )
    session = start(made, context={"card": {"number": "1", "phone": "2"}}).session
    played = say(
        made,
        session,
        "x",
        reply("ask", card={"number": "5"}, _clear=["card.phone"], _quotes={"_clear": "x"}),
    )
    assert played.session.context == {"card": {"number": "5"}}
