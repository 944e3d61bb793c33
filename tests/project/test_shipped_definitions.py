"""The shipped definitions, played: every conversation in tests/conversations/shipped, every state,
every transition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from llm_fsm import AsyncMachine, Handler, Occasion, check, create_handler, load
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.translations import texts_of
from llm_fsm.languages import language_of
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing.coverage import Kind
from llm_fsm.testing.scenarios.loader import read_suite
from llm_fsm.testing.scenarios.session import FileResult, PlayOptions, play_file, play_loaded
from paths import TESTS

pytestmark = pytest.mark.anyio

CONVERSATIONS = TESTS / "conversations" / "shipped"
EXPECTED = {
    "appointment",
    "feedback",
    "greeting",
    "interview",
    "membership",
    "order",
    "payment",
    "product_advice",
    "quiz",
    "registration",
    "reservation",
    "returns",
    "support_desk",
    "tickets",
    "troubleshooting",
}
WORKING = {"cleanup", "code_review", "refund", "research"}
"""Those that work without a user; tests/test_examples_work.py plays them."""
WORDED_BY_THE_MODEL = {"greeting"}
"""Their first words need a call: the shortest definition shows on many pages that a model answers.
"""
MULTILINGUAL = ("appointment", "order", "reservation", "returns", "support_desk")
FURTHER = ("de", "tr", "fr", "es")
"""The languages beside English in which each of them speaks."""
PINS = {"R-204518": "4711"}
OFFLINE = {
    "appointment": (
        ["a check-up", "2099-11-24 at 9:30", "Ada Lovelace, 030 555 0188", "yes"],
        "booked",
    ),
    "feedback": (["9", "the cake", "yes", "ada@example.com"], "thanks"),
    "greeting": (["I'm Ada", "to see the house"], "goodbye"),
    "interview": (
        ["I agree", "I am a baker", "daily", "It did not print my label", "speed"],
        "thanks",
    ),
    "order": (["two large diavola", "pickup", "yes"], "placed"),
    "product_advice": (["commuting", "no", "yes please", "Ada, 2099-05-01"], "noted"),
    "quiz": (["yes", "Canberra", "the Volga", "nine", "pass", "count"], "good"),
    "registration": (["Ada Lovelace", "ada@example.com", "no thanks", "yes"], "done"),
    "reservation": (["four", "2099-06-05 at 7 pm", "Ada Lovelace", "yes"], "reserved"),
    "returns": (
        ["R-204518 and 4711", "the lamp", "it is damaged", "a refund", "yes"],
        "registered",
    ),
    "support_desk": (
        ["my order", "AB123456", "It has not arrived", "ada@example.com", "yes"],
        "sent",
    ),
    "membership": (["Ada Lovelace, 36", "3", "card"], "member"),
    "payment": (["card, Ada Lovelace"], "card"),
    "tickets": (["brass", "2, Ada Lovelace", "V-1234", "card"], "booked"),
    "troubleshooting": (["it is slow", "no", "030 555 0188 in the evening"], "arranged"),
}
"""What somebody says who talks to a definition without a model, and where that ends."""
OFFLINE_IN = {
    ("appointment", "de"): [
        "eine Kontrolle",
        "am 24. November 2099 um 9:30 Uhr",
        "Ada Lovelace, 030 555 0188",
        "ja",
    ],
    ("appointment", "tr"): [
        "kontrol",
        "24 Kasım 2099 saat 9:30",
        "Ada Lovelace, 030 555 0188",
        "evet",
    ],
    ("order", "de"): ["zwei Diavola", "groß", "Abholung", "ja"],
    ("order", "tr"): ["iki büyük Diavola", "gel-al", "evet"],
    ("reservation", "de"): ["vier", "am 5. Juni 2099 um 19 Uhr", "Ada Lovelace", "ja"],
    ("reservation", "tr"): ["dört", "5 Haziran 2099 saat 19:00", "Ada Lovelace", "evet"],
    ("returns", "de"): [
        "R-204518 und 4711",
        "die Lampe",
        "sie ist beschädigt",
        "eine Erstattung",
        "ja",
    ],
    ("returns", "tr"): ["R-204518 ve 4711", "lamba", "hasarlı", "para iadesi", "evet"],
    ("support_desk", "de"): [
        "eine Bestellung",
        "AB123456",
        "Sie ist nicht angekommen",
        "ada@example.com",
        "ja",
    ],
    ("support_desk", "tr"): ["sipariş", "AB123456", "Gelmedi", "ada@example.com", "evet"],
}
"""The same in other languages: it ends where the English talk does."""


def check_pin(occasion: Occasion) -> dict[str, Any]:
    """The host's part of returns.json: compare the PIN, then forget it."""
    order = occasion.context["order_number"]
    if PINS.get(order) == occasion.context["pin"]:
        return {"verified_order": order, "pin": None}
    return {"attempts": occasion.context.get("attempts", 0) + 1, "pin": None}


def handlers_of(definition: str) -> list[Handler]:
    if definition == "returns":
        return [create_handler("check PIN").on_state_entry("check").as_critical().do(check_pin)]
    return []


def covered(name: str) -> FileResult:
    """The conversations of a definition, played."""
    return play_file(CONVERSATIONS / f"{name}.test.json", PlayOptions(cover=True))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_conversations_go_as_their_file_says_and_touch_every_state_and_transition(
    name: str,
) -> None:
    done = covered(name)
    assert [failure for result in done.results for failure in result.failures] == []
    assert len(done.results) >= 2
    assert done.covered is not None
    kinds: tuple[Kind, ...] = ("states", "transitions", "keys")
    missing = [
        place for kind in kinds for place in done.covered.coverage.missing(kind) if "#" not in place
    ]
    assert missing == []


