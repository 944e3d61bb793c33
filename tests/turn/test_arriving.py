"""Arriving in a state that talks: what is known is not asked again, and nothing goes on to an end
by itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Execute, Executed
from machines import Played, Worker, machine, nested, reply, say, start, talk, worker

TAKEN = {"_clear": "no wish"}
"""The words that take a value back."""


def asks(key: str, question: str, target: str, **keys: Any) -> dict[str, Any]:
    """A state that collects one key, and goes on where it is known."""
    ways = [
        {
            "target_state": target,
            "description": "Known",
            "conditions": [{"requires_context_keys": [key]}],
        }
    ]
    return {"purpose": question, "required_context_keys": [key], "transitions": ways, **keys}


KEYS = {"properties": {key: {"type": "string"} for key in ("name", "guests", "day", "wish")}}
STATES: dict[str, Any] = {
    "name": asks("name", "What is your name?", "guests"),
    "guests": asks("guests", "How many guests?", "day"),
    "day": asks("day", "On which day?", "check"),
    "check": {"reply": "{{ name }}, {{ guests }}, {{ day }}. Right?", "transitions": [
        {"target_state": "end", "description": "Confirmed"},
        {"target_state": "day", "description": "Wants another day"}]},
    "menu": {"purpose": "Shall I read out the menu?", "transitions": [{"target_state": "read"}]},
    "read": {"purpose": "Read it out"},
    "end": {"reply": "Booked."},
}  # fmt: skip
ASIDE = [{"target_state": "menu", "return": True, "description": "Asks for the menu"}]


def table(**changed: Any) -> CompiledMachine:
    states = {**STATES, **changed}
    patterns = ["correct", "cancel", "digress", "skip"]
    return machine(states, context_schema=KEYS, global_transitions=ASIDE, patterns=patterns)


TABLE = table()


def came(done: Played) -> tuple[str, str, int]:
    return done.session.state, done.text, done.usage.calls


def test_a_first_message_with_everything_goes_on_to_the_confirmation() -> None:
    done = talk(
        TABLE,
        "x",
        reply("guests", "Welcome!", "How many guests?", name="Ada", guests="4", day="Monday"),
    )
    assert came(done) == ("check", "Welcome!\n\nAda, 4, Monday. Right?", 1)
    assert [event.by for event in done.of(ev.StateEntered)] == ["model", "known", "known"]


def test_a_move_passes_only_what_is_known_and_asks_the_next_question_once() -> None:
    done = talk(TABLE, "x", reply("guests", "Welcome!", "How many guests?", name="Ada", guests="4"))
    assert came(done) == ("day", "Welcome!\n\nOn which day?", 1)
    done = talk(
        TABLE, "x", reply("guests", "Welcome!", "And on which day?", name="Ada", guests="4")
    )
    # that question was written for the state that was passed
    assert came(done) == ("day", "Welcome!\n\nOn which day?", 1)


def test_a_state_that_must_be_asked_is_asked() -> None:
    program = table(guests={**STATES["guests"], "ask": "always"})
    done = talk(program, "x", reply("guests", "How many?", name="Ada", guests="4", day="Monday"))
    assert came(done) == ("guests", "How many?", 1)


def test_nothing_goes_on_to_an_end_by_itself() -> None:
    step = {"kind": "decide", "transitions": [{"target_state": "end"}]}
    program = table(day=asks("day", "On which day?", "step"), step=step)
    done = talk(program, "x", reply("guests", "Good.", name="Ada", guests="4", day="Monday"))
    assert came(done)[0] == "day"
    assert done.text.endswith("On which day?")


def test_a_condition_that_the_model_judges_is_not_taken_for_granted() -> None:
    day = asks("day", "On which day?", "check")
    day["transitions"][0]["conditions"].append({"description": "The day is not a holiday"})
    done = talk(table(day=day), "x", reply("guests", "Good.", name="Ada", guests="4", day="Monday"))
    assert done.session.state == "day"


def test_a_move_back_asks_unless_the_message_answers_it() -> None:
    begun = talk(TABLE, "x", reply("guests", "", name="Ada", guests="4", day="Monday")).session
    assert came(say(TABLE, begun, "Another day", reply("day", "Which day?")))[:2] == (
        "day",
        "Which day?",
    )
    done = say(TABLE, begun, "On Friday", reply("day", "Friday?", day="Friday"))
    assert came(done) == ("check", "Friday?\n\nAda, 4, Friday. Right?", 1)


# -- values open ways

STAYS = ("guests", "check", "nowhere", "skip", "cancel")
"""A slip each: the current state, a closed way, no state, and patterns that drop the answer."""


@pytest.mark.parametrize("named", STAYS)
def test_a_value_opens_its_way_whatever_the_reply_names(named: str) -> None:
    begun = start(TABLE, state="guests", context={"name": "Ada"}).session
    done = say(TABLE, begun, "four", reply(named, "", guests="4"))
    assert came(done) == ("day", "On which day?", 1)
    assert [event.by for event in done.of(ev.StateEntered)] == ["known"]
    assert done.session.skipped == ()


@pytest.mark.parametrize("named", STAYS)
def test_all_values_at_once_open_the_whole_way_to_the_read_back(named: str) -> None:
    begun = start(TABLE, state="name").session
    done = say(TABLE, begun, "x", reply(named, "", name="Ada", guests="4", day="Monday"))
    assert came(done) == ("check", "Ada, 4, Monday. Right?", 1)


@pytest.mark.parametrize("named", ["handover", "back", "menu"])
def test_what_the_user_wants_beside_a_value_is_done(named: str) -> None:
    program = machine(
        STATES,
        context_schema=KEYS,
        global_transitions=ASIDE,
        patterns=["handover", "back", "skip", "clarify"],
    )
    begun = talk(program, "Ada", reply("guests", "", name="Ada")).session
    done = say(program, begun, "four", reply(named, "Well. Shall I?", guests="4"), spare=True)
    assert done.of(ev.StateEntered)[:1] != [
        ev.StateEntered(state="day", previous="guests", by="known", transition="")
    ]
    assert "known" not in [event.by for event in done.of(ev.StateEntered)]


def way(target: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"target_state": target, "conditions": list(conditions)}


KNOWN = {"requires_context_keys": ["guests"]}
MANY = {"logic": {"==": [{"var": "guests"}, "4"]}}


@pytest.mark.parametrize(
    ("ways", "collects"),
    [
        ([way("end", KNOWN)], ["guests"]),
        ([way("day", KNOWN, {"description": "They are sure"})], ["guests"]),
        ([way("day", KNOWN), way("check", MANY)], ["guests"]),
        ([way("day", KNOWN)], ["guests", "wish"]),
        ([way("act", KNOWN)], ["guests"]),
        ([way("day")], ["guests"]),
    ],
    ids=["an end", "words alone judge", "two ways", "more to ask", "an act", "always open"],
)
def test_no_way_is_taken_that_values_alone_do_not_decide(
    ways: list[dict[str, Any]], collects: list[str]
) -> None:
    act = {"kind": "task", "execute": "book", "acts": True, "transitions": [way("day")]}
    guests = {"purpose": "How many?", "required_context_keys": collects, "transitions": ways}
    program = table(guests=guests, act=act)
    begun = start(program, state="guests", context={"name": "Ada"}).session
    done = say(program, begun, "four", reply("guests", "Four of you. Anything else?", guests="4"))
    assert came(done) == ("guests", "Four of you. Anything else?", 1)
    assert done.session.context["guests"] == "4"


def test_an_old_value_opens_nothing_while_the_new_one_is_refused() -> None:
    keys = {"properties": {"day": {"enum": ["Monday"]}, "time": {"type": "string", "maxLength": 5}}}
    states = {
        "when": {
            "purpose": "When?",
            "required_context_keys": ["day", "time"],
            "transitions": [way("who", {"requires_context_keys": ["day", "time"]})],
        },
        "who": {"purpose": "Your name?", "transitions": [way("end")]},
        "end": {},
    }
    program = machine(states, context_schema=keys)
    begun = talk(program, "at ten", reply("when", "On which day?", time="10:00")).session
    given = reply("when", "So late?", day="Monday", time="in the night")
    assert say(program, begun, "Monday night", given).session.state == "when"


@pytest.mark.parametrize("when", ["begins", "goes on", "ends", "is cancelled"])
def test_what_is_answered_in_a_digression_is_not_asked_on_the_way_back(when: str) -> None:
    place = {"begins": 0, "goes on": 1}.get(when, 2)
    given: list[dict[str, Any]] = [
        {"name": "Ada"} if number == place else {} for number in range(3)
    ]
    done = say(
        TABLE,
        start(TABLE, state="name").session,
        "Ada. The menu?",
        reply("menu", "Shall I?", **given[0]),
    )
    done = say(TABLE, done.session, "hm", reply("menu", "Shall I?", **given[1]))
    last = (
        reply("cancel", "As you wish.", **given[2])
        if when == "is cancelled"
        else reply("read", "Soup.", **given[2])
    )
    done = say(TABLE, done.session, "so", last)
    assert came(done) == (
        "guests",
        f"{'As you wish.' if when == 'is cancelled' else 'Soup.'}\n\nHow many guests?",
        1,
    )


def test_what_is_not_answered_is_asked_again_on_the_way_back() -> None:
    done = say(TABLE, start(TABLE, state="name").session, "the menu?", reply("menu", "Shall I?"))
    assert came(say(TABLE, done.session, "yes", reply("read", "Soup."))) == (
        "name",
        "Soup.\n\nWhat is your name?",
        1,
    )


@pytest.mark.parametrize("target", ["correct", "guests"])
def test_a_correction_asks_the_open_question_whether_it_is_named_or_not(target: str) -> None:
    begun = talk(TABLE, "x", reply("guests", "How many guests?", name="Ada"))
    done = say(TABLE, begun.session, "Bea, I mean", reply(target, "Bea.", name="Bea"))
    assert came(done) == ("guests", "Bea.\n\nHow many guests?", 1)


WISHES: dict[str, Any] = {
    "name": asks("name", "What is your name?", "wish"),
    "wish": {**asks("wish", "Any wishes?", "day")},
    "day": asks("day", "On which day?", "check"),
    "check": {"reply": "Right?", "transitions": [{"target_state": "end"}]},
    "none": {"purpose": "None at all?", "transitions": [{"target_state": "check"}]},
    "end": {"reply": "Booked."},
}


def wishes(*declining: str) -> CompiledMachine:
    ways = [{"target_state": name, "description": "Has none"} for name in declining]
    wish = {**WISHES["wish"], "transitions": [*WISHES["wish"]["transitions"], *ways]}
    return machine({**WISHES, "wish": wish}, context_schema=KEYS, patterns=["correct", "skip"])


@pytest.mark.parametrize(
    "declined", [reply("day", "On which day?"), reply("skip", "Fine.", "On which day?")]
)
def test_what_was_declined_by_a_transition_is_on_record_as_what_was_skipped(declined: str) -> None:
    program = wishes("day")
    done = talk(program, "x", reply("wish", "Any wishes?", name="Ada"))
    done = say(program, done.session, "none", declined)
    assert (done.session.state, done.session.skipped) == ("day", ("wish",))
    assert done.of(ev.KeysSkipped) == [ev.KeysSkipped(keys=("wish",))]


def test_a_move_that_needs_nothing_declines_nothing() -> None:
    wish = {**WISHES["wish"], "transitions": [{"target_state": "day"}]}
    program = machine({**WISHES, "wish": wish}, patterns=["skip"])
    done = talk(program, "x", reply("wish", "Any wishes?", name="Ada"))
    assert say(program, done.session, "Go on", reply("day", "On which day?")).session.skipped == ()


@pytest.mark.parametrize(
    ("declining", "state"), [((), "wish"), (("day",), "check"), (("none",), "check")]
)
def test_a_taking_back_leads_back_only_where_no_way_is_open_without(
    declining: tuple[str, ...], state: str
) -> None:
    program = wishes(*declining)
    done = talk(program, "x", reply("wish", "Any?", name="Ada", wish="a window", day="Monday"))
    assert done.session.state == "check"
    done = say(
        program,
        done.session,
        "no wish after all",
        reply("correct", "Gone.", _clear=["wish"], _quotes=TAKEN),
    )
    assert (done.session.state, done.session.skipped) == (state, ("wish",) if declining else ())


PAY = {
    "name": "pay", "initial_state": "method",
    "context_schema": {"properties": {"method": {"enum": ["card", "cash"]}, "sum": {"type": "number"}}},
    "states": {"method": {**asks("method", "Card or cash?", "paid")}, "paid": {"purpose": "Paid"}},
}  # fmt: skip
SHOP = {
    "name": "shop", "initial_state": "size", "patterns": ["correct"],
    "context_schema": {"properties": {"size": {"enum": ["small", "large"]}, "gift": {"type": "string"},
                                      "ribbon": {"type": "string"}, "method": {"type": "string"}}},
    "states": {
        "size": {"purpose": "Small or large?", "required_context_keys": ["size"], "transitions": [
            {"target_state": "pay", "conditions": [{"logic": {"==": [{"var": "size"}, "small"]}}]},
            {"target_state": "ribbon", "conditions": [{"logic": {"==": [{"var": "size"}, "large"]}}]}]},
        "ribbon": asks("ribbon", "Which ribbon?", "pay"),
        "pay": {"kind": "subflow", "flow": "pay", "output": {"method": "method"},
                "transitions": [{"target_state": "check"}]},
        "check": {"reply": "{{ size }} by {{ method }}. Right?", "transitions": [{"target_state": "end"}]},
        "end": {"reply": "Sold."},
    },
}  # fmt: skip


def shopping(*replies: str, **pay: Any) -> Played:
    program = nested(
        {**SHOP, "states": {**SHOP["states"], "pay": {**SHOP["states"]["pay"], **pay}}}, pay=PAY
    )
    done = talk(program, "small", reply("pay", "Good.", size="small"))
    for one in replies:
        done = say(program, done.session, "…", one)
    return done


def test_a_subflow_that_was_passed_is_passed_again_after_a_correction() -> None:
    paid = shopping(reply("paid", "Thanks.", method="card"))
    assert (paid.session.state, paid.text) == ("check", "Thanks.\n\nsmall by card. Right?")
    large = shopping(reply("paid", "", method="card"), reply("correct", "Large.", size="large"))
    assert came(large) == ("ribbon", "Large.\n\nWhich ribbon?", 1)
    paid, changed = reply("paid", "", method="card"), reply("correct", "Large.", size="large")
    done = shopping(paid, changed, reply("pay", ribbon="red"))
    assert came(done) == ("check", "ok\n\nlarge by card. Right?", 1)
    done = shopping(
        reply("paid", "", method="card"), reply("correct", "Large.", size="large", ribbon="red")
    )
    assert came(done) == ("check", "Large.\n\nlarge by card. Right?", 1)


def test_a_subflow_begins_again_where_its_input_changed() -> None:
    again = shopping(reply("paid", "", method="card"), reply("correct", "", size="large", ribbon="red"),
                     input={"sum": "size"})  # fmt: skip
    assert (again.session.flow, again.session.state) == ("pay", "method")


def test_the_last_answers_of_a_subflow_count_together_with_a_change_for_its_caller() -> None:
    last = reply("paid", "Large, by card.", method="card", size="large")
    done = shopping(last)
    assert (done.session.flow, done.session.state, done.session.context["method"]) == (
        "",
        "ribbon",
        "card",
    )
    assert done.text.endswith("Which ribbon?")
    assert shopping(last, reply("pay", ribbon="red")).text.endswith("large by card. Right?")


def test_nothing_is_said_twice_in_a_turn() -> None:
    done = talk(table(guests={"reply": "How many guests?", **STATES["guests"]}), "x",
                reply("guests", "Hello Ada.", "How many guests?", name="Ada"))  # fmt: skip
    assert done.text == "Hello Ada.\n\nHow many guests?"


def test_a_purpose_that_does_not_ask_is_not_said_after_a_pattern() -> None:
    program = table(guests={**STATES["guests"], "purpose": "Find out how many come"})
    begun = talk(program, "x", reply("guests", "Tell me the number.", name="Ada"))
    done = say(program, begun.session, "nice weather", reply("digress", "It is."))
    assert done.text == "It is.\n\nStill needed: guests."


# -- a task that only computes lies on the way of known answers


def priced(task: dict[str, Any], states: dict[str, Any] | None = None, **options: Any) -> Worker:
    """The form with a task behind the day, which works out a price."""
    price = {"kind": "task", "execute": "price", "transitions": [{"target_state": "check"}], **task}
    stale = {
        "target_state": "price",
        "auto": True,
        "conditions": [{"logic": {"!": [{"has_context": "price"}]}}],
    }
    check = {
        "reply": "{{ name }}, {{ guests }}, {{ day }}: {{ price }} euros. Right?",
        "transitions": [stale, *STATES["check"]["transitions"]],
    }
    price_key = {"type": "integer", "x-source": "host", "x-from": ["guests"]}
    keys = {"properties": {**KEYS["properties"], "price": price_key}}
    every = {
        **STATES,
        "day": asks("day", "On which day?", "price"),
        "price": price,
        "check": check,
        **(states or {}),
    }

    def work(effect: Execute) -> Executed:
        guests = effect.session.context["guests"]
        return Executed(output=guests, context={"price": 10 * int(guests)})

    functions = {"price": work, "way": lambda _: "check"}
    patterns = ["correct", "cancel", "digress", "skip"]
    return worker(every, context_schema=keys, patterns=patterns, functions=functions, **options)


EVERYTHING = reply("guests", "Good.", name="Ada", guests="4", day="Monday")


def test_known_answers_are_passed_into_a_task_that_computes() -> None:
    host = priced({})
    done = host.say(start(host.program).session, "x", EVERYTHING)
    assert came(done) == ("check", "Good.\n\nAda, 4, Monday: 40 euros. Right?", 1)
    changed = host.say(done.session, "six of us", reply("check", "Six, then.", guests="6"))
    assert came(changed) == ("check", "Six, then.\n\nAda, 6, Monday: 60 euros. Right?", 1)


@pytest.mark.parametrize(
    ("task", "states", "options"),
    [
        ({"execute": None, "purpose": "Work out the price"}, None, {}),
        ({"tools": ["till"]}, None, {"tools": {"till": print}}),
        ({"route": "way"}, None, {}),
        (
            {
                "transitions": [
                    {"target_state": "check", "on": "a"},
                    {"target_state": "menu", "on": "default"},
                ]
            },
            None,
            {},
        ),
        ({"transitions": [{"target_state": "end"}]}, None, {}),
    ],
    ids=["a model works", "it has tools", "it is routed", "two ways", "an end follows"],
)
def test_no_answer_is_passed_into_any_other_task(
    task: dict[str, Any], states: dict[str, Any] | None, options: dict[str, Any]
) -> None:
    host = priced(task, states, **options)
    done = host.say(start(host.program).session, "x", EVERYTHING)
    assert done.session.state == "day"
    assert done.of(ev.AttemptBegun) == []
