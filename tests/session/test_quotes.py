"""`x-said`: a value is kept only with proof that the user said it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.cli.terminal.explain import lines
from llm_fsm.records.explain import explain
from llm_fsm.session import events as ev
from llm_fsm.session.quotes import find_digits, find_quote
from llm_fsm.session.reply_schema import reply_schema, updates
from machines import machine, reply, say, start

KEYS: dict[str, Any] = {
    "name": {"type": "string", "x-said": "quote"},
    "phone": {"type": "string", "x-said": "digits"},
    "note": {"type": "string"},
}
STATES: dict[str, Any] = {
    "ask": {"purpose": "Which number may we call?", "required_context_keys": ["phone"], "transitions": [
        {"target_state": "who", "conditions": [{"requires_context_keys": ["phone"]}]}]},
    "who": {"purpose": "What is your name?", "required_context_keys": ["name"], "transitions": [
        {"target_state": "sure", "conditions": [{"requires_context_keys": ["name"]}]}]},
    "sure": {"reply": "{{ name }}, {{ phone }}: right?", "transitions": [{"target_state": "end"}]},
    "end": {"reply": "Done."},
}  # fmt: skip
MADE = machine(STATES, context_schema={"properties": KEYS})


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("Ada Lovelace", (2, 8, 21)),
        ("ADA, lovelace!", (2, 8, 21)),
        ("ＡＤＡ", (2, 8, 11)),
        ("Bob", (1, 5, 8)),
        ("Eve", None),
        ("", None),
        (" .,!", None),
        ("x" * 10_001, None),
    ],
)
def test_a_quote_is_found_without_regard_to_case_spaces_and_punctuation(quote: str, place: Any) -> None:
    assert find_quote(quote, [(1, "I am Bob"), (2, "No, I'm Ada  Lovelace.")]) == place


@pytest.mark.parametrize(
    ("value", "found"),
    [("030 555", True), (30555, True), ("03055", True), ("550", False), ("none", False), ("0305557", False)],
)
def test_digits_are_said_in_their_order_in_any_script(value: Any, found: bool) -> None:
    for text in ("030/555, please", "٠٣٠ ٥٥٥"):
        assert (find_digits(value, [(1, text)]) is not None) is found


def test_an_invented_number_is_not_stored_and_is_asked_for_again() -> None:
    session = start(MADE).session
    done = say(MADE, session, "just call me back please", reply("ask", "I will call 5550123.", phone="5550123"))
    assert "phone" not in done.session.context
    assert done.text == "Which number may we call?"
    assert done.usage.calls == 1
    [refused] = done.of(ev.ContextRefused)
    assert (refused.key, "not said" in refused.reason) == ("phone", True)
    again = say(MADE, done.session, "030 555", reply("who", "Your name?", phone="030555"))
    assert "not said" in again.requests[0].messages[1].content
    assert again.session.context == {"phone": "030555"}
    [kept] = again.of(ev.ContextSet)
    assert kept.quotes == {"phone": (2, 0, 7)}


def quoted(target: str, quote: str | None, **update: Any) -> str:
    quotes = {} if quote is None else {"_quotes": {"name": quote}}
    return reply(target, "ok", **update, **quotes)


@pytest.mark.parametrize(("quote", "kept"), [("i'm ada", True), (None, False), ("Bob", False), ("your name", False)])
def test_a_quote_counts_since_the_key_was_asked_for(quote: str | None, kept: bool) -> None:
    session = start(MADE).session
    session = say(MADE, session, "Bob gave me your number; mine is 1", reply("who", "Your name?", phone="1")).session
    done = say(MADE, session, "I'm Ada", quoted("sure", quote, name="Ada"), quoted("who", None), spare=True)
    assert (done.session.context.get("name") == "Ada") is kept


def test_a_key_that_was_never_asked_for_may_be_quoted_from_any_message() -> None:
    session = start(MADE).session
    session = say(MADE, session, "Ada here", reply("ask", "Hello! Which number?")).session
    done = say(MADE, session, "1", quoted("sure", "Ada", phone="1", name="Ada"), reply("who", "Your name?"), spare=True)
    assert done.session.context == {"phone": "1", "name": "Ada"}


def test_a_number_may_be_completed_from_the_known_one() -> None:
    session = start(MADE).session
    session = say(MADE, session, "030 555 0199", reply("who", "Your name?", phone="0305550199")).session
    done = say(MADE, session, "it ends in 0188", reply("who", "Your name?", phone="0305550188"))
    assert done.session.context["phone"] == "0305550188"
    refused = say(MADE, session, "it ends in 0188", reply("who", "Your name?", phone="0305550177"))
    assert refused.session.context["phone"] == "0305550199"


def test_the_list_form_has_the_quote_beside_the_value() -> None:
    sent = [{"key": "name", "value": "Ada", "quote": "I'm Ada"}, {"key": "note", "value": "x"}]
    assert updates(sent) == {"name": "Ada", "_quotes": {"name": "I'm Ada"}, "note": "x"}
    schema = reply_schema(targets=["a"], keys=KEYS, reasoning="none", name="m", form="list")
    items = schema.schema["properties"]["context_update"]["items"]["anyOf"]
    with_quote = [item["properties"]["key"]["enum"] for item in items if "quote" in item["required"]]
    assert with_quote == [["name"]]


def test_only_machines_with_such_keys_tell_of_quotes() -> None:
    plain = machine(STATES, context_schema={"properties": {"note": KEYS["note"]}})
    for made, told in ((MADE, True), (plain, False)):
        request = say(made, start(made).session, "hi", reply("ask")).requests[0]
        assert request.schema is not None
        assert ("_quotes" in request.messages[0].content) is told
        assert ("_quotes" in request.schema.text) is told


def test_the_model_without_a_model_gives_its_own_quotes() -> None:
    states = {"ask": {**STATES["who"]}, "sure": {"reply": "{{ name }}: right?", "transitions": [
        {"target_state": "end"}]}, "end": {"reply": "Done."}}  # fmt: skip
    document = {"name": "m", "initial_state": "ask", "context_schema": {"properties": {"name": KEYS["name"]}},
                "states": states}  # fmt: skip
    with Machine.from_dict(document, model="offline", store="memory") as whole:
        chat = whole.start()
        chat.send("Ada")
        assert chat.context == {"name": "Ada"}


def test_why_says_where_the_user_said_it() -> None:
    session = start(MADE).session
    done = say(MADE, session, "it is 1-2", reply("who", "Your name?", phone="12"))
    told = list(lines(explain(MADE, session, done.events)))
    assert '  set by model: phone = "12" (said in message 1, characters 7 to 9)' in told