def words_of(texts: Iterable[str]) -> set[str]:
    """The words of texts outside templates, with three letters or more."""
    found: set[str] = set()
    for text in texts:
        plain = re.sub(r"{[{%].*?[%}]}", " ", text)
        found.update(re.findall(r"[^\W\d_]{3,}", plain.casefold()))
    return found


@pytest.mark.parametrize("tag", FURTHER)
@pytest.mark.parametrize("name", MULTILINGUAL)
def test_a_conversation_in_another_language_has_no_english_word(name: str, tag: str) -> None:
    definition = load(definition_paths()[name])
    suite = read_suite(CONVERSATIONS / f"{name}.test.json")
    plays = [one.name for one in suite.plays if one.case.context.get("language") == tag]
    [result] = play_loaded(suite, names=plays).results
    assert (result.passed, result.turns[-1].ended) == (True, True)
    english = [*texts_of(definition.document).values(), *language_of("en").sentences.values()]
    own = [*definition.texts[tag].values(), *language_of(tag).sentences.values()]
    heard = [step.heard for step in result.said if step.heard is not None]
    foreign = words_of(english) - words_of([*own, *heard])
    said = [step.text for step in result.said]
    said += [choice.label for turn in result.turns for choice in turn.choices]
    assert [text for text in said if words_of([text]) & foreign] == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
async def test_a_shipped_definition_can_be_talked_to_without_a_model(name: str) -> None:
    said, ends_in = OFFLINE[name]
    machine = AsyncMachine.from_file(
        definition_paths()[name], model="offline", handlers=handlers_of(name), store="memory"
    )
    chat = await machine.start()
    assert [turn.text for turn in [await chat.send(text) for text in said] if not turn.text] == []
    assert (chat.state, chat.ended) == (ends_in, True)


@pytest.mark.parametrize(("name", "tag"), sorted(OFFLINE_IN))
async def test_german_and_turkish_are_understood_without_a_model(name: str, tag: str) -> None:
    machine = AsyncMachine.from_file(
        definition_paths()[name], model="offline", handlers=handlers_of(name), store="memory"
    )
    chat = await machine.start(language=tag)
    texts = [(await chat.send(text)).text for text in OFFLINE_IN[name, tag]]
    assert (chat.state, chat.ended) == (OFFLINE[name][1], True), texts


@pytest.mark.parametrize("name", sorted(EXPECTED - WORDED_BY_THE_MODEL))
async def test_the_first_words_of_a_shipped_definition_need_no_call(name: str) -> None:
    model = ScriptedLLM(["A call that nobody needs."])
    machine = AsyncMachine.from_file(
        definition_paths()[name], model=model, handlers=handlers_of(name), store="memory"
    )
    chat = await machine.start()
    assert chat.greeting
    assert model.requests == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
async def test_a_shipped_definition_can_be_left_by_stop_at_any_time(name: str) -> None:
    said, _ = OFFLINE[name]
    for number in range(len(said)):
        machine = AsyncMachine.from_file(
            definition_paths()[name], model="offline", handlers=handlers_of(name), store="memory"
        )
        chat = await machine.start()
        for text in said[:number]:
            await chat.send(text)
        turn = await chat.send("stop")
        if not turn.ended:  # something is known, so the machine asks first
            assert turn.text == "Shall I stop? Nothing of this will be kept.", chat.state
            turn = await chat.send("yes")
        assert turn.ended, chat.state


def test_the_shipped_definitions_are_the_known_ones() -> None:
    assert set(definition_paths()) == EXPECTED | WORKING


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_nothing_is_to_be_said_against_a_shipped_definition(name: str) -> None:
    assert check(definition_paths()[name]) == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_shipped_definition_is_named_like_its_file_and_describes_itself(name: str) -> None:
    definition = load(definition_paths()[name])
    assert definition.name == name
    assert definition.description
    assert definition.version


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_path_of_a_shipped_definition_can_end(name: str) -> None:
    definition = load(definition_paths()[name])
    shared = {move.target_state for move in definition.global_transitions}
    following = {
        state_id: {move.target_state for move in state.transitions}
        | ({state.on_timeout} - {None})
        | (shared if definition.kind_of(state_id) == "converse" else set())
        | ({"cancelled"} & set(definition.states) if "cancel" in definition.patterns else set())
        for state_id, state in definition.states.items()
    }
    reached: set[str] = set()
    waiting = {definition.initial_state}
    while waiting:
        state_id = waiting.pop()
        reached.add(state_id)
        waiting |= following[state_id] - reached
    assert reached == set(definition.states)
    ending = {state_id for state_id in following if definition.kind_of(state_id) == "final"}
    while (
        more := {state_id for state_id, targets in following.items() if targets & ending} - ending
    ):
        ending |= more
    assert ending == set(definition.states)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_state_that_talks_has_words_fit_to_be_read_without_a_model(name: str) -> None:
    definition = load(definition_paths()[name])
    for state_id, state in definition.states.items():
        if state.kind != "decide":
            assert state.purpose[-1] in "?.!", state_id


WAITING = [
    (name, state)
    for name in sorted(EXPECTED)
    for definition in [load(definition_paths()[name])]
    for state in definition.states
    if definition.kind_of(state) == "converse"
]


@pytest.mark.parametrize(("name", "state"), WAITING)
async def test_every_state_that_talks_can_be_left_by_stop(name: str, state: str) -> None:
    known = {"consent": True} if name == "interview" and state not in ("consent", "about") else {}
    async with AsyncMachine.from_file(
        definition_paths()[name], model="offline", store="memory"
    ) as machine:
        chat = await machine.start(known, state=state)
        turn = await chat.send("stop")
        assert turn.ended, turn.text
        assert turn.text
