"""`x-said`: a value is kept only with proof that the user said it."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.cli.terminal.explain import lines
from llm_fsm.records.explain import explain
from llm_fsm.session import events as ev
from llm_fsm.session.proof import Claim, prove
from llm_fsm.session.quotes import UserWords, find_quote
from llm_fsm.session.reply_schema import asked_form, reply_schema, updates
from llm_fsm.testing import ScriptedLLM, calls
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
def test_a_quote_is_found_without_regard_to_case_spaces_and_punctuation(
    quote: str, place: Any
) -> None:
    assert find_quote(quote, [(1, "I am Bob"), (2, "No, I'm Ada  Lovelace.")]) == place


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Li", "I don't remember my email. I'm Sofia Li"),
        ("Ada", "Canada? No, I'm Ada"),
        ("Bo", "About me: Bo"),
        ("Ann", "Call Dan, no: Ann"),
        ("An", "Man, I am An"),
        ("Øl", "Bøl, Øl"),
    ],
)
def test_a_quote_is_whole_words_before_it_is_letters_of_others(name: str, text: str) -> None:
    words = [(1, text)]
    at = text.rindex(name)
    assert find_quote(name, words) == (1, at, at + len(name))
    claim = Claim(key="v", kind="quote", value=name, quotes=[name])
    assert isinstance(prove(claim, UserWords(messages=words)), tuple)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("030 555", True),
        (30555, True),
        ("03055", False),
        ("550", False),
        ("none", False),
        ("0305557", False),
    ],
)
def test_digits_are_said_in_their_order_in_any_script(value: Any, found: bool) -> None:
    for text in ("030/555, please", "٠٣٠ ٥٥٥"):
        claim = Claim(key="v", kind="digits", value=value)
        assert isinstance(prove(claim, UserWords(messages=[(1, text)])), tuple) is found


def test_an_invented_number_is_not_stored_and_is_asked_for_again() -> None:
    session = start(MADE).session
    done = say(
        MADE,
        session,
        "just call me back please",
        reply("ask", "I will call 5550123.", phone="5550123"),
    )
    assert "phone" not in done.session.context
    assert done.text == "Which number may we call?"
    assert done.usage.calls == 2
    assert "phone: not said" in done.requests[1].messages[-1].content
    [refused, _] = done.of(ev.ContextRefused)
    assert (refused.key, "not said" in refused.reason) == ("phone", True)
    again = say(MADE, done.session, "030 555", reply("who", "Your name?", phone="030555"))
    assert again.session.context == {"phone": "030555"}
    [kept] = again.of(ev.ContextSet)
    assert kept.quotes == {"phone": (2, 0, 7)}


def quoted(target: str, quote: str | None, **update: Any) -> str:
    quotes = {} if quote is None else {"_quotes": {"name": quote}}
    return reply(target, "ok", **update, **quotes)


@pytest.mark.parametrize(
    ("quote", "kept"), [("i'm ada", True), (None, False), ("Bob", False), ("your name", False)]
)
def test_a_quote_counts_since_the_key_was_asked_for(quote: str | None, kept: bool) -> None:
    session = start(MADE).session
    session = say(
        MADE, session, "Bob gave me your number; mine is 1", reply("who", "Your name?", phone="1")
    ).session
    done = say(
        MADE, session, "I'm Ada", quoted("sure", quote, name="Ada"), quoted("who", None), spare=True
    )
    assert (done.session.context.get("name") == "Ada") is kept


def test_a_key_that_was_never_asked_for_may_be_quoted_from_any_message() -> None:
    session = start(MADE).session
    session = say(MADE, session, "Ada here", reply("ask", "Hello! Which number?")).session
    done = say(
        MADE,
        session,
        "1",
        quoted("sure", "Ada", phone="1", name="Ada"),
        reply("who", "Your name?"),
        spare=True,
    )
    assert done.session.context == {"phone": "1", "name": "Ada"}


def test_a_number_may_be_completed_from_the_known_one() -> None:
    session = start(MADE).session
    session = say(
        MADE, session, "030 555 0199", reply("who", "Your name?", phone="0305550199")
    ).session
    done = say(MADE, session, "it ends in 0188", reply("who", "Your name?", phone="0305550188"))
    assert done.session.context["phone"] == "0305550188"
    refused = say(MADE, session, "it ends in 0188", reply("who", "Your name?", phone="0305550177"))
    assert refused.session.context["phone"] == "0305550199"


def test_the_list_form_has_the_quote_beside_the_value() -> None:
    sent = [{"key": "name", "value": "Ada", "quote": "I'm Ada"}, {"key": "note", "value": "x"}]
    assert updates(sent) == {"name": "Ada", "_quotes": {"name": "I'm Ada"}, "note": "x"}
    schema = reply_schema(targets=["a"], keys=KEYS, reasoning="none", name="m", form="list")
    items = schema.schema["properties"]["context_update"]["items"]["anyOf"]
    with_quote = [
        item["properties"]["key"]["enum"] for item in items if "quote" in item["required"]
    ]
    assert with_quote == [["name", "_clear"]]


def test_a_model_that_takes_either_form_is_asked_for_a_list_where_a_value_needs_its_quote() -> None:
    plain = machine(STATES, context_schema={"properties": {"note": KEYS["note"]}})
    forms = [made.question("who", "either", ()).schema for made in (MADE, plain)]
    assert [schema and schema.form for schema in forms] == ["list", "object"]
    assert [asked_form(taken, quotes=True) for taken in ("object", "list")] == ["object", "list"]


def test_only_machines_with_such_keys_tell_of_quotes_for_values() -> None:
    plain = machine(STATES, context_schema={"properties": {"note": KEYS["note"]}})
    for made, told in ((MADE, True), (plain, False)):
        request = say(made, start(made).session, "hi", reply("ask")).requests[0]
        assert request.schema is not None
        assert ('"_quotes": {key: words}' in request.messages[0].content) is told
        update = request.schema.schema["properties"]["context_update"]
        quoted = set(update["properties"]["_quotes"]["properties"])
        assert quoted == ({"name", "_clear"} if told else {"_clear"})


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


# -- the whole value


def is_said(value: Any, message: str, quote: str = "", **schema: Any) -> bool:
    claim = Claim(key="v", kind="quote", value=value, schema=schema, quotes=[quote or message])
    words = UserWords(messages=[(1, message)], today=date(2026, 11, 30))
    return isinstance(prove(claim, words), tuple)


@pytest.mark.parametrize(
    ("value", "message", "schema"),
    [
        ("Ada", "I'm Ada", {}),
        ("Ada", "A. D. A.", {}),
        ("Jürgen", "it is juergen", {}),
        ("Mueller", "Müller", {}),
        ("Hernández", "soy HERNANDEZ", {}),
        ("O'Brien", "obrien", {}),
        ("Işık", "isik", {}),
        ("佐藤花子", "佐藤花子です", {}),
        ("محمد", "اسمي محمد", {}),
        ("٣٠ شارع النيل", "30 شارع النيل", {}),
        ("12 Main Street, Springfield", "12 Main Street in Springfield", {}),
        ("AB-1234", "ab 12 34", {}),
        ("ada@example.org", "ada at example dot org", {"format": "email"}),
        ("2026-12-01", "tomorrow", {"format": "date"}),
        ("2026-12-01", "tomorrow", {}),
        ("express", "the express one", {"enum": ["express", "normal"]}),
        (4, "the four of us", {"type": "integer"}),
    ],
)
def test_a_quote_proves_a_text_in_any_spelling(value: Any, message: str, schema: Any) -> None:
    assert is_said(value, message, **schema)


@pytest.mark.parametrize(
    ("value", "message", "schema"),
    [
        ("Ada", "please", {}),
        ("Ada Lovelace", "I'm Ada", {}),
        ("Lovelace Ada", "Ada Lovelace", {}),
        ("Ann", "Annabel", {}),
        ("12 Main Street, Springfield, IL 62704", "12 Main Street", {}),
        ("Alexanderplatz 1, 10178 Berlin", "I live in Berlin", {}),
        ("AB-1234", "ab 12", {}),
        ("62704", "Springfield", {}),
        ("ada@example.com", "I'm Ada", {"format": "email"}),
        ("eve@example.org", "please", {"format": "email"}),
        ("Ada", "well I would like you to know that it is Ada", {}),
    ],
)
def test_a_quote_proves_no_text_of_which_a_part_is_invented(
    value: Any, message: str, schema: Any
) -> None:
    assert not is_said(value, message, **schema)


def test_a_part_of_a_word_of_the_user_is_no_quote() -> None:
    assert not is_said("Ann", "Annabel here", "Ann")


MESSAGES = (
    "Hello there, could you help me with a table for a friend please",
    "Guten Abend, ich hätte gern Hilfe bei meiner Bestellung bitte",
    "Bonjour, je voudrais de l'aide pour une commande s'il vous plaît",
    "Hola, quisiera ayuda con un pedido por favor",
    "Merhaba, bir sipariş için yardım istiyorum lütfen",
    "こんにちは、注文を手伝ってください",
    "مرحبا أريد المساعدة في طلب من فضلك",
)


def invented(random: Random) -> str:
    parts = [random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(4)]
    name = "".join(parts).title()
    number = random.randint(10, 99_999)
    forms = (name, f"{name}@example.com", f"{name[:3].upper()}-{number}", f"{number} {name} Street")
    return random.choice(forms)


def test_of_500_invented_texts_none_is_proved_by_the_message_or_a_part_of_it() -> None:
    random = Random(51)
    stored: list[Any] = []
    for _ in range(500):
        value, message = invented(random), random.choice(MESSAGES)
        quote = random.choice([message, message[random.randint(0, 20) :], message.split()[0]])
        if is_said(value, message, quote) or is_said(
            f"{message.split()[0]} {value}", message, quote
        ):
            stored.append((value, message, quote))
    assert stored == []


def test_an_invented_word_beside_a_proved_value_is_refused() -> None:
    random = Random(52)
    for message in MESSAGES:
        for word in message.replace(",", "").split():
            other = invented(random)
            assert is_said(word, message, word)
            for value in (f"{word} {other}", f"{other} {word}"):
                assert not is_said(value, message, word)
                assert not is_said(value, message, message)


def test_a_part_that_nobody_said_is_not_kept_aside() -> None:
    card = {"type": "object", "x-said": "quote", "required": ["name", "number"],
            "properties": {"name": {"type": "string"}, "number": {"type": "string"}}}  # fmt: skip
    states = {"ask": {"purpose": "Your card?", "required_context_keys": ["card"], "transitions": [
        {"target_state": "end", "conditions": [{"requires_context_keys": ["card"]}]}]},
        "end": {"reply": "Done."}}  # fmt: skip
    made = machine(states, context_schema={"properties": {"card": card}})
    for name, begun in (("Ada", {"card": {"name": "Ada"}}), ("Eve", {})):
        update = {"card": {"name": name}, "_quotes": {"card": "I'm Ada"}}
        done = say(made, start(made).session, "I'm Ada", reply("ask", "And?", **update), spare=True)
        assert done.session.begun == begun


# -- every door


DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {"properties": KEYS},
    "tools": {
        "call_back": {"registered": "call_back", "output": {"phone": "number", "name": "who"}},
        "look_up": {"registered": "look_up", "output": {"phone": "number"}},
    },
    "states": {
        "ask": {"purpose": "Which number may we call?", "required_context_keys": ["phone"],
                "tools": ["call_back", "look_up"], "transitions": [{"target_state": "end", "description": "Done"}]},
        "end": {"reply": "Done."},
    },
}  # fmt: skip


def call_back(phone: str, caller: str = "") -> dict[str, str]:
    """Note a call."""
    return {"number": phone, "who": caller}


def look_up(customer: str) -> dict[str, str]:
    """Find a number."""
    return {"number": "0301234567"}


def desk(*replies: Any, **start_with: Any) -> Any:
    machine = Machine.from_dict(DESK, model=ScriptedLLM(list(replies)), tools=[call_back, look_up])
    return machine.start(greet=False, **start_with)


STAYS = {"transition": {"target_state": "ask"}, "message": "One moment. Which number?"}


def test_a_tool_is_not_called_with_a_number_that_it_writes_and_nobody_said() -> None:
    chat = desk(calls(("call_back", {"phone": "5550123"})), STAYS)
    turn = chat.send("just call me back please")
    [refused] = [
        event for event in turn.events if isinstance(event, ev.ToolRefused | ev.ToolReturned)
    ]
    assert isinstance(refused, ev.ToolRefused)
    assert "not said" in refused.reason
    assert chat.context == {}


def test_a_result_that_repeats_an_unsaid_argument_is_not_kept_under_another_name() -> None:
    document = {**DESK, "tools": {"note": {"registered": "note", "output": {"phone": "number"}}}}
    document["states"] = {**DESK["states"], "ask": {**DESK["states"]["ask"], "tools": ["note"]}}

    def note(text: str) -> dict[str, str]:
        """Note a number."""
        return {"number": text}

    llm = ScriptedLLM([calls(("note", {"text": "555-0123"})), STAYS])
    chat = Machine.from_dict(document, model=llm, tools=[note]).start(greet=False)
    turn = chat.send("just call me back please")
    [refused] = [event for event in turn.events if isinstance(event, ev.ContextRefused)]
    assert (refused.key, refused.source, refused.told) == ("phone", "tool", True)
    assert "not said" in refused.reason
    assert "not said" in llm.requests[-1].messages[1].content, "the next prompt says why"


def test_what_the_user_said_goes_through_a_tool_with_its_place() -> None:
    chat = desk(calls(("call_back", {"phone": "030 555", "caller": "Ada"})), STAYS)
    turn = chat.send("Ada here, 030/555")
    [kept] = [event for event in turn.events if isinstance(event, ev.ContextSet)]
    assert chat.context == {"phone": "030 555", "name": "Ada"}
    assert kept.quotes == {"phone": (1, 10, 17), "name": (1, 0, 3)}


def test_what_a_tool_found_itself_needs_no_proof() -> None:
    chat = desk(calls(("look_up", {"customer": "17"})), STAYS)
    chat.send("I am customer 17")
    assert chat.context == {"phone": "0301234567"}


@pytest.mark.parametrize(
    ("said", "kept"), [("my number is 030 555", True), ("call me back", False)]
)
def test_a_subflow_takes_only_what_the_user_said(said: str, kept: bool) -> None:
    inner = {"name": "inner", "initial_state": "who", "context_schema": {"properties": {"phone": KEYS["phone"]}},
             "states": {"who": {"purpose": "Which number may we call?", "required_context_keys": ["phone"],
                                "transitions": [{"target_state": "end", "description": "Known"}]},
                        "end": {"purpose": "Thanks"}}}  # fmt: skip
    outer = {"name": "outer", "initial_state": "ask", "context_schema": {"properties": {"contact": {"type": "string"}}},
             "states": {"ask": {"purpose": "What is it?", "transitions": [{"target_state": "call"}]},
                        "call": {"kind": "subflow", "flow": "inner", "input": {"phone": "contact"},
                                 "transitions": [{"target_state": "end"}]},
                        "end": {"reply": "Done."}}}  # fmt: skip
    llm = ScriptedLLM([reply("call", "ok", contact="030555"), {"message": "Which number?"}])
    chat = Machine.from_dict(outer, model=llm, flows={"inner": inner}).start(greet=False)
    turn = chat.send(said)
    kinds = [event for event in turn.events if isinstance(event, ev.ContextRefused)]
    refused = [event.key for event in kinds if "not said" in event.reason]
    assert refused == ([] if kept else ["phone"])


@pytest.mark.parametrize(
    ("quote", "kept"), [("I'm Ada", True), ("Grace", False), ("Ada Lovelace", False)]
)
def test_a_history_that_is_taken_over_has_words_of_the_user_and_no_others(
    quote: str, kept: bool
) -> None:
    history = [("user", "Hello, I'm Ada"), ("assistant", "Hello, Grace speaking, Ada Lovelace?")]
    said = {"transition": {"target_state": "ask", "context_update": {"name": "Ada", "_quotes": {"name": quote}}},
            "message": "Which number may we call?"}  # fmt: skip
    chat = desk(said, STAYS, history=history)
    chat.send("please call me")
    assert chat.context == ({"name": "Ada"} if kept else {})


# -- hostile replies


WORDS = [
    "please",
    "call",
    "back",
    "about",
    "my",
    "order",
    "because",
    "the",
    "parcel",
    "never",
    "came",
    "today",
    "and",
]


def hostile(random: Random, said: list[str], bot: str) -> dict[str, Any]:
    """A reply of a model that invents a name and a number, and whatever could pass for a proof."""
    name = "".join(
        random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(4)
    ).title()
    number = "".join(random.choice("0123456789") for _ in range(random.randint(5, 12)))
    quotes: list[Any] = [
        name, f"I'm {name}", bot, bot[:9], "", " .,;", "x" * 10_001, None, 17, [name], {"name": name}, said[-1] + name,
        f"{name} {said[-1]}", "\u200b", f'"{name}"', "name", "_quotes", said[-1], said[0].split()[0],
    ]  # fmt: skip
    update: dict[str, Any] = {
        "name": name,
        "phone": number,
        "_quotes": {"name": random.choice(quotes)},
    }
    if random.random() < 0.3:
        update["_quotes"]["phone"] = number
    if random.random() < 0.2:
        update["_quotes"] = random.choice(
            [None, [], name, {"Name": name}, {"name.first": said[-1] + "!" + name}]
        )
    words = random.choice([f"I will call {number}.", f"Thank you, {name}.", "And your name?", ""])
    target = random.choice(["ask", "who", "sure"])
    return {"transition": {"target_state": target, "context_update": update}, "message": words}


def test_of_500_hostile_replies_no_invented_value_is_kept_as_said() -> None:
    random = Random(41)
    document = {
        "name": "m",
        "initial_state": "ask",
        "context_schema": {"properties": KEYS},
        "states": STATES,
    }
    box: list[dict[str, Any]] = [{}]
    tried = 0
    with Machine.from_dict(document, model=ScriptedLLM([lambda _: box[0]], loop=True)) as machine:
        for _ in range(125):
            said: list[str] = []
            chat = machine.start(greet=False)
            bot = "Which number may we call?"
            for _ in range(4):
                said.append(" ".join(random.sample(WORDS, random.randint(1, 6))))
                box[0] = hostile(random, said, bot)
                turn = chat.send(said[-1])
                bot = turn.text
                tried += 1
                assert turn.context == {}, (said, turn.events)
                assert all(
                    not event.quotes for event in turn.events if isinstance(event, ev.ContextSet)
                )
                assert turn.state == "ask"
    assert tried == 500
