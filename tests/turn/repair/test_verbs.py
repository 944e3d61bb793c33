"""Repair patterns: what each does when a model names it, and what happens without a model naming
it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm._text import estimate
from llm_fsm.definition.names import PATTERNS
from llm_fsm.engine.turn_runner import due_rows
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session, dump_session, parse_session
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import HandlerResult, Point, RunHandlers
from llm_fsm.turn.repair.verbs import _VERBS
from machines import Played, machine, nested, play, reply, say, start, talk
from paths import ROOT

ALL = list(PATTERNS)

TAKEN = {"_clear": "forget that"}
"""The words that take a value back."""


def test_every_end_of_a_pattern_names_a_verb_and_every_verb_is_named() -> None:
    pieces = [json.loads(file.read_text("utf-8")) for file in (ROOT / "patterns").glob("*.json")]
    spoken = [piece["states"] for piece in pieces if piece["name"] != "silence"]
    ends = [state for states in spoken for state in states.values() if state["kind"] == "final"]
    assert {state.get("outcome") for state in ends} == set(_VERBS)


def needs(*keys: str) -> list[dict[str, Any]]:
    return [{"requires_context_keys": list(keys)}]


STATES: dict[str, Any] = {
    "name": {
        "purpose": "Ask for the name",
        "required_context_keys": ["name"],
        "transitions": [{"target_state": "mail", "conditions": needs("name")}],
    },
    "mail": {
        "purpose": "Ask for the address",
        "required_context_keys": ["mail"],
        "transitions": [
            {"target_state": "check", "conditions": needs("mail")},
            {"target_state": "phone", "description": "There is no address"},
        ],
    },
    "phone": {
        "reply": "Which number?",
        "required_context_keys": ["phone"],
        "transitions": [{"target_state": "check"}],
    },
    "check": {"purpose": "Ask whether all is right", "transitions": [{"target_state": "done"}]},
    "done": {"purpose": "Say goodbye"},
}
SCHEMA = {
    "properties": {
        "name": {"type": "string"},
        "mail": {"type": "string", "pattern": "@"},
        "phone": {"type": "string", "title": "telephone number", "maxLength": 5},
        "tier": {"type": "string", "x-source": "host"},
    }
}
FORM = machine(STATES, context_schema=SCHEMA, patterns=ALL)


def at(state: str, program: CompiledMachine = FORM, **context: Any) -> Session:
    """A conversation in a state in which this was said last: "Welcome." and "What now?"."""
    begun = start(program, state=state, context=context).session
    return say(program, begun, "hello", reply(state, "Welcome.", "What now?")).session


# -- ends


def test_cancel_says_goodbye_and_ends_the_conversation() -> None:
    done = say(FORM, at("mail"), "stop it", reply("cancel", "I stopped. Bye."))
    assert (done.session.ended, done.session.outcome, done.text) == (
        True,
        "cancelled",
        "I stopped. Bye.",
    )
    assert (done.session.state, done.usage.calls) == ("mail", 1)
    assert (
        say(FORM, at("mail"), "stop", reply("cancel", "")).text == "All right, I have stopped here."
    )


def test_cancel_goes_to_a_state_cancelled_where_there_is_one() -> None:
    program = machine(
        {**STATES, "cancelled": {"reply": "Nothing was ordered."}}, patterns=["cancel"]
    )
    done = say(program, at("mail", program), "stop", reply("cancel", "As you wish."))
    assert (done.session.state, done.session.outcome) == ("cancelled", "cancelled")
    assert done.text == "As you wish.\n\nNothing was ordered."


def test_cancel_in_a_digression_ends_the_digression() -> None:
    states = {**STATES, "help": {"purpose": "Help", "transitions": [{"target_state": "done"}]}}
    program = machine(
        states, patterns=["cancel"], global_transitions=[{"target_state": "help", "return": True}]
    )
    begun = say(program, at("mail", program), "?", reply("help", "What about?")).session
    done = say(program, begun, "forget it", reply("cancel", "Fine."))
    assert (done.session.state, done.session.ended, done.text) == (
        "mail",
        False,
        "Fine.\n\nWhat now?",
    )


SUB: dict[str, Any] = {
    "name": "sub",
    "initial_state": "ask",
    "states": {"ask": {"reply": "Which day?", "required_context_keys": ["day"],
                       "transitions": [{"target_state": "ok"}]},
               "ok": {"reply": "Noted."}},
}  # fmt: skip


def booking(*transitions: dict[str, Any], **keys: Any) -> CompiledMachine:
    document = {
        "name": "booking",
        "initial_state": "menu",
        "states": {
            "menu": {"reply": "What can I do?", "transitions": [{"target_state": "book"}]},
            "book": {
                "kind": "subflow",
                "flow": "sub",
                "output": {"day": "day"},
                "transitions": list(transitions),
            },
            "booked": {"reply": "Booked."},
            "go": {"kind": "decide", "transitions": [{"target_state": "charge"}]},
            "charge": {
                "kind": "task",
                "purpose": "Charge",
                "transitions": [{"target_state": "booked"}],
            },
            "sorry": {
                "reply": "No booking then. What else?",
                "transitions": [{"target_state": "booked"}],
            },
        },
        "patterns": ALL,
        **keys,
    }
    return nested(document, sub=SUB)


@pytest.mark.parametrize(
    ("transitions", "state", "text"),
    [
        (
            [{"target_state": "booked", "on": "ok"}, {"target_state": "sorry", "on": "cancelled"}],
            "sorry",
            "No booking",
        ),
        (
            [{"target_state": "booked", "on": "ok"}, {"target_state": "sorry", "on": "default"}],
            "sorry",
            "No booking",
        ),
        (
            [{"target_state": "booked", "conditions": needs("day")}, {"target_state": "sorry"}],
            "sorry",
            "No booking",
        ),
        ([{"target_state": "booked", "conditions": needs("day")}], "menu", "What can I do?"),
        ([{"target_state": "booked", "conditions": needs("_turn")}], "menu", "What can I do?"),
        (
            [{"target_state": "booked", "on": "ok"}, {"target_state": "go"}],
            "menu",
            "What can I do?",
        ),
        ([{"target_state": "booked"}], "menu", "What can I do?"),
    ],
)
def test_cancel_in_a_subflow_comes_back_without_what_was_collected(
    transitions: list[dict[str, Any]], state: str, text: str
) -> None:
    program = booking(*transitions)
    begun = say(program, start(program).session, "book", reply("book", "Sure.")).session
    half = say(program, begun, "Monday", reply("ask", "Monday?", day="Monday")).session
    asked = say(program, half, "cancel", reply("cancel", "Cancelled.")).session
    done = say(program, asked, "Yes, cancel", reply("cancel", "Cancelled."))
    assert (done.session.flow, done.session.state, done.session.ended) == ("", state, False)
    assert "day" not in done.session.context
    assert done.text.startswith(f"Cancelled.\n\n{text}")


def test_cancel_ends_all_where_nothing_is_left_to_go_back_to() -> None:
    document = {
        "name": "only",
        "initial_state": "book",
        "states": {"book": {"kind": "subflow", "flow": "sub", "transitions": []}},
        "patterns": ["cancel"],
    }
    program = nested(document, sub=SUB)
    done = say(program, start(program).session, "stop", reply("cancel", "Bye."))
    assert (done.session.outcome, done.text) == ("cancelled", "Bye.")


def test_handover_ends_with_an_outcome_that_a_host_can_see() -> None:
    done = say(FORM, at("mail"), "a person!", reply("handover", ""))
    assert (done.session.outcome, done.text) == ("handover", "I am handing you over to a person.")


def test_restart_goes_back_to_the_beginning_and_keeps_what_the_host_gave() -> None:
    begun = at("name", tier="gold")
    half = say(
        FORM, begun, "Ada", reply("mail", "Your address?", name="Ada", _extra={"x": 1})
    ).session
    done = say(FORM, half, "again", reply("restart", "From the start:", "your name?"))
    assert (done.session.state, done.session.context, done.session.ended) == (
        "name",
        {"tier": "gold"},
        False,
    )
    assert (done.text, done.usage.calls) == ("From the start:\n\nyour name?", 1)
    assert done.session.window == (("again", "From the start:\n\nyour name?"),)
    silent = say(FORM, half, "again", reply("restart", ""))
    assert silent.text == "All right, from the beginning.\n\nStill needed: name."


def test_what_is_said_with_a_restart_is_kept() -> None:
    half = at("mail")
    done = say(FORM, half, "again, and I am Bob", reply("restart", "From the start.", name="Bob"))
    assert done.session.context == {"name": "Bob"}


def test_restart_in_a_subflow_begins_the_whole_again() -> None:
    program = booking({"target_state": "booked"})
    begun = say(
        program, start(program, context={"tier": "gold"}).session, "book", reply("book", "Sure.")
    ).session
    done = say(program, begun, "from the start", reply("restart", "Again."))
    assert (done.session.flow, done.session.state, done.session.stack) == ("", "menu", ())
    assert (done.session.context, done.text) == ({"tier": "gold"}, "Again.\n\nWhat can I do?")


# -- what stays where it is


def test_repeat_says_the_last_words_again_and_changes_nothing() -> None:
    before = at("mail")
    done = say(FORM, before, "what?", reply("repeat", "I said:"))
    assert done.text == "Welcome.\n\nWhat now?"
    assert (done.session.state, done.session.context) == (before.state, before.context)
    assert say(FORM, done.session, "what?", reply("repeat", "")).text == "Welcome.\n\nWhat now?"
    fixed = say(FORM, start(FORM, state="phone").session, "what?", reply("repeat", ""))
    assert fixed.text == "Which number?"


def test_clarify_explains_and_stays() -> None:
    done = say(FORM, at("mail"), "which address?", reply("clarify", "Where mail reaches you."))
    explained = "Where mail reaches you.\n\nWhat now?"
    assert (done.session.state, done.text, done.usage.calls) == ("mail", explained, 1)
    fixed = say(FORM, at("phone"), "which?", reply("clarify", "Any will do."))
    assert fixed.text == "Any will do.\n\nWhich number?"
    assert say(FORM, at("phone"), "which?", reply("clarify", "")).text == "Which number?"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("It is sunny.", "It is sunny.\n\nWhat now?"),
        ("It is sunny. And your address?", "It is sunny. And your address?"),
        ("", "Let us go on.\n\nWhat now?"),
    ],
)
def test_a_digression_is_answered_and_the_open_question_asked_again(
    message: str, text: str
) -> None:
    done = say(FORM, at("mail"), "how is the weather?", reply("digress", message))
    assert (done.session.state, done.text, done.usage.calls) == ("mail", text, 1)
    assert say(FORM, at("phone"), "?", reply("digress", "Sunny.")).text == "Sunny.\n\nWhich number?"


def test_values_that_come_with_a_pattern_are_kept() -> None:
    done = say(FORM, at("name"), "Ada. Nice weather!", reply("digress", "It is.", name="Ada"))
    assert done.session.context == {"name": "Ada"}


# -- skip


def test_skip_goes_the_one_way_that_is_open_without_the_answer() -> None:
    done = say(FORM, at("mail"), "I would rather not", reply("skip", "Then your telephone."))
    assert (done.session.state, done.text) == ("phone", "Then your telephone.\n\nWhich number?")
    assert done.of(ev.KeysSkipped) == [ev.KeysSkipped(keys=("mail",))]
    assert done.of(ev.StateEntered)[0].by == "skip"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("No matter.", "No matter.\n\nWhat is your number?"),
        ("No matter. And your number?", "No matter. And your number?"),
        ("", "All right, we leave that out.\n\nWhat is your number?"),
    ],
)
def test_who_skips_a_question_is_asked_the_next_one(message: str, text: str) -> None:
    states = {
        **STATES,
        "phone": {**STATES["phone"], "reply": None, "purpose": "What is your number?"},
    }
    program = machine(states, context_schema=SCHEMA, patterns=ALL)
    done = say(program, at("mail", program), "skip", reply("skip", message))
    assert (done.session.state, done.text, done.usage.calls) == ("phone", text, 1)


def test_a_question_without_a_question_mark_is_asked_once_after_a_skip_without_words() -> None:
    states = {
        "borda": {
            "purpose": "Borda?",
            "required_context_keys": ["borda"],
            "transitions": [{"target_state": "suco"}],
        },
        "suco": {
            "purpose": "Oferecer suco de maçã",
            "required_context_keys": ["suco"],
            "transitions": [{"target_state": "z"}],
        },
        "z": {},
    }
    program = machine(states, language="sv", patterns=["skip"])
    done = say(program, at("borda", program), "não", reply("skip", ""))
    assert (done.session.state, done.text) == ("suco", "Oferecer suco de maçã.")


def test_what_was_skipped_is_not_asked_for_again_until_it_comes_by_itself() -> None:
    states = {
        "a": {"purpose": "Ask", "required_context_keys": ["x", "y"],
              "transitions": [{"target_state": "b"}, {"target_state": "c"}]},
        "b": {"purpose": "B", "required_context_keys": ["x"], "transitions": [{"target_state": "a"}]},
        "c": {"purpose": "C", "transitions": [{"target_state": "a"}]},
    }  # fmt: skip
    program = machine(states, patterns=["skip"])
    done = say(program, at("a", program), "no", reply("skip", "Fine."))
    assert (done.session.state, done.session.skipped) == ("a", ("x", "y"))
    assert done.text == "Fine.\n\nPlease go on."
    later = say(program, done.session, "b", reply("b", "B?"))
    assert "information_to_collect" not in say(program, later.session, "x", reply("b", "?")).prompt
    given = say(program, later.session, "x is 3", reply("b", "?", x=3))
    assert given.session.skipped == ("y",)


def test_what_everything_needs_cannot_be_skipped_and_no_words_say_otherwise() -> None:
    done = say(FORM, at("name"), "no", reply("skip", "We leave your name out!"))
    assert (done.session.state, done.session.skipped) == ("name", ())
    assert done.text == "I am sorry, I cannot go on without that.\n\nWhat now?"


def test_what_a_digression_needs_is_left_out_by_leaving_the_digression() -> None:
    states = {**STATES, "help": {"purpose": "Which city?", "required_context_keys": ["city"],
              "transitions": [{"target_state": "done", "conditions": needs("city")}]}}  # fmt: skip
    aside = [{"target_state": "help", "return": True}]
    program = machine(states, patterns=["skip"], global_transitions=aside)
    begun = say(program, at("mail", program), "stores?", reply("help", "Which city?")).session
    done = say(program, begun, "I won't say", reply("skip", "Never mind."))
    assert (done.session.state, done.session.stack) == ("mail", ())
    assert done.text == "Never mind.\n\nWhat now?"


def test_leaving_out_is_not_saying_what_a_transition_waits_for() -> None:
    states = {
        "ask": {"purpose": "Shall I book it?", "transitions": [
            {"target_state": "done", "description": "The user says yes"},
            {"target_state": "ask_all", "description": "The user wants a change"}]},
        "ask_all": {"purpose": "What to change?", "transitions": [{"target_state": "ask"}]},
        "done": {"reply": "Booked."},
    }  # fmt: skip
    program = machine(states, patterns=["skip"])
    done = say(program, at("ask", program), "skip", reply("skip", "Booked!"))
    assert (done.session.state, done.text) == (
        "ask",
        "I am sorry, I cannot go on without that.\n\nShall I book it?",
    )
    done = say(program, at("ask_all", program), "skip", reply("skip", "Booked!"))
    assert (done.session.state, done.text) == (
        "ask_all",
        "I am sorry, I cannot go on without that.\n\nWhat to change?",
    )


def test_leaving_an_answer_out_does_not_end_a_conversation_that_has_another_way() -> None:
    states = {**STATES, "name": {**STATES["name"], "transitions": [*STATES["name"]["transitions"],
              {"target_state": "done", "description": "The user wants to leave"}]}}  # fmt: skip
    program = machine(states, patterns=["skip"])
    assert say(program, at("name", program), "no", reply("skip", "ok")).session.state == "name"


def test_who_leaves_an_answer_out_goes_on_and_not_back() -> None:
    states = {
        "what": {"purpose": "What?", "transitions": [{"target_state": "note"}]},
        "note": {"purpose": "Note?", "required_context_keys": ["note"],
                 "transitions": [{"target_state": "sure"}, {"target_state": "what"}]},
        "sure": {"purpose": "Sure?", "transitions": [{"target_state": "done"}]},
        "done": {"purpose": "Goodbye"},
    }  # fmt: skip
    program = machine(states, patterns=["correct", "skip"])
    begun = talk(program, "a cake", reply("note", "What shall stand on it?"))
    done = say(program, begun.session, "nothing", reply("skip", "As you like.", "Shall we begin?"))
    assert (done.session.state, done.session.skipped) == ("sure", ("note",))


FREE: dict[str, Any] = {"kind": "decide", "transitions": [{"target_state": "done"}]}


@pytest.mark.parametrize(
    ("way", "states"),
    [
        ({"target_state": "done"}, {}),
        ({"target_state": "on"}, {"on": FREE}),
        ({"target_state": "on"}, {"on": {"purpose": "Wait", "transitions": [{"target_state": "done", "auto": True}]}}),
        ({"target_state": "on"}, {"on": {"kind": "task", "transitions": [{"target_state": "done"}]}}),
        ({"target_state": "on", "conditions": [{"logic": {"!=": [{"var": "sure"}, False]}}]},
         {"on": {"purpose": "Anything else?", "transitions": [{"target_state": "done"}]}}),
    ],
)  # fmt: skip
def test_an_answer_left_out_is_no_yes(way: dict[str, Any], states: dict[str, Any]) -> None:
    ask = {
        "purpose": "Shall I save it, and with which note?",
        "required_context_keys": ["note"],
        "transitions": [way],
    }
    keys = {"note": {"type": "string"}, "sure": {"type": "boolean"}}
    program = machine({"ask": ask, **states, "done": {"reply": "Saved."}}, context_schema={"properties": keys},
                      patterns=["skip"])  # fmt: skip
    done = say(
        program,
        start(program, state="ask").session,
        "I'd rather not",
        reply("skip", "It is saved!"),
    )
    assert (done.session.state, done.session.skipped) == ("ask", ())
    assert (
        done.text
        == "I am sorry, I cannot go on without that.\n\nShall I save it, and with which note?"
    )


# -- not understood


def test_misses_in_a_row_rephrase_then_offer_then_hand_over() -> None:
    session = at("mail")
    texts = []
    for _ in range(3):
        done = say(FORM, session, "xyzzy", "nonsense", "nonsense")
        session = done.session
        texts.append(done.text)
    assert texts[0] == "Sorry, I did not get that.\n\nWhat now?"
    assert texts[1].startswith(
        "Sorry, I still do not understand. This is possible here: There is no address."
    )
    assert texts[2] == "I am handing you over to a person."
    assert (session.ended, session.outcome) == (True, "handover")


def test_without_handover_the_third_miss_is_an_apology() -> None:
    program = machine(STATES, patterns=["cannot_handle"])
    session = at("mail", program)
    for _ in range(3):
        done = say(
            program,
            session,
            "xyzzy",
            reply("cannot_handle", "I cannot do that.", "What is your address?"),
        )
        session = done.session
    assert (session.outcome, done.text) == ("given_up", "I am sorry, I cannot help you with this.")


@pytest.mark.parametrize(
    ("state", "words", "text"),
    [
        (
            {"reply": "May I book it?"},
            "I am not sure what you mean.",
            "I am not sure what you mean.\n\nMay I book it?",
        ),
        ({"purpose": "May I book it?"}, "I am not sure.", "I am not sure.\n\nMay I book it?"),
        (
            {"purpose": "May I book it?"},
            "Shall I book it, yes or no?",
            "Shall I book it, yes or no?",
        ),
        ({"reply": "May I book it?"}, "", "Sorry, I did not get that.\n\nMay I book it?"),
    ],
)
def test_a_first_miss_asks_again_where_its_words_do_not(
    state: dict[str, str], words: str, text: str
) -> None:
    states = {"ask": {**state, "transitions": [{"target_state": "end"}]}, "end": {}}
    program = machine(states, patterns=["cannot_handle"])
    assert talk(program, "asdf", reply("cannot_handle", words)).text == text


@pytest.mark.parametrize(
    ("own", "told"), [({}, "the user wants a person"), ({"description": "Is angry"}, "Is angry")]
)
def test_an_own_state_of_a_pattern_is_offered_by_when_to_enter_it(
    own: dict[str, str], told: str
) -> None:
    states = {
        "ask": {"transitions": [{"target_state": "handover"}]},
        "handover": {"purpose": "A colleague.", **own},
    }
    states["start"] = {"purpose": "How are you?", "transitions": [{"target_state": "ask"}]}
    prompt = talk(machine(states, "start", patterns=["handover"]), "m", reply("start")).prompt
    assert f"handover: {told}. " in prompt


@pytest.mark.parametrize("depth", [1, 2])
def test_an_own_state_for_a_person_ends_the_conversation_out_of_digressions_too(depth: int) -> None:
    states = {
        "ask": {"purpose": "Which size?", "transitions": [{"target_state": "end"}]},
        **{
            name: {"purpose": f"Ask {name}", "transitions": [{"target_state": "end"}]}
            for name in ("bill", "spa")
        },
        "handover": {"purpose": "A colleague calls you."},
        "end": {},
    }
    asides = [{"target_state": name, "return": True} for name in ("bill", "spa")]
    made = machine(states, patterns=["handover"], global_transitions=asides)
    done = talk(made, "m", reply("ask", "Which size?"))
    for name in ("bill", "spa")[:depth]:
        done = say(made, done.session, "m", reply(name, "Well?"))
    done = say(made, done.session, "a person!", reply("handover", "A colleague calls you."))
    assert "handover: the user wants a person. " in done.prompt
    assert (done.session.state, done.session.outcome, done.session.stack) == (
        "handover",
        "handover",
        (),
    )
    assert (done.text, done.usage.calls) == ("A colleague calls you.", 1)


def test_a_second_miss_asks_once() -> None:
    session = say(FORM, at("mail"), "xyzzy", reply("cannot_handle", "")).session
    done = say(FORM, session, "xyzzy", reply("cannot_handle", "Pardon, which address?"))
    assert done.text == "Pardon, which address?\n\nThis is possible here: There is no address."


def test_what_is_understood_in_between_begins_the_count_again() -> None:
    session = at("mail")
    for _ in range(3):
        session = say(FORM, session, "xyzzy", reply("cannot_handle", "Pardon?")).session
        session = say(FORM, session, "ok", reply("mail", "Your address?")).session
    assert not session.ended
    first = say(FORM, session, "xyzzy", reply("cannot_handle", "Pardon?"))
    assert first.text == "Pardon?"
    assert first.of(ev.Missed) == [ev.Missed(count=1)]


# -- silence


def due(program: CompiledMachine, session: Session, time: float) -> Played:
    from llm_fsm.turn.pipeline import Due
    from llm_fsm.turn.steps import begin

    return play(begin(program, session, Due(time=time)), ())


def test_silence_reminds_and_closes_at_last() -> None:
    session = at("mail")
    now = session.time
    assert due_rows(session) == (
        (now + 1800, "expire"),
        (now + 300, "remind"),
        (now + 900, "remind"),
    )
    first = due(FORM, session, now + 301)
    assert first.text == "Are you still there?\n\nWhat now?"
    assert due_rows(first.session) == ((now + 1800, "expire"), (now + 900, "remind"))
    last = due(FORM, first.session, now + 2000)
    assert (last.session.ended, last.session.outcome) == (True, "silent")
    assert last.text == "I have not heard from you, so I close our conversation."


def test_a_reply_cannot_name_the_silence() -> None:
    played = say(FORM, at("mail"), "eh", reply("silence", "Hush."), reply("mail", "Your address?"))
    assert [(event.target, event.by) for event in played.of(ev.MoveRefused)] == [
        ("silence", "unknown")
    ]
    assert played.text == "Your address?"


def test_a_message_ends_the_silence() -> None:
    session = due(FORM, at("mail"), 4000).session
    again = say(FORM, session, "here I am", reply("mail", "Good.", "Your address?")).session
    assert due_rows(again)[0][0] == again.time + 1800
    assert due_rows(say(FORM, again, "stop", reply("cancel", "Bye")).session) == ()


def test_a_state_of_the_definition_says_when_to_remind() -> None:
    states = {
        **STATES,
        "silence": {
            "kind": "wait",
            "reply": "Hello?",
            "remind": [5],
            "timeout": 9,
            "on_timeout": "gone",
        },
        "gone": {"reply": "Bye then."},
    }
    program = machine(states, patterns=["silence"])
    session = at("mail", program)
    assert [at - session.time for at, _ in due_rows(session)] == [9, 5]
    assert due(program, session, session.time + 6).text == "Hello?"
    closed = due(program, session, session.time + 10)
    assert (closed.text, closed.session.outcome) == ("Bye then.", "silent")


def test_silence_goes_on_in_a_state_that_does_not_end() -> None:
    states = {
        **STATES,
        "silence": {"kind": "wait", "timeout": 9, "on_timeout": "offer"},
        "offer": {"reply": "Would you like a list?", "transitions": [{"target_state": "mail"}]},
    }
    program = machine(states, patterns=["silence"])
    session = at("mail", program)
    there = due(program, session, session.time + 10)
    assert (there.text, there.session.state, there.session.ended) == (
        "Would you like a list?",
        "offer",
        False,
    )
    assert due_rows(there.session) == ((session.time + 19, "expire"),)


# -- corrections

TRIP: dict[str, Any] = {
    "kind": {
        "purpose": "Ask whether private or business",
        "required_context_keys": ["kind"],
        "transitions": [{"target_state": "route", "conditions": needs("kind")}],
    },
    "route": {
        "kind": "decide",
        "transitions": [
            {"target_state": "firm", "conditions": [{"logic": {"==": [{"var": "kind"}, "business"]}}]},
            {"target_state": "birth"},
        ],
    },
    "firm": {"purpose": "Ask for the firm", "required_context_keys": ["firm"],
             "transitions": [{"target_state": "city", "conditions": needs("firm")}]},
    "birth": {"reply": "When were you born?", "required_context_keys": ["born"],
              "transitions": [{"target_state": "city", "conditions": needs("born")}]},
    "city": {"purpose": "Ask for the city", "required_context_keys": ["city"],
             "transitions": [{"target_state": "sure", "conditions": needs("city")}]},
    "sure": {"purpose": "Ask whether all is right", "transitions": [{"target_state": "end"}, {"target_state": "kind"}]},
    "end": {"purpose": "Say goodbye"},
}  # fmt: skip
TRAVEL = machine(TRIP, patterns=ALL)


def travelled(program: CompiledMachine = TRAVEL) -> Session:
    done = talk(program, "business", reply("route", "Which firm?", kind="business"))
    done = say(program, done.session, "Acme", reply("city", "Which city?", firm="Acme"))
    return say(
        program, done.session, "Rome", reply("sure", "Business, Acme, Rome?", city="Rome")
    ).session


@pytest.mark.parametrize("target", ["correct", "sure", "end"])
def test_a_correction_goes_back_to_where_the_way_is_decided_again(target: str) -> None:
    done = say(TRAVEL, travelled(), "no, private", reply(target, "Private, then.", kind="private"))
    assert done.session.state == "birth"
    assert done.session.context == {"kind": "private", "city": "Rome"}
    [found] = done.of(ev.Corrected)
    assert (found.keys, found.back_to, found.dropped) == (("kind",), "route", ("firm",))
    assert found.named is (target == "correct")
    assert done.text.endswith("When were you born?")
    assert ("Private, then." in done.text) is (target != "end")
    assert done.usage.calls == 1


@pytest.mark.parametrize(
    ("target", "message", "text"),
    [
        ("correct", "Private, then.", "Private, then.\n\nWhen were you born?"),
        ("sure", "Private, then.", "Private, then.\n\nWhen were you born?"),
        ("correct", "", "When were you born?"),
    ],
)
def test_where_a_correction_leads_elsewhere_the_question_before_is_not_asked_again(
    target: str, message: str, text: str
) -> None:
    answer = reply(target, message, "Private, Acme, Rome?", kind="private")
    assert say(TRAVEL, travelled(), "no, private", answer).text == text


def test_where_a_correction_leads_to_a_state_without_fixed_words_its_question_is_asked() -> None:
    states = {**TRIP, "birth": {**TRIP["birth"], "reply": None, "purpose": "When were you born?"}}
    program = machine(states, patterns=ALL)
    begun = travelled(program)
    done = say(
        program,
        begun,
        "no, private",
        reply("correct", "Private.", "Business, Acme, Rome?", kind="private"),
    )
    assert done.text == "Private.\n\nWhen were you born?"


SMOKING: dict[str, Any] = {
    "smoker": {
        "purpose": "Do you smoke?",
        "required_context_keys": ["smoker"],
        "transitions": [
            {"target_state": "number", "conditions": [{"logic": {"==": [{"var": "smoker"}, True]}}]},
            {"target_state": "nuts", "conditions": [{"logic": {"==": [{"var": "smoker"}, False]}}]},
        ],
    },
    "number": {"purpose": "How many a day?", "required_context_keys": ["number"],
               "transitions": [{"target_state": "nuts", "description": "The number, or none"}]},
    "nuts": {"purpose": "Do you eat nuts?", "required_context_keys": ["nuts"],
             "transitions": [{"target_state": "born", "description": "Yes or no"}]},
    "born": {"purpose": "When were you born?", "required_context_keys": ["born"],
             "transitions": [{"target_state": "done", "conditions": needs("born")}]},
    "done": {"purpose": "Say goodbye"},
}  # fmt: skip


def test_after_a_correction_questions_that_were_answered_are_not_asked_again() -> None:
    program = machine(SMOKING, patterns=ALL)
    done = talk(program, "yes", reply("number", "How many?", smoker=True))
    done = say(program, done.session, "ten", reply("nuts", "Nuts?", number=10))
    done = say(program, done.session, "yes", reply("born", "Born when?", nuts=True))
    done = say(
        program,
        done.session,
        "I do not smoke",
        reply("correct", "I see.", "Born when?", smoker=False),
    )
    assert [event.state for event in done.of(ev.StateEntered)] == ["smoker", "nuts", "born"]
    assert (done.session.context, done.text) == (
        {"smoker": False, "nuts": True},
        "I see.\n\nWhen were you born?",
    )


def test_an_answer_that_does_not_fit_a_corrected_one_is_asked_for_again_and_no_other() -> None:
    states: dict[str, Any] = {
        "out": {"purpose": "Ask when", "required_context_keys": ["out"],
                "transitions": [{"target_state": "back", "conditions": needs("out")}]},
        "back": {"purpose": "When will you be back?", "required_context_keys": ["back"],
                 "transitions": [{"target_state": "people", "conditions": [
                     {"requires_context_keys": ["back"], "logic": {">": [{"var": "back"}, {"var": "out"}]}}]}]},
        "people": {"purpose": "Ask how many", "required_context_keys": ["people"],
                   "transitions": [{"target_state": "sure", "conditions": needs("people")}]},
        "sure": {"reply": "{{ out }} to {{ back }}, {{ people }}. Right?", "transitions": [{"target_state": "end"}]},
        "end": {"purpose": "Say goodbye"},
    }  # fmt: skip
    program = machine(states, patterns=["correct"])
    done = talk(program, "the 3rd", reply("back", "Back?", out=3))
    done = say(program, done.session, "the 5th", reply("people", "How many?", back=5))
    done = say(program, done.session, "two", reply("sure", "", people=2))
    done = say(program, done.session, "out on the 8th", reply("correct", "The 8th.", out=8))
    assert (done.session.state, done.text) == ("back", "The 8th.\n\nWhen will you be back?")
    assert done.session.context == {"out": 8, "back": 5, "people": 2}


def test_a_question_that_was_skipped_is_not_asked_again_and_one_never_asked_is_asked() -> None:
    program = machine(SMOKING, patterns=ALL)
    done = talk(program, "no", reply("nuts", "Nuts?", smoker=False))
    done = say(program, done.session, "skip", reply("skip", "Born when?"))
    done = say(program, done.session, "I do smoke", reply("correct", "I see.", smoker=True))
    assert (done.session.state, done.text) == ("number", "I see.\n\nHow many a day?")
    done = say(program, done.session, "no, I do not", reply("correct", "All right.", smoker=False))
    assert (done.session.state, done.text) == ("born", "All right.\n\nWhen were you born?")


def test_a_veto_holds_for_a_way_that_is_taken_again() -> None:
    def forbid(wanted: RunHandlers) -> HandlerResult | None:
        veto = wanted.point is Point.PRE_TRANSITION and wanted.target == "born"
        return HandlerResult(handler="guard", veto="not yet") if veto else None

    program = machine(SMOKING, patterns=ALL)
    done = talk(program, "yes", reply("number", "How many?", smoker=True))
    done = say(program, done.session, "ten", reply("nuts", "Nuts?", number=10))
    done = say(program, done.session, "yes", reply("born", "Born when?", nuts=True))
    again = reply("correct", "I see.", smoker=False)
    assert say(program, done.session, "I do not smoke", again).session.state == "born"
    assert (
        say(program, done.session, "I do not smoke", again, handler=forbid).session.state == "nuts"
    )


@pytest.mark.parametrize(
    ("pattern", "message", "text"),
    [
        ("correct", "Bob, b@b.", "Bob, b@b.\n\nPlease go on."),
        ("correct", "Bob.", "Bob.\n\nPlease go on."),
        ("digress", "How nice!", "How nice!\n\nPlease go on."),
        ("digress", "", "Let us go on.\n\nPlease go on."),
    ],
)
def test_a_pattern_whose_message_answers_the_open_question_goes_on(
    pattern: str, message: str, text: str
) -> None:
    begun = talk(FORM, "Ada", reply("mail", "What is your address?", name="Ada"))
    values = {"mail": "b@b", **({"name": "Bob"} if pattern == "correct" else {})}
    done = say(FORM, begun.session, "Bob, b@b", reply(pattern, message, **values))
    assert (done.session.state, done.text, done.usage.calls) == ("check", text, 1)


def test_an_answer_beside_a_refused_correction_goes_on_without_words_that_announce_it() -> None:
    program = machine(CONFIRMED | {
        "name": {**CONFIRMED["name"], "required_context_keys": ["name"],
                 "transitions": [{"target_state": "day", "conditions": needs("name")}]},
        "day": {"purpose": "On which day?", "required_context_keys": ["day"],
                "transitions": [{"target_state": "check", "conditions": needs("day")}]},
    }, context_schema={"properties": {**SCHEMA["properties"], "day": {}}}, patterns=["correct"])  # fmt: skip
    begun = say(
        program,
        start(program, state="name").session,
        "Ada",
        reply("day", "When?", name="Ada", phone="123"),
    )
    done = say(
        program,
        begun.session,
        "1234567, Friday",
        reply("correct", "Done!", phone="1234567", day="Fri"),
    )
    assert done.session.state == "check"
    assert done.text.startswith("Noted: day.\n\nThat does not fit (telephone number)")
    assert done.text.endswith("Ada, 123. Right?")
    assert "Done!" not in done.text


def test_a_pattern_ends_nothing_although_all_is_answered() -> None:
    program = machine(SMOKING, patterns=ALL)
    done = talk(program, "no", reply("nuts", "Nuts?", smoker=False))
    done = say(program, done.session, "yes", reply("born", "Born when?", nuts=True))
    done = say(program, done.session, "1980, nice day", reply("digress", "It is!", born="1980"))
    assert (done.session.state, done.session.ended) == ("born", False)


def test_a_fixed_reply_that_shows_the_change_needs_no_words_before_it() -> None:
    states = {**TRIP, "sure": {**TRIP["sure"], "reply": "To {{ city }}, right?"}}
    program = machine(states, patterns=ALL)
    done = say(program, travelled(program), "Milan", reply("correct", "", city="Milan"))
    assert done.text == "To Milan, right?"


CONFIRMED: dict[str, Any] = {
    "name": {
        "purpose": "Who are you?",
        "required_context_keys": ["name"],
        "transitions": [{"target_state": "check", "conditions": needs("name")}],
    },
    "check": {
        "reply": "{{ name }}, {{ phone }}. Right?",
        "transitions": [{"target_state": "done"}],
    },
    "done": {"reply": "Written down: {{ phone }}."},
    "cancelled": {"reply": "As you wish."},
}


@pytest.mark.parametrize(
    ("target", "phone", "state", "text"),
    [
        ("done", "1234567", "check", "That does not fit (telephone number): \"1234567\" is longer than 5 characters."
                                     "\n\nAda, 123. Right?"),
        ("done", "1234", "check", "Ada, 1234. Right?"),
        ("cancelled", "1234", "cancelled", "Done!\n\nAs you wish."),
    ],
)  # fmt: skip
def test_nothing_is_confirmed_with_the_old_answer_where_the_new_one_was_refused(
    target: str, phone: str, state: str, text: str
) -> None:
    ways = [{"target_state": "cancelled", "description": "The user wants to stop"}]
    program = machine(
        CONFIRMED, context_schema=SCHEMA, patterns=["correct"], global_transitions=ways
    )
    begun = say(
        program,
        start(program, state="name").session,
        "Ada, 123",
        reply("check", "", name="Ada", phone="123"),
    )
    done = say(program, begun.session, f"Yes, but {phone}", reply(target, "Done!", phone=phone))
    assert (done.session.state, done.text) == (state, text)
    assert done.usage.calls == (2 if phone == "1234567" else 1)


REST: list[dict[str, Any]] = [
    {"go": {"kind": "decide", "transitions": [{"target_state": "done"}]}},
    {"go": {"kind": "decide", "transitions": [{"target_state": "on"}]},
     "on": {"kind": "decide", "transitions": [{"target_state": "done"}]}},
    {"go": {"kind": "decide", "transitions": [{"target_state": "book"}]},
     "book": {"kind": "task", "purpose": "Book it", "transitions": [{"target_state": "done"}]}},
    {"go": {"purpose": "One moment", "transitions": [{"target_state": "done", "auto": True}]}},
    {"go": {"kind": "wait", "wait_for": "signature", "transitions": [{"target_state": "done"}]}},
    {"go": {"kind": "subflow", "flow": "pay", "transitions": [{"target_state": "done"}]}},
]  # fmt: skip
PAYING = {"name": "pay", "initial_state": "card", "states": {
    "card": {"reply": "Which card?", "transitions": [{"target_state": "paid"}]},
    "paid": {"reply": "Paid."}}}  # fmt: skip
TOO_LONG = 'That does not fit (telephone number): "1234567" is longer than 5 characters.'


@pytest.mark.parametrize("states", REST)
def test_a_refused_change_goes_nowhere_that_a_move_comes_to_rest_without_the_user(
    states: dict[str, Any],
) -> None:
    check = {**CONFIRMED["check"], "transitions": [{"target_state": "go"}]}
    form = {"name": "form", "initial_state": "name", "states": {**CONFIRMED, "check": check, **states},
            "context_schema": SCHEMA, "patterns": ["correct"]}  # fmt: skip
    program = nested(form, pay=PAYING)
    begun = say(
        program,
        start(program, state="name").session,
        "Ada, 123",
        reply("check", "", name="Ada", phone="123"),
    )
    done = say(
        program, begun.session, "Yes, but 1234567", reply("go", "1234567 it is.", phone="1234567")
    )
    assert (done.session.state, done.session.flow, done.session.pause) == ("check", "", None)
    assert done.text == f"{TOO_LONG}\n\nAda, 123. Right?"


@pytest.mark.parametrize("target", ["check", "more"])
def test_a_refused_change_is_told_where_it_leads_nowhere(target: str) -> None:
    more = {"purpose": "Anything else?", "transitions": [{"target_state": "done"}]}
    check = {"purpose": "Right?", "transitions": [{"target_state": "more"}]}
    program = machine(
        {**CONFIRMED, "check": check, "more": more}, context_schema=SCHEMA, patterns=["correct"]
    )
    begun = say(
        program,
        start(program, state="name").session,
        "x",
        reply("check", "Right?", name="Ada", phone="123"),
    )
    done = say(
        program,
        begun.session,
        "Yes, but 1234567",
        reply(target, "1234567 it is.", "More?", phone="1234567"),
    )
    assert (done.session.state, done.usage.calls) == ("check", 2)
    assert done.text == f"{TOO_LONG}\n\nRight?"


def test_a_first_answer_that_was_refused_is_told_before_the_end() -> None:
    program = machine(CONFIRMED, context_schema=SCHEMA, patterns=["correct"])
    begun = say(
        program, start(program, state="name").session, "Ada", reply("check", "", name="Ada")
    )
    done = say(program, begun.session, "Yes, 1234567", reply("done", "", phone="1234567"))
    assert (done.session.state, done.usage.calls) == ("check", 2)
    assert say(program, done.session, "Yes", reply("done", "")).session.state == "done"


def test_a_correction_that_decides_nothing_otherwise_stays() -> None:
    done = say(
        TRAVEL, travelled(), "in Milan", reply("correct", "Milan.", "All right now?", city="Milan")
    )
    assert (done.session.state, done.session.context["city"]) == ("sure", "Milan")
    assert done.text == "Milan.\n\nAll right now?"
    assert done.of(ev.Corrected) == [ev.Corrected(keys=("city",), named=True)]
    unnamed = say(TRAVEL, travelled(), "in Milan", reply("sure", "Milan?", city="Milan"))
    assert (unnamed.text, unnamed.of(ev.Corrected)) == ("Milan?", [ev.Corrected(keys=("city",))])


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Bob, then.", "Bob, then.\n\nStill needed: mail."),
        ("Bob. Your address?", "Bob. Your address?"),
    ],
)
def test_after_a_correction_that_decides_nothing_the_open_question_is_asked_again(
    message: str, text: str
) -> None:
    begun = talk(FORM, "Ada", reply("mail", "What is your address?", name="Ada"))
    done = say(FORM, begun.session, "Bob, I mean", reply("correct", message, name="Bob"))
    assert (done.session.state, done.text) == ("mail", text)


def test_a_refused_type_is_told_in_the_words_of_its_key() -> None:
    keys = {
        **SCHEMA["properties"],
        "at": {"type": "string", "title": "time", "description": "24-hour clock, HH:MM"},
    }
    program = machine(STATES, context_schema={"properties": keys}, patterns=ALL)
    session = at("check", program, name="Ada", mail="a@b", at="15:00")
    done = say(program, session, "half past four", reply("correct", "Half past four.", at=[16, 30]))
    assert done.text == "That does not fit (time): 24-hour clock, HH:MM.\n\nWhat now?"


def test_no_words_announce_a_correction_that_was_refused() -> None:
    session = at("check", FORM, name="Ada", mail="a@b")
    done = say(FORM, session, "x", reply("correct", "Your address is x now.", mail="x"))
    assert done.text == 'That does not fit (mail): "x" does not match "@".\n\nWhat now?'
    assert done.session.context["mail"] == "a@b"


def test_the_same_value_again_is_no_correction() -> None:
    done = say(TRAVEL, travelled(), "business", reply("sure", "Right?", kind="business"))
    assert (done.session.state, done.of(ev.Corrected)) == ("sure", [])


def test_a_pick_that_goes_back_by_itself_is_followed_and_goes_on_with_the_answer() -> None:
    done = say(TRAVEL, travelled(), "private", reply("kind", "So private?", kind="private"))
    assert (done.session.state, done.text, done.usage.calls) == (
        "birth",
        "So private?\n\nWhen were you born?",
        1,
    )
    assert [state for state, _ in done.session.path] == ["kind", "route"]
    done = say(TRAVEL, travelled(), "Something else", reply("kind", "Private or business?"))
    assert (done.session.state, done.session.path) == ("kind", ())


def test_the_way_is_kept_without_rounds_and_after_a_jump() -> None:
    session = travelled()
    assert [state for state, _ in session.path] == ["kind", "route", "firm", "city"]
    done = say(TRAVEL, session, "private", reply("correct", "Ok.", kind="private"))
    assert [state for state, _ in done.session.path] == ["kind", "route"]
    assert parse_session(dump_session(done.session)) == done.session


GUARDED: dict[str, Any] = {
    "size": {"purpose": "Ask for the size", "required_context_keys": ["size"], "transitions": [
        {"target_state": "big", "conditions": [{"logic": {">": [{"var": "size"}, 10]}}]},
        {"target_state": "small", "conditions": [{"logic": {"<=": [{"var": "size"}, 10]}}]}]},
    "big": {"purpose": "Ask for the lorry", "required_context_keys": ["lorry"],
            "transitions": [{"target_state": "end", "conditions": needs("lorry")}]},
    "small": {"purpose": "Ask for the bicycle", "transitions": [{"target_state": "end"}]},
    "end": {},
}  # fmt: skip


def test_where_the_model_had_picked_the_one_way_that_is_left_is_gone() -> None:
    program = machine(GUARDED, patterns=["correct"])
    session = talk(program, "20", reply("big", "Which lorry?", size=20)).session
    done = say(program, session, "no, 3", reply("correct", "Three.", size=3))
    assert (done.session.state, done.text) == ("small", "Three.\n\nPlease go on.")
    assert done.of(ev.Corrected)[0].back_to == "size"
    still = say(program, session, "no, 30", reply("correct", "Thirty.", "Which lorry?", size=30))
    assert (still.session.state, still.text) == ("big", "Thirty.\n\nWhich lorry?")


def test_a_value_that_is_taken_back_leads_back_to_its_question() -> None:
    session = talk(TRAVEL, "business", reply("route", "Which firm?", kind="business")).session
    done = say(
        TRAVEL, session, "forget that", reply("correct", "Gone.", _clear=["kind"], _quotes=TAKEN)
    )
    assert (done.session.state, "kind" in done.session.context) == ("kind", False)
    assert done.text == "Gone.\n\nStill needed: kind."


# -- refused values


def test_a_refused_value_is_complained_of_without_english_words_where_those_are_foreign() -> None:
    keys = {
        "nr": {
            "type": "string",
            "pattern": "^[0-9]{8}$",
            "title": "Kundennummer",
            "description": "Acht Ziffern",
        }
    }
    states = {
        "ask": {
            "reply": "Für wen?",
            "required_context_keys": ["nr"],
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    made = machine(states, language="da", context_schema={"properties": keys})
    done = talk(made, "4711", reply("ask", "Gern.", nr="4711"))
    assert done.text == "✗ Kundennummer: Acht Ziffern.\n\nFür wen?"


@pytest.mark.parametrize("described", ["House number", "house number.", "HOUSE NUMBER"])
def test_a_description_that_repeats_the_title_is_no_reason(described: str) -> None:
    number = {"type": "string", "title": "house number", "description": described}
    states = {
        "ask": {
            "purpose": "Which house number?",
            "required_context_keys": ["number"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["number"]}]}
            ],
        },
        "done": {"reply": "Thank you."},
    }
    program = machine(states, context_schema={"properties": {"number": number}})
    done = talk(program, "yes", *[reply("done", number=True)] * 2)
    assert done.text == (
        "That does not fit (house number): true is not a text.\n\nWhich house number?"
    )


def test_a_refused_value_is_told_by_the_words_of_its_key_where_english_is_foreign() -> None:
    keys = {
        "people": {
            "type": "integer",
            "minimum": 1,
            "title": "人数",
            "description": "1名から8名まで",
        }
    }
    states = {
        "ask": {
            "purpose": "何名様ですか？",
            "required_context_keys": ["people"],
            "transitions": [{"target_state": "end", "conditions": needs("people")}],
        },
        "end": {},
    }
    made = machine(states, language="ko", context_schema={"properties": keys})
    done = talk(made, "0", *[reply("end", "", people=0)] * 2)
    assert done.text == "✗ 人数: 1名から8名まで。\n\n何名様ですか？"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"description": "ห้องพัก 1 ถึง 5 ห้อง"}, "✗ ห้องพัก 1 ถึง 5 ห้อง"),
        ({"title": "VIP", "description": "ห้องพัก 1 ถึง 5 ห้อง"}, "✗ VIP: ห้องพัก 1 ถึง 5 ห้อง"),
        ({"title": "ห้องพัก", "description": "ห้องพัก 1 ถึง 5 ห้อง"}, "✗ ห้องพัก 1 ถึง 5 ห้อง"),
    ],
)
def test_a_refused_value_is_named_once_and_in_the_users_script(
    schema: dict[str, str], told: str
) -> None:
    keys = {"room_count": {"type": "integer", "minimum": 1, **schema}}
    state = {"required_context_keys": ["room_count"], "transitions": [{"target_state": "end"}]}
    states = {"ask": {"reply": "กี่ห้องคะ", **state}, "end": {}}
    made = machine(states, language="th", context_schema={"properties": keys})
    done = talk(made, "0", reply("ask", "ค่ะ", room_count=0))
    assert done.text == f"{told}\n\nกี่ห้องคะ"


def test_a_refused_item_is_told_to_the_user_without_its_place() -> None:
    keys = {"towns": {"type": "array", "items": {"enum": ["Rome", "Oslo"]}}}
    states = {
        "ask": {
            "reply": "Which of the towns do you want?",
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    made = machine(states, context_schema={"properties": keys})
    done = talk(made, "x", reply("ask", "Well.", towns=["Rome", "Bonn"]))
    said = 'That does not fit (towns): "Bonn" is not one of "Rome" or "Oslo".'
    assert done.text == f"{said}\n\nWhich of the towns do you want?"


def test_parts_that_are_asked_for_have_their_own_names() -> None:
    parts = {"name": {"type": "string", "title": "full name"}, "phone_number": {"type": "string"}}
    keys = {"contact": {"type": "object", "properties": parts}}
    states = {
        "ask": {
            "purpose": "Ask who it is",
            "required_context_keys": ["contact.name", "contact.phone_number"],
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    done = talk(machine(states, context_schema={"properties": keys}), "x", reply("ask", ""))
    assert done.text == "Ask who it is. Still needed: full name, contact phone number."


def test_giving_up_says_the_apology_of_the_definition() -> None:
    states = {
        "ask": {"purpose": "何名様ですか？", "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    made = machine(states, patterns=["cannot_handle"], model={"on_failure": "申し訳ございません。"})
    step = talk(made, "あ", reply("cannot_handle", "もう一度お願いします。"))
    step = say(made, step.session, "あ", reply("cannot_handle", "もう一度お願いします。"))
    step = say(made, step.session, "あ", reply("cannot_handle", ""))
    assert (step.session.outcome, step.text) == ("given_up", "申し訳ございません。")


def test_what_is_possible_is_a_list_where_no_english_words_can_lead_up_to_it() -> None:
    states = {
        "badge": {
            "purpose": "Назовите ваш номер.",
            "transitions": [
                {"target_state": "end", "description": "Номер назван"},
                {"target_state": "help", "description": "Сотрудник не знает номера."},
            ],
        },
        "help": {"purpose": "Вам помогут."},
        "end": {"purpose": "Спасибо!"},
    }
    program = machine(states, language="ru", patterns=["cannot_handle"])
    once = talk(program, "абв", reply("cannot_handle", "Не понял.")).session
    twice = say(program, once, "абв", reply("cannot_handle", "Простите, не понял."))
    points = "• Номер назван\n• Сотрудник не знает номера"
    assert twice.text == f"Простите, не понял.\n\n{points}"
    asked = say(program, once, "абв", reply("cannot_handle", "Простите. Назовите ваш номер."))
    assert asked.text == f"Простите. Назовите ваш номер.\n\n{points}"


def test_what_is_asked_again_after_misses_is_no_question_of_the_state_before() -> None:
    states: dict[str, Any] = {
        "phone": {"reply": "What is your number?", "transitions": [{"target_state": "day"}]},
        "day": {"purpose": "Please name a day.", "transitions": [{"target_state": "end"}]},
        "end": {"purpose": "Done."},
    }
    program = machine(states, patterns=["cannot_handle", "clarify"])
    done = talk(program, "what?", reply("clarify", "Your telephone."))
    for target, words in (
        ("day", "Please name a day."),
        ("cannot_handle", "Sorry."),
        ("cannot_handle", "Sorry."),
    ):
        done = say(program, done.session, "…", reply(target, words))
    assert "What is your number?" not in done.text
    assert done.text.endswith("Please go on.")  # a purpose that does not ask may be an instruction


def test_what_is_repeated_after_misses_that_led_on_is_what_was_said_there() -> None:
    states: dict[str, Any] = {
        "phone": {
            "purpose": "x",
            "transitions": [{"target_state": "cannot_handle"}, {"target_state": "end"}],
        },
        "cannot_handle": {"purpose": "y", "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    program = machine(states, patterns=["cannot_handle", "repeat"])
    done = talk(program, "hello", reply("phone", "Which number?"))
    for words in ((), (), ('{"message": "Shall we call you?"}',)):
        done = say(program, done.session, "?", "none", "none", *words)
    assert (done.session.state, done.text) == ("cannot_handle", "Shall we call you?")
    assert say(program, done.session, "what?", reply("repeat", "")).text == "Shall we call you?"


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ([reply("correct", "", name="Ada")], "ما رقمك؟"),
        ([reply("digress", "")], "ما رقمك؟"),
        ([reply("restart", "")], "ما اسمك؟"),
        ([reply("restart", ""), reply("skip", "")], "ما اسمك؟"),
        ([reply("cannot_handle", "")], "ما رقمك؟"),
        ([reply("cannot_handle", ""), reply("cannot_handle", "")], "• الرقم معروف\n\nما رقمك؟"),
        (
            [reply("cannot_handle", ""), reply("cannot_handle", "لا أفهم.")],
            "لا أفهم.\n\n• الرقم معروف\n\nما رقمك؟",
        ),
    ],
)
def test_a_pattern_without_words_says_nothing_in_english_where_that_is_foreign(
    replies: list[Any], text: str
) -> None:
    states = {
        "name": {
            "purpose": "ما اسمك؟",
            "required_context_keys": ["name"],
            "transitions": [{"target_state": "number", "conditions": needs("name")}],
        },
        "number": {
            "purpose": "ما رقمك؟",
            "required_context_keys": ["number"],
            "transitions": [
                {"target_state": "end", "description": "الرقم معروف", "conditions": needs("name")}
            ],
        },
        "end": {},
    }
    names = ["correct", "digress", "skip", "restart", "cannot_handle", "silence"]
    made = machine(
        states,
        language="he",
        patterns=names,
        context_schema={"properties": {"name": {}, "number": {}}},
    )
    done = talk(made, "أدا", reply("number", "ما رقمك؟", name="أدا"))
    for item in replies:
        done = say(made, done.session, "هه", item)
    assert done.text == text


def test_a_refused_value_is_asked_for_again_with_the_reason() -> None:
    done = say(FORM, at("phone"), "0123456", reply("phone", "Thank you.", phone="0123456"))
    assert done.text == (
        'That does not fit (telephone number): "0123456" is longer than 5 characters.\n\nWhich number?'
    )
    lost = say(
        FORM, at("mail"), "x", reply("check", "Ok", mail="x"), reply("check", "Ok", mail="x")
    )
    assert lost.text.startswith('That does not fit (mail): "x" does not match')


# -- overrides


def test_a_state_of_that_name_is_used_instead() -> None:
    states = {
        **STATES,
        "cancel": {
            "reply": "Really stop?",
            "transitions": [{"target_state": "done"}, {"target_state": "name"}],
        },
        "clarify": {"reply": "It is written on the card."},
        "handover": {
            "kind": "wait",
            "reply": "Somebody will come.",
            "transitions": [{"target_state": "name"}],
        },
    }
    program = machine(states, patterns=ALL)
    done = say(program, at("mail", program), "stop", reply("cancel", "Well."))
    assert (done.session.state, done.session.ended, done.text) == (
        "cancel",
        False,
        "Well.\n\nReally stop?",
    )
    done = say(program, at("mail", program), "?", reply("clarify", "Look."))
    assert (done.session.state, done.text) == (
        "mail",
        "Look.\n\nIt is written on the card.\n\nWhat now?",
    )
    done = say(program, at("mail", program), "?", reply("handover", "One moment."))
    assert (done.session.state, done.session.pause is not None) == ("handover", True)


def test_a_conditional_way_there_does_not_take_the_pattern_away() -> None:
    states = {
        "look": {
            "purpose": "What does the light show?",
            "transitions": [
                {
                    "target_state": "handover",
                    "auto": True,
                    "conditions": [{"logic": {"==": [{"var": "light"}, "red"]}}],
                }
            ],
        },
        "handover": {
            "kind": "wait",
            "reply": "Somebody comes.",
            "transitions": [{"target_state": "look"}],
        },
    }
    program = machine(states, patterns=["handover"])
    done = talk(program, "a person, please", reply("handover", ""))
    assert (done.session.state, done.usage.calls) == ("handover", 1)
    assert talk(program, "red", reply("look", "", light="red")).session.state == "handover"


def test_an_own_final_state_ends_with_the_patterns_outcome() -> None:
    program = machine(
        {**STATES, "handover": {"reply": "Somebody calls you."}}, patterns=["handover"]
    )
    done = say(program, at("mail", program), "a person", reply("handover", ""))
    assert (done.session.outcome, done.text) == ("handover", "Somebody calls you.")


# -- prompts


def enum(done: Played) -> list[str]:
    schema = done.requests[0].schema
    assert schema is not None
    found: list[str] = schema.schema["properties"]["target_state"]["enum"]
    return found


def test_patterns_are_offered_by_name_in_prompt_and_schema() -> None:
    done = say(FORM, at("mail"), "x", reply("mail", "?"))
    for name in PATTERNS:
        assert (name in enum(done)) is (name != "silence")
    system, user = (message.content for message in done.requests[0].messages)
    assert "\ncancel: the user wants to stop this; the program asks whether\n" in system
    assert "<open_patterns>" not in user
    off = say(
        machine(STATES), at("mail", machine(STATES)), "x", reply("cancel", "?"), reply("mail", "?")
    )
    assert off.of(ev.MoveRefused)[0].by == "unknown"


@pytest.mark.parametrize("target", ["Repeat", "`repeat`", "REPEAT."])
def test_a_pattern_in_other_letters_is_that_pattern(target: str) -> None:
    done = say(FORM, at("mail"), "What?", reply(target, "?"))
    assert done.usage.calls == 1
    assert done.of(ev.MovePicked)[0].target == "repeat"
    assert done.of(ev.Repaired)[0].pattern == "repeat"


def test_a_target_that_a_state_and_a_pattern_are_in_other_letters_is_refused() -> None:
    made = machine(
        {"a": {"transitions": [{"target_state": "Cancel"}]}, "Cancel": {}}, patterns=["cancel"]
    )
    done = say(made, at("a", made), "No", reply("CANCEL", "?"), reply("Cancel", "Bye"))
    assert (done.session.state, done.usage.calls) == ("Cancel", 2)


def test_all_patterns_together_take_few_tokens_and_fewer_that_change() -> None:
    plain = machine(STATES, context_schema=SCHEMA)
    (system, user), (plain_system, plain_user) = (
        [
            estimate(message.content)
            for message in say(program, at("mail", program), "x", reply("mail"))
            .requests[0]
            .messages
        ]
        for program in (FORM, plain)
    )
    assert system - plain_system <= 210
    assert user - plain_user <= 30


def test_patterns_of_the_caller_work_in_a_subflow() -> None:
    program = booking({"target_state": "booked"})
    begun = say(program, start(program).session, "book", reply("book", "Sure."))
    done = say(program, begun.session, "what?", reply("repeat", ""))
    assert done.text == "Sure.\n\nWhich day?"
    assert "cancel" in enum(done)


def test_a_veto_keeps_what_was_to_be_left_out() -> None:
    def forbid(wanted: RunHandlers) -> HandlerResult | None:
        veto = "first the address" if wanted.point is Point.PRE_TRANSITION else None
        return HandlerResult(handler="h", veto=veto)

    done = say(FORM, at("mail"), "no", reply("skip", "Fine."), handler=forbid)
    assert (done.session.state, done.text) == ("mail", "Please go on.")


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "silence"])
def test_patterns_that_only_the_subflow_has_work_there(pattern: str) -> None:
    document = {
        "name": "outer",
        "initial_state": "menu",
        "states": {
            "menu": {"reply": "What can I do?", "transitions": [{"target_state": "book"}]},
            "book": {
                "kind": "subflow",
                "flow": "sub",
                "transitions": [{"target_state": "menu", "on": "default"}],
            },
        },
    }
    program = nested(document, sub={**SUB, "patterns": ALL})
    begun = say(program, start(program).session, "book", reply("book", "Sure.")).session
    done = say(program, begun, "well", reply(pattern, "Well then."), spare=True)
    assert done.text
    assert done.usage.calls == (2 if pattern == "correct" else 1)
    assert done.session.ended is (pattern == "handover")


def test_what_is_taken_back_is_asked_for_where_it_was() -> None:
    states = {
        "income": {"purpose": "Which income?", "required_context_keys": ["income"],
                   "transitions": [{"target_state": "sum", "auto": True, "conditions": needs("income")}]},
        "sum": {"purpose": "Which sum?", "required_context_keys": ["sum"], "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Bye."},
    }  # fmt: skip
    program = machine(states, patterns=["correct"])
    done = talk(program, "2000", reply("sum", "Which sum?", income=2000))
    assert done.session.state == "sum"
    done = say(
        program,
        done.session,
        "no, forget that",
        reply("correct", "Forgotten.", _clear=["income"], _quotes=TAKEN),
    )
    assert (done.session.state, done.text) == ("income", "Forgotten.\n\nWhich income?")


def test_a_pattern_that_does_not_fit_is_told_in_the_words_of_its_key() -> None:
    schema = {"properties": {**SCHEMA["properties"], "mail": {"type": "string", "pattern": "@",
              "title": "e-mail", "description": "An address with an @"}}}  # fmt: skip
    program = machine(STATES, context_schema=schema, patterns=ALL)
    done = say(
        program, at("check", program, mail="a@b"), "no, x", reply("correct", "Changed!", mail="x")
    )
    assert done.text == "That does not fit (e-mail): An address with an @.\n\nWhat now?"


def test_a_way_of_more_states_than_auto_steps_is_passed_again_after_an_early_answer_was_changed() -> (
    None
):
    def asks(key: str, target: str) -> dict[str, Any]:
        return {
            "purpose": f"Your {key}?",
            "required_context_keys": [key],
            "transitions": [{"target_state": target}],
        }

    to = {f"q{number}": f"q{number + 1}" for number in range(40)}
    states: dict[str, Any] = {name: asks(name, target) for name, target in to.items()}
    old = {"target_state": "q0", "conditions": [{"logic": {"==": [{"var": "kind"}, "old"]}}]}
    states |= {
        "kind": asks("kind", "route"),
        "q40": asks("q40", "done"),
        "done": {"purpose": "Goodbye."},
    }
    states["route"] = {"kind": "decide", "transitions": [old, {"target_state": "q1"}]}
    long_way = machine(states, initial_state="kind", patterns=["correct"])
    done = talk(long_way, "old", reply("route", "Your q0?", kind="old"))
    for name, target in to.items():
        done = say(long_way, done.session, "x", reply(target, f"Your {target}?", **{name: "x"}))
    done = say(long_way, done.session, "new", reply("q40", "Changed.", "And your q40?", kind="new"))
    assert (done.session.state, done.text) == ("q40", "Changed.\n\nAnd your q40?")
    assert not any(isinstance(event, ev.LimitReached) for event in done.events)
