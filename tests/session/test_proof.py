"""The one rule of proof, for every kind of value and at every door."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.session import events as ev
from llm_fsm.session.proof import Claim, prove
from llm_fsm.session.quotes import UserWords
from llm_fsm.testing import ScriptedLLM, calls, reply
from machines import machine, say, start
from machines import reply as replied

TODAY = date(2026, 11, 29)
SIZE = {"enum": ["s", "l"], "x-labels": {"s": "Small size", "l": "Large size"}}
SEA = {"type": "boolean", "title": "Sea view"}
GUESTS = {"type": "array", "items": {"type": "object", "properties": {"name": {}, "age": {}}}}
ROOM = {
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}, "beds": {"type": "integer"}},
}
DAY = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "time"}
MOMENT = {"type": "string", "format": "date-time"}
NUMBER = {"type": "number"}

KINDS: dict[str, tuple[str, dict[str, Any], Any, str, Any]] = {
    # kind: proof, schema, value, words, a value that the words do not prove
    "text": ("quote", {"type": "string"}, "Ada Lovelace", "I am Ada Lovelace", "Ada Byron"),
    "e-mail": ("quote", {}, "ada@example.org", "it is Ada@Example.org", "ada@example.com"),
    "code": ("quote", {}, "AB-1234", "code ab 12 34", "AB-12345"),
    "address": ("quote", {}, "12 Main Street", "twelve Main Street", "12 Main Street, Rome"),
    "phone": ("digits", {}, "+49 30 555 01", "it is 0049 30 555-01", "+49 30 555 02"),
    "spoken digits": ("digits", {}, "0305", "oh three oh and five", "03055"),
    "amount": ("digits", {}, "1.50", "1,50 please", "150"),
    "integer": ("quote", {"type": "integer"}, 4, "we are four", 14),
    "number": ("quote", NUMBER, 1.5, "it is 1,50 euros", 150),
    "number by digits": ("digits", NUMBER, 42, "number 42 it is", 4),
    "date": ("quote", DAY, "2026-11-30", "tomorrow please", "2026-12-01"),
    "time": ("quote", TIME, "19:30", "at half past seven", "19:00"),
    "moment": ("quote", MOMENT, "2026-11-30T19:00:00Z", "tomorrow at 7pm", "2026-11-30T20:00:00Z"),
    "choice": ("quote", {"enum": ["express", "normal"]}, "express", "the express one", "normal"),
    "label": ("quote", SIZE, "l", "a large size for me", "s"),
    "true": ("quote", SEA, True, "with a sea view", False),
    "false": ("quote", SEA, False, "no sea view, thanks", True),
    "list": ("quote", {}, ["Ada", "Bob"], "Ada and Bob", ["Ada", "Eve"]),
    "item": ("quote", GUESTS, [{"name": "Ada", "age": 5}], "Ada, she is five", [{"name": "Ada", "age": 6}]),
    "object": ("quote", ROOM, {"day": "2026-12-04", "beds": 2}, "two beds on Friday", {"day": "2026-12-04", "beds": 3}),
}  # fmt: skip


def is_proved(
    kind: str, schema: dict[str, Any], value: Any, words: str, quote: str = "", **more: Any
) -> bool:
    claim = Claim(key="v", kind=kind, value=value, schema=schema, quotes=[quote or words], **more)
    return isinstance(prove(claim, UserWords(messages=[(1, words)], today=TODAY)), tuple)


@pytest.mark.parametrize("name", KINDS)
def test_words_prove_the_whole_value_and_no_other(name: str) -> None:
    kind, schema, value, words, other = KINDS[name]
    assert is_proved(kind, schema, value, words)
    assert not is_proved(kind, schema, other, words)
    assert not is_proved(kind, schema, value, "please help me with it")


# -- doors


def definition(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "name": "d",
        "initial_state": "ask",
        "context_schema": {"properties": {"v": {**schema, "x-said": kind}}},
        "tools": {"note": {"registered": "note", "output": {"v": "value"}}},
        "states": {
            "ask": {"purpose": "What is it?", "required_context_keys": ["v"], "tools": ["note"],
                    "transitions": [{"target_state": "end", "description": "Known",
                                     "conditions": [{"requires_context_keys": ["v"]}]}]},
            "end": {"reply": "Done."},
        },
    }  # fmt: skip


NOON = 1_795_953_600.0
"""The day `TODAY`, as the clock of a machine gives it."""


def note(value: Any) -> dict[str, Any]:
    """Note a value."""
    return {"value": value}


def by_reply(value: Any, words: str) -> list[Any]:
    return [reply("end", v=value, _quotes={"v": words})]


def by_extra(value: Any, words: str) -> list[Any]:
    return [reply("end", _extra={"v": value}, _quotes={"v": words})]


def by_list(value: Any, words: str) -> list[Any]:
    update = [{"key": "v", "value": value, "quote": words}]
    return [{"target_state": "end", "context_update": update, "message": "", "question": ""}]


def by_tool(value: Any, words: str) -> list[Any]:
    return [calls(("note", {"value": value})), reply("ask", "Noted.")]


DOORS = {"reply": by_reply, "extra": by_extra, "list form": by_list, "tool": by_tool}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", KINDS)
def test_every_door_asks_the_same_rule(name: str, door: str) -> None:
    kind, schema, value, words, other = KINDS[name]
    for one, said in ((value, words), (other, words)):
        model = ScriptedLLM([*DOORS[door](one, said), *[reply("ask", "What is it?")] * 3])
        machine_ = Machine.from_dict(
            definition(schema, kind), model=model, tools=[note], clock=lambda: NOON
        )
        with machine_ as made:
            chat = made.start(greet=False)
            chat.send(words)
            expected = {"v": value} if one == value else {}
            assert chat.context == expected


def test_a_result_of_an_argument_that_nobody_said_proves_nothing() -> None:
    document = definition({"type": "string"}, "quote")

    def note(customer: str) -> dict[str, Any]:
        """Find the name of a customer."""
        return {"value": "Ada Lovelace"}

    for said, kept in (("I am customer 17", {"v": "Ada Lovelace"}), ("Who am I?", {})):
        model = ScriptedLLM([calls(("note", {"customer": "17"})), *[reply("ask", "And?")] * 3])
        with Machine.from_dict(document, model=model, tools=[note]) as made:
            chat = made.start(greet=False)
            turn = chat.send(said)
            assert chat.context == kept
            refused = [one.key for one in turn.events if isinstance(one, ev.ContextRefused)]
            assert refused == ([] if kept else ["v"])


@pytest.mark.parametrize(
    ("asked", "said", "value", "proved"),
    [
        (True, "yes please", True, True),
        (True, "no thanks", False, True),
        (True, "no thanks", True, False),
        (False, "yes please", True, False),
        (True, "Tom Baker", True, False),
        (True, "sí, por favor", True, True),
    ],
)
def test_a_yes_answers_what_was_asked(asked: bool, said: str, value: bool, proved: bool) -> None:
    claim = Claim(key="v", kind="quote", value=value, schema=SEA, quotes=[said])
    words = UserWords(messages=[(2, said)], asked={"v": 1} if asked else {})
    assert isinstance(prove(claim, words), tuple) is proved


@pytest.mark.parametrize(
    ("said", "value"),
    [("yes", True), ("yes please", True), ("no", False), ("ja", True), ("oui", True)],
)
def test_a_yes_answers_no_question_that_was_asked_before_another_one(
    said: str, value: bool
) -> None:
    words = UserWords(messages=[(2, "hm"), (3, said)], asked={"v": 1, "other": 2})
    for key, proved in (("v", False), ("other", True)):
        claim = Claim(key=key, kind="quote", value=value, schema=SEA, quotes=[said])
        assert isinstance(prove(claim, words), tuple) is proved


@pytest.mark.parametrize(
    ("value", "old", "messages", "asked", "proved"),
    [
        ("0305550188", "0305550199", ["it ends in 0188"], -1, True),
        ("0305550177", "0305550199", ["it ends in 0188"], -1, False),
        ("0405550199", "0305550199", ["the area code is 040"], -1, True),
        ("0305550199", None, ["030 555", "and 0199"], 0, True),
        ("0305550199", None, ["030 555", "we are 0199, or 12"], 0, False),
        ("0305550199", None, ["030 555", "0199"], -1, False),
        ("1234", None, ["12 cats", "34 dogs"], -1, False),
        ("24", None, ["2 rooms for 4 people"], -1, False),
        ("12", None, ["1234"], -1, False),
        ("-5", None, ["5"], -1, False),
        ("50", None, ["1,50"], -1, False),
        ("21", None, ["1 2"], -1, False),
    ],
)
def test_digits_are_a_run_of_whole_groups(
    value: str, old: Any, messages: list[str], asked: int, proved: bool
) -> None:
    claim = Claim(key="v", kind="digits", value=value, old=old)
    words = UserWords(messages=list(enumerate(messages)), asked={"v": asked} if asked >= 0 else {})
    assert isinstance(prove(claim, words), tuple) is proved


def test_only_what_changes_is_proved() -> None:
    old = [{"name": "Ada", "age": 5}, {"name": "Bob", "age": 7}]
    new = [{"name": "Ada", "age": 6}, {"name": "Bob", "age": 7}]
    assert is_proved("quote", GUESTS, new, "she is six", old=old)
    assert not is_proved("quote", GUESTS, [*new, {"name": "Eve"}], "she is six", old=old)
    assert is_proved("quote", GUESTS, old[:1], "without him", old=old)


# -- invented values


MESSAGES = (
    "Hello there, I have 12 cats and 34 dogs, please help me with a table for two",
    "Guten Abend, ich hätte gern Hilfe bei meiner Bestellung Nummer 4711 bitte",
    "Bonjour, je voudrais de l'aide pour deux commandes s'il vous plaît",
    "Hola, quisiera ayuda con un pedido para el viernes por favor",
    "Ciao, vorrei un tavolo domani alle 20, grazie",
    "Merhaba, bir sipariş için yardım istiyorum lütfen",
    "こんにちは、注文を手伝ってください",
    "مرحبا أريد المساعدة في طلب من فضلك",
)
CHOICES = {"enum": ["sauna", "garden"], "x-labels": {"sauna": "Finnish sauna"}}


def invented(random: Random) -> tuple[str, dict[str, Any], Any]:
    """A kind of proof, a schema, and a value that no message has."""
    parts = [random.choice("bdfgkmnprstvz") + random.choice("aeiou") for _ in range(4)]
    name = "".join(parts).title()
    number = random.randint(5000, 99_999)
    day = date.fromordinal(date(2027, 2, 1).toordinal() + random.randint(0, 300)).isoformat()
    time = f"{random.choice((3, 4, 5, 6, 15, 16, 17, 18)):02}:{random.randint(1, 59):02}"
    return random.choice((
        ("quote", {}, name),
        ("quote", {}, f"{name}@example.com"),
        ("quote", {}, f"{name[:3].upper()}-{number}"),
        ("quote", {}, f"{number} {name} Street"),
        ("digits", {}, f"+49 30 {number}"),
        ("digits", {}, "1234"),
        ("digits", {}, "12344711"),
        ("digits", {}, "47"),
        ("quote", NUMBER, number),
        ("quote", NUMBER, 46),
        ("quote", NUMBER, 1234),
        ("digits", NUMBER, 46),
        ("quote", DAY, day),
        ("quote", TIME, time),
        ("quote", MOMENT, f"{day}T{time}:00"),
        ("quote", CHOICES, random.choice(CHOICES["enum"])),
        ("quote", SEA, random.choice((True, False))),
        ("quote", {}, [name]),
        ("quote", GUESTS, [{"name": name}]),
        ("quote", ROOM, {"day": day}),
        ("quote", ROOM, {"beds": number}),
    ))  # fmt: skip


def test_of_500_invented_values_none_is_proved_by_the_message_or_a_part_of_it() -> None:
    random = Random(51)
    stored: list[Any] = []
    for _ in range(500):
        kind, schema, value = invented(random)
        message = random.choice(MESSAGES)
        quote = random.choice([message, message[random.randint(0, 20) :], message.split()[0]])
        if is_proved(kind, schema, value, message, quote):
            stored.append((kind, value, message, quote))
    assert stored == []


@pytest.mark.parametrize(
    "name", [name for name in KINDS if isinstance(KINDS[name][2], str | int | float | list)]
)
def test_an_invented_word_or_digit_beside_a_proved_value_is_refused(name: str) -> None:
    kind, schema, value, words, _ = KINDS[name]
    if isinstance(value, bool) or schema.get("format") or "enum" in schema:
        return
    random = Random(52)
    for _ in range(20):
        digit, word = str(random.randint(6, 9)), random.choice(("Zork", "Quux", "Blub"))
        for more in (digit, word) if kind == "quote" else (digit,):
            if isinstance(value, str):
                others: list[Any] = [f"{value} {more}", f"{more} {value}"]
            elif isinstance(value, list):
                others = [[*value, more]]
            else:
                others = [float(f"{value}{digit}"), float(f"{digit}{value}")]
            for other in others:
                assert not is_proved(kind, schema, other, words), other


# -- without x-said


TABLE = machine(
    {"ask": {"purpose": "Your name?", "required_context_keys": ["name"], "transitions": [
        {"target_state": "end", "conditions": [{"requires_context_keys": ["name"]}]}]},
     "end": {"reply": "Done."}},
    context_schema={"properties": {
        "name": {"type": "string"}, "day": DAY, "free": {**TIME, "x-said": False}, "at": TIME,
        "visit": {"type": "object", "required": ["day", "room"],
                  "properties": {"day": DAY, "room": {"type": "string"}}},
    }},
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("My name is Tom Baker", False),
        ("mañana por la tarde, soy Tom", True),
        ("Freitag um 19 Uhr, Tom Baker", True),
        ("Tom, tomorrow at 7", True),
    ],
)
def test_a_date_needs_a_message_that_may_name_one(said: str, kept: bool) -> None:
    update = {"name": "Tom", "day": "1970-01-02", "at": "19:00", "free": "20:00"}
    done = say(TABLE, start(TABLE).session, said, replied("end", "", **update), spare=True)
    assert done.session.context.keys() == ({*update} if kept else {"name", "free"})
    assert done.text == "Done."


def test_a_date_that_nobody_said_is_no_part_of_an_object() -> None:
    update = {"visit": {"day": "1970-01-02"}}
    for said, begun in (("Tom", {}), ("tomorrow", update)):
        done = say(TABLE, start(TABLE).session, said, replied("ask", "And?", **update), spare=True)
        assert done.session.begun == begun
