"""`confirms` and `agrees`: a yes counts only for the values that the user was shown, and acts are
held to it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from llm_fsm.session import events as ev
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Agreement, Session, dump_session, parse_session
from llm_fsm.turn.effects import Execute, HandlerResult, Point
from machines import calls, machine, nested, reply, say, start, talk, worker

SCHEMA: dict[str, Any] = {
    "properties": {
        "guests": {"type": "integer", "maximum": 8},
        "day": {"type": "string"},
        "price": {"type": "integer", "x-source": "host"},
        "sure": {"type": "boolean", "x-fast": True},
        "pin": {"type": "string", "x-secret": True},
    }
}
AGREED = Agreement(
    keys=("guests", "day"), values={"guests": 4, "day": "Friday"}, turn=2, words="yes"
)
COLLECT: dict[str, Any] = {
    "purpose": "How many guests, and when?",
    "required_context_keys": ["guests", "day"],
    "transitions": [
        {"target_state": "confirm", "conditions": [{"requires_context_keys": ["guests", "day"]}]}
    ],
}
CONFIRM: dict[str, Any] = {
    "purpose": "Shall I book it?",
    "reply": "A table for {{ guests }} on {{ day }}. Shall I book it?",
    "confirms": ["guests", "day"],
    "transitions": [{"target_state": "booked", "description": "The user says yes", "agrees": True}],
}
STATES: dict[str, Any] = {
    "collect": COLLECT,
    "confirm": CONFIRM,
    "booked": {"reply": "Booked for {{ guests }}."},
}

SURE: dict[str, Any] = {
    "required_context_keys": ["sure"],
    "transitions": [
        {
            "target_state": "booked",
            "agrees": True,
            "conditions": [{"logic": {"==": [{"var": "sure"}, True]}}],
        }
    ],
}


def states(**changes: Any) -> dict[str, Any]:
    return {
        **STATES,
        **{name: {**STATES.get(name, {}), **change} for name, change in changes.items()},
    }


def bot(made_states: Any = STATES, **more: Any) -> Any:
    return machine(made_states, context_schema=SCHEMA, **more)


def at_confirm(made: Any, **options: Any) -> Session:
    first = talk(made, "four on Friday", reply("confirm", "", guests=4, day="Friday"), **options)
    assert first.session.state == "confirm"
    return first.session


def test_a_yes_to_what_was_read_back_is_taken_and_recorded() -> None:
    done = say(bot(), at_confirm(bot()), "yes", reply("booked", ""))
    assert (done.session.state, done.text) == ("booked", "Booked for 4.")
    assert done.of(ev.Agreed) == [
        ev.Agreed(keys=("guests", "day"), values=AGREED.values, turn=2, words="yes")
    ]
    assert done.session.agreement is not None
    assert replace(done.session.agreement, id="") == AGREED


@pytest.mark.parametrize("patterns", [[], ["correct"]])
def test_yes_but_changes_the_value_stays_and_reads_back_anew(patterns: list[str]) -> None:
    made = bot(patterns=patterns)
    but = say(
        made, at_confirm(made), "yes, but for five", reply("booked", "Booked for five!", guests=5)
    )
    assert (but.session.state, but.session.context["guests"]) == ("confirm", 5)
    assert but.text == "A table for 5 on Friday. Shall I book it?"
    assert [event.by for event in but.of(ev.MoveRefused)] == ["agrees"]
    done = say(made, but.session, "yes", reply("booked", ""))
    assert (
        done.session.state,
        done.session.agreement and done.session.agreement.values["guests"],
    ) == ("booked", 5)


def test_without_a_fixed_reply_the_machine_lists_the_values_itself() -> None:
    made = bot(states(confirm={"reply": None}))
    shown = talk(made, "four on Friday", reply("confirm", "Fine.", guests=4, day="Friday"))
    assert shown.text == "Fine.\n\nGuests: 4\nDay: Friday\n\nShall I book it?"
    but = say(made, shown.session, "yes, for five", reply("booked", "Done!", guests=5))
    assert (but.session.state, but.text) == (
        "confirm",
        "Guests: 5\nDay: Friday\n\nShall I book it?",
    )
    assert say(made, but.session, "yes", reply("booked", "Done!")).session.state == "booked"


def test_an_old_question_is_not_asked_again_about_new_values() -> None:
    made = bot(states(confirm={"reply": None}), patterns=["correct"])
    shown = talk(
        made, "four on Friday", reply("confirm", "Four on Friday?", guests=4, day="Friday")
    ).session
    done = say(made, shown, "make it five", reply("confirm", "Noted.", guests=5))
    assert done.text == "Noted.\n\nGuests: 5\nDay: Friday\n\nShall I book it?"


def test_an_early_yes_is_no_yes() -> None:
    made = bot(states(confirm=SURE))
    early = talk(
        made, "four on Friday, and yes", reply("confirm", "", guests=4, day="Friday", sure=True)
    )
    assert (early.session.state, early.text) == (
        "confirm",
        "A table for 4 on Friday. Shall I book it?",
    )
    assert say(made, early.session, "yes", reply("booked", "")).session.state == "booked"


def test_a_state_that_has_not_spoken_takes_no_yes() -> None:
    made = bot()
    begun = start(made, context={"guests": 4, "day": "Friday"}, state="confirm").session
    done = say(made, begun, "yes", reply("booked", ""))
    assert (done.session.state, done.text) == (
        "confirm",
        "A table for 4 on Friday. Shall I book it?",
    )
    assert say(made, done.session, "yes", reply("booked", "")).session.state == "booked"


def test_a_change_that_is_refused_is_no_yes_to_the_old_value() -> None:
    made = bot()
    done = say(made, at_confirm(made), "yes, but for twenty", reply("booked", "Done!", guests=20))
    assert (done.session.state, done.session.context["guests"]) == ("confirm", 4)
    assert done.text.endswith("A table for 4 on Friday. Shall I book it?")
    assert "at most 8" in done.text or "8" in done.text


def test_a_value_that_no_reply_may_write_is_not_agreed_to_when_the_user_wants_another() -> None:
    made = bot(states(confirm={"confirms": ["price"], "reply": "{{ price }} euros?"}))
    shown = talk(
        made, "four", reply("confirm", "", guests=4, day="Friday"), context={"price": 20}
    ).session
    done = say(made, shown, "yes, for 5 euros", reply("booked", "Done!", price=5))
    assert (done.session.state, done.session.context["price"]) == ("confirm", 20)


def test_a_fast_yes_counts_as_one_and_only_for_what_was_read_back() -> None:
    made = bot(states(confirm=SURE))
    shown = at_confirm(made)
    done = say(made, shown, "yes")
    assert (done.session.state, done.usage.calls, len(done.of(ev.Agreed))) == ("booked", 0, 1)
    changed = fold(shown, [ev.ContextSet(source="host", values={"guests": 6})])
    again = say(made, changed, "yes", reply("booked", "", sure=True))
    assert (again.session.state, again.text) == (
        "confirm",
        "A table for 6 on Friday. Shall I book it?",
    )


def test_a_value_that_the_host_changes_is_read_back_before_a_yes_counts() -> None:
    made = bot()
    changed = fold(at_confirm(made), [ev.ContextSet(source="host", values={"guests": 6})])
    done = say(made, changed, "yes", reply("booked", ""))
    assert (done.session.state, done.text) == (
        "confirm",
        "A table for 6 on Friday. Shall I book it?",
    )
    assert "booked" not in done.prompt


@pytest.mark.parametrize(
    "point", [Point.PRE_PROCESSING, Point.CONTEXT_UPDATE, Point.POST_PROCESSING]
)
def test_a_handler_that_changes_a_value_asks_for_a_new_yes(point: Point) -> None:
    made = bot()
    shown = at_confirm(made)

    def handler(run: Any) -> HandlerResult | None:
        early = run.point is Point.CONTEXT_UPDATE and "day" not in run.updated
        if run.point is not point or early:
            return None
        return HandlerResult(handler="h", changes={"guests": 7})

    told = say(
        made,
        shown,
        "Saturday. Is there parking?",
        reply("confirm", "Yes.", day="Saturday"),
        handler=handler,
    ).session
    assert told.context["guests"] == 7
    done = say(made, told, "yes", reply("booked", ""))
    after_words = point is Point.POST_PROCESSING
    assert done.session.state == ("confirm" if after_words else "booked")


def test_a_digression_reads_back_anew_and_keeps_the_yes_open() -> None:
    aside = {"target_state": "hours", "return": True, "description": "Asks for the hours"}
    for change, guests in (({}, 4), ({"set": {"guests": 8}}, 8)):
        made = bot(
            {**STATES, "hours": {"reply": "Nine to five.", **change}}, global_transitions=[aside]
        )
        back = say(made, at_confirm(made), "when are you open?", reply("hours", ""))
        assert back.text == f"Nine to five.\n\nA table for {guests} on Friday. Shall I book it?"
        done = say(made, back.session, "yes", reply("booked", "")).session
        assert (done.state, done.agreement and done.agreement.values["guests"]) == (
            "booked",
            guests,
        )


def test_an_aside_that_changes_a_value_is_read_back_by_the_machine() -> None:
    aside = {"target_state": "hours", "return": True, "description": "Asks for the hours"}
    hours = {"reply": "Nine to five.", "set": {"guests": 8}}
    made = bot({**states(confirm={"reply": None}), "hours": hours}, global_transitions=[aside])
    shown = talk(made, "four on Friday", reply("confirm", "", guests=4, day="Friday")).session
    back = say(made, shown, "when are you open?", reply("hours", ""))
    assert back.text == "Nine to five.\n\nGuests: 8\nDay: Friday\n\nShall I book it?"
    assert say(made, back.session, "yes", reply("booked", "Booked.")).session.state == "booked"


def test_a_yes_survives_another_process_and_an_undone_turn_takes_it_back() -> None:
    made = bot()
    shown = parse_session(dump_session(at_confirm(made)))
    done = say(made, shown, "yes", reply("booked", ""))
    assert parse_session(dump_session(done.session)) == done.session
    undone = fold(done.session, [ev.TurnUndone(record=2, session=dict(_document(shown)))])
    assert (undone.agreement, undone.read_back) == (None, shown.read_back)


def _document(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump_session(session))
    return found


def test_migration_renames_what_was_read_back_and_agreed_and_forgets_what_it_loses() -> None:
    made = bot()
    shown = at_confirm(made)
    moved = fold(
        shown, [ev.Migrated(definition="d", states={"confirm": "check"}, keys={"guests": "people"})]
    )
    assert moved.read_back is not None
    assert (moved.read_back.state, moved.read_back.values) == (
        "check",
        {"people": 4, "day": "Friday"},
    )
    assert fold(shown, [ev.Migrated(definition="d", removed=("day",))]).read_back is None
    assert fold(shown, [ev.Migrated(definition="d", keys={"day": None})]).read_back is None
    agreed = say(made, shown, "yes", reply("booked", "")).session
    renamed = fold(agreed, [ev.Migrated(definition="d", keys={"guests": "people"})]).agreement
    assert renamed is not None
    assert renamed.values == {"people": 4, "day": "Friday"}


def test_no_other_way_of_going_on_takes_a_yes() -> None:
    auto = {"target_state": "booked", "agrees": True, "auto": True}
    made = bot(states(confirm={"transitions": [auto]}))
    assert at_confirm(made).state == "confirm"
    skipping = bot(states(confirm={"required_context_keys": ["sure"]}), patterns=["skip"])
    assert (
        say(skipping, at_confirm(skipping), "skip that", reply("skip", "")).session.state
        == "confirm"
    )


def test_an_answer_that_was_changed_after_the_yes_leads_back_to_what_confirms() -> None:
    pay = {"purpose": "Which card?", "transitions": [{"target_state": "booked"}]}
    agrees = {"target_state": "pay", "agrees": True}
    made = bot({**states(confirm={"transitions": [agrees]}), "pay": pay}, patterns=["correct"])
    paying = say(made, at_confirm(made), "yes", reply("pay", "Which card?")).session
    back = say(made, paying, "sorry, five guests", reply("pay", "Five then.", guests=5), spare=True)
    assert (back.session.state, back.session.context) == ("confirm", {"guests": 5, "day": "Friday"})
    assert "A table for 5 on Friday" in back.text
    assert say(made, back.session, "yes", reply("pay", "Which card?")).session.state == "pay"


def test_a_secret_is_shown_as_dots_and_compared_by_its_value() -> None:
    made = bot(states(confirm={"confirms": ["pin"], "reply": "Your PIN is {{ pin }}, right?"}))
    shown = talk(made, "four", reply("confirm", "", guests=4, day="Friday", pin="987654"))
    assert "•••" in shown.text
    assert "987654" not in shown.text
    other = say(made, shown.session, "yes, but 123123", reply("booked", "", pin="123123"))
    assert (other.session.state, other.session.context["pin"]) == ("confirm", "123123")
    done = say(made, other.session, "yes", reply("booked", ""))
    assert done.session.state == "booked"


# -- acts


def tool_bot() -> Any:
    booking = {
        "purpose": "Book it",
        "tools": ["book", "look"],
        "transitions": [{"target_state": "booked"}],
    }
    agrees = {"target_state": "booking", "agrees": True}
    made_states = {**states(confirm={"transitions": [agrees]}), "booking": booking}
    tools = {"book": lambda **given: given, "look": lambda **given: given}
    return worker(
        made_states, context_schema=SCHEMA, tools=tools, attributes={"book": {"acts": True}}
    )


def at_booking(host: Any) -> Session:
    return host.say(at_confirm(host.program), "yes", reply("booking", "One moment.")).session


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        ({"guests": 4, "day": "Friday"}, True),
        ({"guests": "4"}, True),
        ({"phone": "0199"}, False),
        ({"guests": 5, "day": "Friday"}, False),
        ({"guests": None, "day": "Friday"}, False),
        ({"day": "Saturday"}, False),
    ],
)
def test_an_acting_call_keeps_to_what_was_agreed(arguments: dict[str, Any], ran: bool) -> None:
    host = tool_bot()
    begun = at_booking(host)
    done = host.say(begun, "go on", calls(("book", arguments)), reply("booking", "Hm."))
    assert [event.name for event in done.of(ev.ToolReturned)] == (["book"] if ran else [])
    assert [event.name for event in done.of(ev.ToolRefused)] == ([] if ran else ["book"])


def test_a_call_that_only_looks_is_not_held_to_it() -> None:
    host = tool_bot()
    done = host.say(
        at_booking(host), "go on", calls(("look", {"guests": 5})), reply("booking", "Hm.")
    )
    assert [event.name for event in done.of(ev.ToolReturned)] == ["look"]


@pytest.mark.parametrize("guests", [4, 5])
def test_an_acting_call_is_refused_when_its_key_changed_since_the_yes(guests: int) -> None:
    host = tool_bot()
    changed = host.say(at_booking(host), "five", reply("booking", "Five.", guests=5)).session
    done = host.say(changed, "go on", calls(("book", {"guests": guests})), reply("booking", "Hm."))
    sentence = "unchanged" if guests == 4 else "bound"
    assert [event.sentence for event in done.of(ev.ToolRefused)] == [sentence]


def test_tools_are_told_what_was_agreed() -> None:
    host = tool_bot()
    host.say(at_booking(host), "go on", calls(("book", {})), reply("booking", "Done."))
    [effect] = [effect for effect in host.asked if hasattr(effect, "calls")]
    assert replace(effect.agreed, id="") == AGREED


def task_bot(task: dict[str, Any], **more: Any) -> Any:
    booking = {
        "kind": "task",
        "execute": "book",
        "acts": True,
        "transitions": [{"target_state": "booked"}],
        **task,
    }
    agrees = {"target_state": "booking", "agrees": True, **more}
    made_states = {**states(confirm={"transitions": [agrees]}), "booking": booking}
    host = worker(made_states, context_schema=SCHEMA)
    host.functions = {"book": lambda effect: "done"}
    return host


def test_an_acting_task_runs_on_what_was_agreed() -> None:
    host = task_bot({})
    done = host.say(at_confirm(host.program), "yes", reply("booking", ""))
    [effect] = [effect for effect in host.asked if isinstance(effect, Execute)]
    assert effect.session.agreement == done.session.agreement is not None
    assert done.session.state == "booked"


@pytest.mark.parametrize(
    ("then", "outcome"), [("raise", "exhausted"), ("continue", "exhausted"), ("collect", None)]
)
def test_an_acting_task_is_refused_when_something_agreed_changed_on_the_way(
    then: str, outcome: str | None
) -> None:
    host = task_bot({"on_exhausted": then}, set={"guests": 8})
    done = host.say(at_confirm(host.program), "yes", reply("booking", ""))
    assert not [effect for effect in host.asked if isinstance(effect, Execute)]
    assert [event.name for event in done.of(ev.ToolRefused)] == ["book"]
    assert done.session.outcome == outcome


def test_a_yes_in_a_flow_binds_the_act_that_follows_there_and_after_it() -> None:
    inner = {"name": "inner", "initial_state": "confirm", "context_schema": SCHEMA,
             "states": {"confirm": CONFIRM, "booked": {}}}  # fmt: skip
    outer = {
        "name": "outer",
        "initial_state": "collect",
        "context_schema": SCHEMA,
        "states": {
            "collect": {**COLLECT, "transitions": [{"target_state": "ask"}]},
            "ask": {"kind": "subflow", "flow": "inner", "input": {"guests": "guests", "day": "day"},
                    "transitions": [{"target_state": "pay"}]},
            "pay": {"purpose": "Which card?"},
        },
    }  # fmt: skip
    made = nested(outer, inner=inner)
    shown = talk(made, "four on Friday", reply("ask", "", guests=4, day="Friday")).session
    assert (shown.flow, shown.state) == ("inner", "confirm")
    but = say(made, shown, "yes, five", reply("booked", "", guests=5)).session
    assert but.state == "confirm"
    done = say(made, but, "yes", reply("booked", ""), reply("pay", "Which card?")).session
    assert (done.state, done.agreement and done.agreement.values["guests"]) == ("pay", 5)
