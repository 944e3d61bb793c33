"""Flows within flows: contexts apart, values by mappings alone, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm._json import read, text_of
from llm_fsm.engine.validation import check_open
from llm_fsm.errors import ConversationConflict
from llm_fsm.session import events as ev
from llm_fsm.session.session import dump_session, parse_session
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel
from llm_fsm.turn.pipeline import UserMessage
from llm_fsm.turn.steps import begin
from llm_fsm.turn.turn_state import HostCapabilities
from machines import Played, machine, nested, reply, say, start, talk

PAY: dict[str, Any] = {
    "name": "pay",
    "initial_state": "card",
    "context_schema": {
        "properties": {
            "amount": {"type": "number"},
            "card": {"type": "string", "x-secret": True},
            "paid": {"type": "boolean", "x-source": "host"},
            "note": {"type": "string", "maxLength": 5},
        }
    },
    "states": {
        "card": {
            "purpose": "Ask for the card",
            "required_context_keys": ["card"],
            "transitions": [
                {"target_state": "paid", "conditions": [{"requires_context_keys": ["card"]}]},
                {"target_state": "declined", "description": "The user will not pay"},
            ],
        },
        "paid": {"reply": "You paid {{ amount }}."},
        "declined": {"purpose": "Say that nothing was paid"},
    },
}


def shop(**subflow: Any) -> dict[str, Any]:
    state = {
        "kind": "subflow",
        "flow": "pay",
        "input": {"amount": "total"},
        "output": {"note": "note"},
        "transitions": [
            {"target_state": "sent", "on": "paid"},
            {"target_state": "cart", "on": "default"},
        ],
        **subflow,
    }
    return {
        "name": "shop",
        "initial_state": "cart",
        "persona": "A cheerful grocer",
        "states": {
            "cart": {
                "purpose": "Ask what to buy",
                "transitions": [
                    {"target_state": "pay", "conditions": [{"requires_context_keys": ["total"]}]}
                ],
            },
            "pay": state,
            "sent": {"purpose": "Ask for the address", "transitions": [{"target_state": "end"}]},
            "end": {},
        },
    }


SHOP = nested(shop(), pay=PAY)


def into(program: Any = SHOP) -> Played:
    return talk(program, "apples", reply("pay", "Right.", total=5), reply("card", "Which card?"))


def test_a_subflow_begins_with_what_it_is_given_and_one_call_speaks_for_it() -> None:
    done = into()
    assert (done.session.flow, done.session.state, done.session.context) == (
        "pay",
        "card",
        {"amount": 5},
    )
    assert (done.text, done.usage.calls) == ("Right.\n\nWhich card?", 2)
    assert done.session.root_context() == {"total": 5}
    assert done.session.origins == {"amount": (1, "model")}
    [pushed] = done.of(ev.FlowPushed)
    assert (pushed.kind, pushed.state, pushed.flow, pushed.entered) == (
        "subflow",
        "pay",
        "pay",
        "card",
    )


def test_a_subflow_has_a_prompt_and_keys_of_its_own_and_the_callers_persona_and_history() -> None:
    done = say(SHOP, into().session, "the blue one", reply("card", "Its number?"))
    system, user = (message.content for message in done.requests[0].messages)
    assert "A cheerful grocer" in system
    assert "card" in system
    assert "total" not in system + user
    assert done.session.window == (
        ("apples", "Right.\n\nWhich card?"),
        ("the blue one", "Its number?"),
    )
    back = say(
        SHOP,
        done.session,
        "no",
        reply("declined", "Nothing was paid."),
        reply("cart", "What else?"),
    )
    assert back.session.window == (*done.session.window, ("no", "Nothing was paid.\n\nWhat else?"))


def test_the_history_has_no_hole_around_a_flow_and_the_next_prompt_begins_with_it() -> None:
    first = say(
        SHOP, start(SHOP, reply("cart", "Hello!"), greet=True).session, "hi", reply("cart", "What?")
    )
    inside = say(
        SHOP, first.session, "apples", reply("pay", "Right.", total=5), reply("card", "Which card?")
    )
    assert (
        inside.requests[1]
        .messages[1]
        .content.startswith(
            '<conversation_history>\n[{"system":"Hello!"},{"user":"hi"},{"system":"What?"}]'
        )
    )
    back = say(
        SHOP,
        inside.session,
        "no",
        reply("declined", "Nothing was paid."),
        reply("cart", "What else?"),
    )
    prompt = say(SHOP, back.session, "pears", reply("cart")).prompt
    history = json.loads(
        prompt.split("<conversation_history>\n")[1].split("\n</conversation_history>")[0]
    )
    said = [message["user"] for message in history if "user" in message]
    assert said == ["hi", "apples", "no"]


def test_facts_without_a_key_are_carried_out_of_a_flow() -> None:
    told = say(
        SHOP,
        into().session,
        "the blue one, for my dog",
        reply("card", "Its number?", _extra={"pet": "dog"}),
    )
    back = say(
        SHOP,
        told.session,
        "no",
        reply("declined", "Nothing was paid."),
        reply("cart", "What else?"),
    )
    assert back.session.context["_extra"] == {"pet": "dog"}


def test_its_final_state_brings_it_back_and_the_label_of_that_state_leads_on() -> None:
    done = say(
        SHOP,
        into().session,
        "4111",
        reply("paid", "Thanks.", card="4111"),
        reply("sent", "Where to?"),
    )
    assert (done.session.flow, done.session.state, done.session.stack) == ("", "sent", ())
    assert done.text == "Thanks.\n\nYou paid 5.\n\nWhere to?"
    assert done.session.context == {"total": 5}
    [returned] = done.of(ev.FlowReturned)
    assert (returned.state, returned.ended, returned.how) == ("pay", "paid", "final")
    assert [event.by for event in done.of(ev.StateEntered)] == ["model", "flow"]


def test_another_final_state_leads_elsewhere() -> None:
    done = say(SHOP, into().session, "no", reply("declined", "Fine."), reply("cart", "What else?"))
    assert (done.session.state, done.text) == ("cart", "Fine.\n\nWhat else?")


def test_conditions_lead_on_over_what_the_flow_gave_back() -> None:
    moves = [
        {"target_state": "sent", "conditions": [{"requires_context_keys": ["note"]}]},
        {"target_state": "cart"},
    ]
    program = nested(shop(transitions=moves), pay=PAY)
    noted = say(
        program,
        into(program).session,
        "x",
        reply("declined", "Ok", note="ring"),
        reply("sent", "?"),
    )
    assert (noted.session.state, noted.session.context["note"]) == ("sent", "ring")
    assert noted.of(ev.ContextSet)[-1] == ev.ContextSet(source="model", values={"note": "ring"})
    assert (
        say(program, into(program).session, "x", reply("declined"), reply("cart")).session.state
        == "cart"
    )


def test_secrets_of_a_flow_reach_neither_the_callers_prompt_nor_its_history() -> None:
    done = say(
        SHOP,
        into().session,
        "it is 4111",
        reply("paid", "4111, thanks", card="4111"),
        reply("sent", "Where?"),
    )
    assert "4111" not in done.requests[1].messages[1].content
    assert "4111" not in dump_session(done.session)
    entered = talk(
        nested({**shop(), "context_schema": {"properties": {"total": {"type": "number"}, "note": {"type": "string"},
               "pin": {"type": "string", "x-secret": True}}}}, pay=PAY),
        "pin 9876", reply("pay", "ok", total=1, pin="9876"), reply("card", "Card?"),
    )  # fmt: skip
    assert "9876" not in entered.requests[1].messages[1].content
    assert entered.session.window == (("pin •••", "ok\n\nCard?"),)


def test_a_key_with_a_dot_counts_as_written_by_whoever_wrote_it_in_the_flow() -> None:
    document = shop(output={"checked": "note.text"})
    document["context_schema"] = {
        "properties": {
            "total": {"type": "number"},
            "checked": {"type": "string", "x-source": "host"},
        }
    }
    pay = {
        **PAY,
        "context_schema": {"properties": {**PAY["context_schema"]["properties"], "note.text": {}}},
    }
    program = nested(document, pay=pay)
    said = reply("declined", "Ok", **{"note.text": "ring"})
    done = say(program, into(program).session, "x", said, reply("cart", "?"))
    assert "checked" not in done.session.context
    assert [refused.key for refused in done.of(ev.ContextRefused)] == ["checked"]


def test_a_value_counts_as_written_by_whoever_wrote_it_in_the_flow() -> None:
    document = shop(output={"checked": "note"})
    document["context_schema"] = {
        "properties": {
            "total": {"type": "number"},
            "checked": {"type": "string", "x-source": "host"},
        }
    }
    program = nested(document, pay=PAY)
    done = say(
        program,
        into(program).session,
        "x",
        reply("declined", "Ok", note="ring"),
        reply("cart", "?"),
    )
    assert "checked" not in done.session.context
    [refused] = done.of(ev.ContextRefused)
    assert (refused.key, refused.reason) == (
        "checked",
        "only host may write this key, and the value came from model",
    )


def test_a_flow_gives_back_no_part_that_a_model_wrote_and_that_is_a_key_of_the_program() -> None:
    pay = {**PAY, "context_schema": {"properties": {"payer": {"type": "object"}}}}
    document = shop(input={}, output={"user": "payer"})
    keys = {
        "total": {"type": "number"},
        "user": {"type": "object"},
        "user.tier": {"x-source": "host"},
    }
    document["context_schema"] = {"properties": keys}
    program = nested(document, pay=pay)
    for payer, kept in (({"name": "Ada"}, True), ({"name": "Ada", "tier": "gold"}, False)):
        done = say(
            program,
            into(program).session,
            "x",
            reply("declined", "Ok", payer=payer),
            reply("cart", "?"),
        )
        assert ("user" in done.session.context) is kept
        assert [refused.reason for refused in done.of(ev.ContextRefused)] == [
            "user.tier is for the program to write"
        ] * (not kept)


def test_a_value_that_the_flows_schema_refuses_does_not_enter_and_the_model_is_told() -> None:
    program = nested(shop(input={"amount": "total", "note": "wish"}), pay=PAY)
    done = talk(
        program, "x", reply("pay", "ok", total=1, wish="far too long"), reply("card", "Card?")
    )
    assert done.session.context == {"amount": 1}
    assert "<refused>" in done.requests[1].messages[1].content


def test_an_input_that_is_not_set_is_left_out() -> None:
    program = nested(shop(input={"amount": "total", "note": "wish"}), pay=PAY)
    assert into(program).session.context == {"amount": 5}


def test_a_subflow_without_transitions_ends_the_run_as_passed() -> None:
    program = nested(shop(transitions=[]), pay=PAY)
    done = say(program, into(program).session, "no", reply("declined", "Fine."))
    assert (done.session.ended, done.session.outcome) == (True, "passed")


def test_a_subflow_that_nothing_follows_is_stuck() -> None:
    moves = [{"target_state": "sent", "conditions": [{"requires_context_keys": ["never"]}]}]
    program = nested(shop(transitions=moves), pay=PAY)
    done = say(program, into(program).session, "no", reply("declined", "Fine."))
    assert (done.session.outcome, done.session.state) == ("stuck", "pay")


INNER: dict[str, Any] = {
    "name": "inner",
    "initial_state": "sum",
    "states": {
        "sum": {"kind": "decide", "transitions": [{"target_state": "ask"}]},
        "ask": {"reply": "How many?", "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Noted."},
    },
}
OUTER: dict[str, Any] = {
    "name": "outer",
    "initial_state": "call",
    "states": {"call": {"kind": "subflow", "flow": "inner", "output": {"n": "n"},
                        "transitions": [{"target_state": "over"}]},
               "over": {"reply": "Outer is done with {{ n }}."}},
}  # fmt: skip
ROOT: dict[str, Any] = {
    "name": "root",
    "initial_state": "first",
    "states": {"first": {"kind": "subflow", "flow": "outer", "output": {"count": "n"},
                         "transitions": [{"target_state": "end"}]},
               "end": {"reply": "All done: {{ count }}."}},
}  # fmt: skip
DEEP = nested(ROOT, outer=OUTER, inner=INNER)


def test_flows_nest_from_the_first_state_on_and_come_back_all_at_once() -> None:
    begun = start(DEEP, greet=True)
    assert (begun.session.flow, begun.session.state, begun.text) == ("inner", "ask", "How many?")
    assert [frame.saved["flow"] for frame in begun.session.stack] == ["", "outer"]
    assert [frame.saved["state"] for frame in begun.session.stack] == ["first", "call"]
    done = say(DEEP, begun.session, "three", reply("done", "Three.", n=3))
    assert (done.session.flow, done.session.state, done.session.ended) == ("", "end", True)
    assert done.text == "Three.\n\nNoted.\n\nOuter is done with 3.\n\nAll done: 3."
    assert done.usage.calls == 1


def test_the_roots_limits_bound_all_flows() -> None:
    program = nested({**ROOT, "limits": {"auto_steps": 2}}, outer=OUTER, inner=INNER)
    done = start(program, greet=True)
    assert [event.limit for event in done.of(ev.LimitReached)] == ["auto_steps"]
    assert done.text == "Sorry, I cannot continue with this."


@pytest.mark.parametrize(("whole", "own", "left"), [(20, 5, 20), (20, None, 20), (None, 5, None)])
def test_a_call_in_a_flow_has_the_time_of_the_root(
    whole: int | None, own: int | None, left: int | None
) -> None:
    program = nested(
        {**shop(), "limits": {"seconds": whole}}, pay={**PAY, "limits": {"seconds": own}}
    )
    step = begin(
        program, into(program).session, UserMessage(text="4111", time=2000.0), HostCapabilities()
    )
    assert isinstance(step.effect, AskModel)
    assert step.effect.left == left


@pytest.mark.parametrize("played", [into(), start(DEEP)], ids=["one", "two"])
def test_a_session_within_flows_survives_its_json_form(played: Played) -> None:
    text = dump_session(played.session)
    assert parse_session(text) == played.session
    events = [read(json.loads(text_of(event)), ev.AnyEvent, "event") for event in played.events]
    assert events == list(played.events)


def test_a_session_without_flows_is_written_as_before() -> None:
    document = json.loads(dump_session(start(machine({"a": {"reply": "Hi"}})).session))
    assert not {"flow", "stack"} & document.keys()


def test_a_conversation_within_a_flow_that_the_machine_lacks_is_a_conflict() -> None:
    session = into().session
    check_open(SHOP, session)
    with pytest.raises(ConversationConflict, match="does not have"):
        check_open(
            machine({"cart": {"transitions": [{"target_state": "end"}]}, "end": {}}), session
        )


def test_no_end_of_a_flow_is_shown_as_the_end_of_the_conversation() -> None:
    called = say(SHOP, into().session, "hm", reply("card"))
    assert 'Then say: "Say that nothing was paid"' in called.prompt
    assert "end" not in called.requests[0].targets


# -- what the definitions around a flow still hold


HOLDING = nested(
    {
        **shop(input={"amount": "total"}),
        "patterns": ["correct"],
        "context_schema": {
            "properties": {
                "total": {"type": "number", "description": "What it costs"},
                "note": {"type": "string"},
                "pin": {"type": "string", "x-secret": True},
                "tier": {"type": "string", "x-source": "host"},
            }
        },
    },
    pay=PAY,
)


def test_a_flow_is_shown_answers_around_it_and_no_secrets() -> None:
    begun = talk(
        HOLDING, "apples", reply("pay", "Right.", total=5, pin="9876"), reply("card", "Which card?"),
        context={"tier": "gold"},
    )  # fmt: skip
    done = say(HOLDING, begun.session, "the blue one", reply("card", "Its number?"))
    shown = "<further_context_keys>\ntotal (number): What it costs\n</further_context_keys>\n"
    assert done.prompt.startswith(shown)  # what stays the same in a flow is cached with the history
    assert '<current_context>\n{"total":5,"amount":5}\n' in done.prompt
    assert "9876" not in done.prompt
    assert "gold" not in done.prompt


def test_an_answer_around_a_flow_changes_there_and_where_the_flow_was_given_it() -> None:
    begun = talk(HOLDING, "apples", reply("pay", "Right.", total=5), reply("card", "Which card?"))
    done = say(HOLDING, begun.session, "no, six", reply("correct", "Six.", total="6"))
    assert (done.session.root_context(), done.session.context) == ({"total": 6}, {"amount": 6})
    assert (done.session.state, done.text) == ("card", "Six.\n\nStill needed: card.")
    assert done.of(ev.AnswersChanged) == [ev.AnswersChanged(frame=0, values={"total": 6})]
    assert parse_session(dump_session(done.session)) == done.session


def given_total(schema: dict[str, Any]) -> CompiledMachine:
    """A shop whose flow is given the total under its own name, where it has this schema."""
    properties = {**PAY["context_schema"]["properties"], "total": schema}
    pay = {**PAY, "context_schema": {"properties": properties}}
    return nested({**shop(input={"total": "total"}, output={}), "patterns": ["correct"]}, pay=pay)


def test_an_answer_that_a_flow_was_given_under_its_own_name_and_may_not_write_is_changed_around_it() -> (
    None
):
    around = given_total({"type": "number", "x-source": "host"})
    begun = talk(around, "apples", reply("pay", "Right.", total=5), reply("card", "Which card?"))
    done = say(around, begun.session, "no, six", reply("correct", "Six.", total=6))
    assert done.prompt.startswith("<further_context_keys>\ntotal\n</further_context_keys>\n")
    assert (done.session.root_context(), done.session.context) == ({"total": 6}, {"total": 6})


def test_a_key_that_a_flow_may_write_itself_is_changed_in_it_alone() -> None:
    around = given_total({"type": "number"})
    begun = talk(around, "apples", reply("pay", "Right.", total=5), reply("card", "Which card?"))
    done = say(around, begun.session, "no, six", reply("correct", "Six.", total=6))
    assert (done.session.root_context(), done.session.context) == ({"total": 5}, {"total": 6})


@pytest.mark.parametrize("key", ["pin", "tier", "unheard"])
def test_nothing_else_around_a_flow_is_changed_by_a_reply_in_it(key: str) -> None:
    begun = talk(
        HOLDING, "apples", reply("pay", "Right.", total=5, pin="9876"), reply("card", "Which card?"),
        context={"tier": "gold"},
    )  # fmt: skip
    done = say(HOLDING, begun.session, "x", reply("correct", "Done.", **{key: "new"}))
    assert done.session.root_context() == begun.session.root_context()
    assert done.of(ev.AnswersChanged) == []


def test_without_the_pattern_nothing_around_a_flow_is_changed() -> None:
    done = say(SHOP, into().session, "six", reply("card", "Six.", total=6))
    assert done.session.root_context() == {"total": 5}


@pytest.mark.parametrize("patterns", [[], ["correct"]])
def test_a_value_for_an_open_key_of_a_caller_is_taken_in_a_flow(patterns: list[str]) -> None:
    """A person gives the telephone number with the address."""
    keys = {"phone": {"type": "string"}, "tier": {"type": "string", "x-source": "host"}}
    outer = {
        "name": "order",
        "initial_state": "where",
        "patterns": patterns,
        "context_schema": {"properties": keys},
        "states": {
            "where": {
                "kind": "subflow",
                "flow": "address",
                "transitions": [{"target_state": "call"}],
            },
            "call": {
                "purpose": "Which number?",
                "required_context_keys": ["phone"],
                "transitions": [{"target_state": "end"}],
            },
            "end": {},
        },
    }
    inner = {
        "name": "address",
        "initial_state": "street",
        "context_schema": {"properties": {"street": {"type": "string"}}},
        "states": {
            "street": {
                "purpose": "Which street?",
                "required_context_keys": ["street"],
                "transitions": [{"target_state": "z"}],
            },
            "z": {},
        },
    }
    order = nested(outer, address=inner)
    asked = start(order, reply("street", "Which street?"), greet=True)
    said = "Main Street 5, and my number is 0123"
    done = say(order, asked.session, said, reply("street", "Noted.", street="5", phone="0123"))
    update = done.requests[0].schema.schema["properties"]["context_update"]["properties"]
    assert {name for name in update if not name.startswith("_")} == {"street", "phone"}
    assert done.session.root_context() == {"phone": "0123"}


BANK: dict[str, Any] = {
    "name": "bank",
    "initial_state": "iban",
    "context_schema": {"properties": {"iban": {"type": "string"}, "sum": {"type": "number"}}},
    "states": {"iban": {"purpose": "IBAN?", "required_context_keys": ["iban"], "transitions": [{"target_state": "ok"}]},
               "ok": {"reply": "{{ sum }} by {{ iban }}."}},
}  # fmt: skip
METHOD: dict[str, Any] = {
    "name": "method",
    "initial_state": "which",
    "context_schema": {"properties": {"method": {"enum": ["card", "bank"]}, "price": {"type": "number"}}},
    "global_transitions": [{"target_state": "fees", "return": True}],
    "states": {
        "which": {"purpose": "Card or bank?", "required_context_keys": ["method"], "transitions": [
            {"target_state": "bank", "conditions": [{"logic": {"==": [{"var": "method"}, "bank"]}}]},
            {"target_state": "paid", "conditions": [{"logic": {"==": [{"var": "method"}, "card"]}}]}]},
        "bank": {"kind": "subflow", "flow": "bank", "input": {"sum": "price"},
                 "transitions": [{"target_state": "paid"}]},
        "paid": {"reply": "{{ price }} by {{ method }}."},
        "fees": {"reply": "No fees."},
    },
}  # fmt: skip
AROUND = nested(
    {
        "name": "deep",
        "initial_state": "item",
        "patterns": ["correct", "cancel"],
        "context_schema": {"properties": {"amount": {"type": "number"}, "code": {"type": "string"}}},
        "global_transitions": [
            {"target_state": "code", "return": True, "conditions": [{"logic": {">": [{"var": "amount"}, 100]}}]}],
        "states": {
            "item": {"purpose": "For how much?", "required_context_keys": ["amount"], "transitions": [
                {"target_state": "pay", "conditions": [{"logic": {">": [{"var": "amount"}, 50]}}]},
                {"target_state": "free", "conditions": [{"logic": {"<=": [{"var": "amount"}, 50]}}]}]},
            "pay": {"kind": "subflow", "flow": "method", "input": {"price": "amount"},
                    "transitions": [{"target_state": "done"}]},
            "free": {"reply": "On the house."},
            "done": {"reply": "Bye."},
            "code": {"purpose": "Which code?", "required_context_keys": ["code"],
                     "transitions": [{"target_state": "told"}]},
            "told": {"purpose": "Thank for the code"},
        },
    },
    method=METHOD,
    bank=BANK,
)  # fmt: skip


def deep(*replies: str) -> Played:
    """A conversation two flows deep, and then these replies."""
    done = talk(AROUND, "80", reply("pay", "Fine.", amount=80))
    done = say(AROUND, done.session, "bank", reply("bank", "Ok.", method="bank"))
    for one in replies:
        done = say(AROUND, done.session, "…", one)
    return done


def test_an_answer_that_changes_is_handed_on_through_all_flows() -> None:
    done = deep(reply("correct", "120.", amount=120), reply("ok", "", iban="DE1"))
    assert done.text == "120 by DE1.\n\n120 by bank.\n\nBye."


def test_what_a_flow_has_made_of_what_it_was_given_stays() -> None:
    done = deep(reply("iban", "?", sum=70), reply("correct", "120.", amount=120))
    assert (done.session.context["sum"], done.session.root_context()["amount"]) == (70, 120)


def test_flows_are_left_up_to_the_one_that_goes_another_way() -> None:
    done = deep(reply("correct", "By card.", method="card"))
    assert (done.session.flow, done.session.state, done.text) == (
        "method",
        "which",
        "By card.\n\nCard or bank?",
    )
    done = deep(reply("correct", "40.", amount=40))
    assert (done.session.state, done.session.stack, done.text) == (
        "item",
        (),
        "40.\n\nFor how much?",
    )
    assert [event.how for event in done.of(ev.FlowReturned)] == ["corrected", "corrected"]


def test_digressions_of_all_definitions_around_a_flow_are_offered_where_their_conditions_hold() -> (
    None
):
    done = deep(reply("fees", ""))
    assert (done.session.state, done.text) == ("iban", "No fees.\n\nIBAN?")
    refused = say(
        AROUND, done.session, "code", reply("code", "Which?"), reply("iban", "Later.", "IBAN?")
    )
    assert refused.session.state == "iban"
    done = deep(reply("correct", "120.", amount=120), reply("code", "Which code?"))
    assert (done.session.flow, done.session.state, done.session.root_context()) == (
        "",
        "code",
        {"amount": 120},
    )
    done = say(AROUND, done.session, "C1", reply("told", "Thanks.", code="C1"))
    assert (done.session.flow, done.session.state) == ("bank", "iban")
    assert done.session.root_context() == {"amount": 120, "code": "C1"}
    assert done.text == "Thanks.\n\nIBAN?"


def test_an_answer_that_changes_in_a_digression_around_a_flow_counts_when_it_comes_back() -> None:
    begun = (reply("correct", "120.", amount=120), reply("code", "Which code?"))
    done = deep(*begun, reply("told", "Thanks.", code="C1", amount=90), reply("ok", "", iban="DE1"))
    assert done.text.startswith("90 by DE1.")
    done = deep(*begun, reply("told", "Thanks.", code="C1", amount=40))
    assert (done.session.state, done.session.stack, done.text) == (
        "item",
        (),
        "Thanks.\n\nFor how much?",
    )


def test_what_is_said_about_a_flow_counts_though_a_changed_answer_leads_another_way_in_it() -> None:
    bank = {
        **BANK,
        "initial_state": "size",
        "patterns": ["correct"],
        "states": {
            "size": {"kind": "decide", "transitions": [
                {"target_state": "big", "conditions": [{"logic": {">": [{"var": "sum"}, 100]}}]},
                {"target_state": "iban"}]},
            "big": {"purpose": "Who signs?", "transitions": [{"target_state": "ok"}]},
            **BANK["states"],
        },
    }  # fmt: skip
    around = nested(
        {
            "name": "shop",
            "initial_state": "item",
            "patterns": ["correct"],
            "context_schema": {"properties": {"amount": {"type": "number"}}},
            "global_transitions": [{"target_state": "help", "return": True}],
            "states": {
                "item": {"purpose": "For how much?", "required_context_keys": ["amount"],
                         "transitions": [{"target_state": "pay"}]},
                "pay": {"kind": "subflow", "flow": "bank", "input": {"sum": "amount"},
                        "transitions": [{"target_state": "done"}]},
                "done": {"reply": "Bye."},
                "help": {"purpose": "Help", "transitions": [{"target_state": "helped"}]},
                "helped": {"purpose": "Ask if that is all"},
            },
        },
        bank=bank,
    )  # fmt: skip
    done = talk(around, "80", reply("pay", "Fine.", amount=80))
    done = say(around, done.session, "Wait", reply("help", "Yes?"))
    assert (done.session.flow, done.session.state) == ("", "help")
    done = say(
        around, done.session, "DE1, and make it 120", reply("iban", "120.", amount=120, iban="DE1")
    )
    assert (done.session.flow, done.session.state) == ("bank", "big")
    assert done.session.context == {"sum": 120, "iban": "DE1"}
