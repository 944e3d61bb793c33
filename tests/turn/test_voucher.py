"""A yes is a voucher: the seven sentences that make it good, each at the doors through which an act
can be reached.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from llm_fsm import ConfigurationError, ConversationConflict, Machine, ModelError
from llm_fsm.events import Acted, Agreed, MoveRefused, ToolRefused
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import fork
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, calls, reply
from llm_fsm.tools.registry import make_tool
from llm_fsm.turn.agreement import is_quoted_yes, is_yes, same

KEYS: dict[str, Any] = {
    "properties": {
        "amount": {"type": "number", "description": "Euros"},
        "name": {"type": "string", "description": "To whom"},
    }
}
KNOWN = [{"requires_context_keys": ["amount", "name"]}]
ASK: dict[str, Any] = {
    "purpose": "How much, and to whom?",
    "required_context_keys": ["amount", "name"],
    "transitions": [{"target_state": "confirm", "description": "Known", "conditions": KNOWN}],
}
WAYS: list[dict[str, Any]] = [
    {"target_state": "act", "description": "The user says yes", "agrees": True},
    {"target_state": "ask", "description": "Something else"},
]
CONFIRM: dict[str, Any] = {
    "reply": "{{ amount }} euros to {{ name }}. Shall I pay?",
    "confirms": ["amount", "name"],
    "transitions": WAYS,
}
AGAIN = [{"target_state": "ask", "description": "Another one"}]
DONE: dict[str, Any] = {"reply": "Paid. Anything else?", "transitions": AGAIN}
BY_FUNCTION: dict[str, Any] = {
    "kind": "task",
    "execute": "pay",
    "acts": True,
    "on_exhausted": "failed",
    "transitions": [{"target_state": "done"}],
}
BY_TOOL: dict[str, Any] = {
    "kind": "task",
    "purpose": "Pay it",
    "acts": True,
    "tools": ["pay"],
    "on_exhausted": "failed",
    "transitions": [{"target_state": "done"}],
}
IN_TALK: dict[str, Any] = {
    "purpose": "Pay it, then say so",
    "tools": ["pay"],
    "transitions": [{"target_state": "ask", "description": "Another one"}],
}
ALL = {"amount": 50, "name": "Ada"}
TO_ADA = reply("confirm", "", **ALL)


class Bank:
    """A machine, what it paid, and the keys of the calls."""

    def __init__(self, act: dict[str, Any], *replies: Any, **changes: Any) -> None:
        states = {
            "ask": ASK,
            "confirm": {**CONFIRM, **changes.pop("confirm", {})},
            "act": act,
            "done": DONE,
            "failed": {"reply": "Not paid."},
        }
        document = {
            "name": "pay",
            "initial_state": "ask",
            "context_schema": KEYS,
            "tools": {"pay": {"registered": "pay", "acts": True, **changes.pop("tool", {})}},
            "states": states,
            **changes,
        }
        self.paid: list[Any] = []
        self.keys: list[str] = []
        self.store = MemoryStore()
        self.machine = Machine.from_dict(
            document, model=ScriptedLLM(list(replies)), store=self.store
        )

        def pay_by_function(ctx: Any) -> str:
            self.keys.append(ctx.key)
            self.paid.append((ctx.context.get("amount"), ctx.context.get("name")))
            return "done"

        def pay(amount: float, name: str) -> str:
            """Pay somebody."""
            self.paid.append((amount, name))
            return f"paid {amount}"

        self.document = document
        self.pay = pay
        self.machine.function(pay_by_function, name="pay")
        self.machine.tool(pay)
        self.machine.tool(lambda: "rain", name="look", description="Look out")
        self.chat = self.machine.start(greet=False, conversation_id="one")

    def say(self, *texts: str) -> Any:
        return [self.chat.send(text) for text in texts][-1]


def sentences(turn: Any) -> list[str]:
    """The sentences that a turn names as broken."""
    refused = (MoveRefused, ToolRefused)
    return [event.sentence for event in turn.events if isinstance(event, refused)]


# -- Whole


def test_whole_a_value_taken_back_with_the_yes_is_asked_for_again() -> None:
    forget = reply("act", "", _clear=["amount"], _quotes={"_clear": "forget the amount"})
    bank = Bank(BY_FUNCTION, TO_ADA, forget, reply("ask", "How much then?"))
    turn = bank.say("50 to Ada", "yes, but forget the amount")
    assert (turn.state, bank.paid, "amount" in turn.context) == ("ask", [], False)
    assert sentences(turn) == ["whole"]


def test_whole_a_blank_that_only_the_program_can_fill_is_a_failure_and_never_a_text() -> None:
    price = {"type": "number", "x-source": "host"}
    confirm = {
        "reply": "{{ amount }} pieces are {{ price }} euros. Right?",
        "confirms": ["amount", "price"],
    }
    bank = Bank(
        BY_FUNCTION,
        TO_ADA,
        confirm=confirm,
        context_schema={"properties": {**KEYS["properties"], "price": price}},
        on_function_error={"reply": "The price is missing. Try later."},
    )
    turn = bank.say("3 of them")
    assert turn.text == "The price is missing. Try later."
    assert bank.paid == []


def test_whole_a_value_that_the_text_shows_only_if_it_is_known_may_be_missing() -> None:
    confirm = {"reply": "{{ amount }} euros{% if name %} to {{ name }}{% endif %}?"}
    bank = Bank(BY_FUNCTION, reply("confirm", "", amount=50), reply("act", ""), confirm=confirm)
    bank.machine.definition.states["ask"].transitions[0].conditions.clear()
    assert bank.chat.update(context={"amount": 50}, state="confirm").text == "50 euros?"


@pytest.mark.parametrize("lost", ["amount", "name"])
@pytest.mark.parametrize("blank", [None, ""])
def test_whole_a_value_that_is_lost_behind_the_read_back_leaves_no_yes(
    lost: str, blank: Any
) -> None:
    keys = {"amount": {"description": "Euros"}, "name": {"description": "To whom"}}
    script = [TO_ADA, reply("act", ""), reply("ask", "?")]
    bank = Bank(BY_FUNCTION, *script, context_schema={"properties": keys})

    @bank.machine.on("post_processing")
    def forgets(occasion: Any) -> Any:
        return {lost: blank}

    turn = bank.say("50 to Ada", "yes")
    assert (bank.paid, sentences(turn)) == ([], ["whole"])


# -- Shown


def test_shown_what_the_reply_leaves_out_the_machine_lists_itself() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, confirm={"reply": "{{ amount }} euros. Shall I pay?"})
    assert bank.say("50 to Ada").text == "Name: Ada\n\n50 euros. Shall I pay?"


def test_shown_without_a_reply_the_machine_reads_back_in_the_language_of_the_definition() -> None:
    confirm = {"reply": None, "purpose": "Bestätigen"}
    bank = Bank(BY_FUNCTION, TO_ADA, confirm=confirm, language="de")
    assert bank.say("50 an Ada").text == "Amount: 50\nName: Ada\n\nStimmt das so?"


def test_shown_a_handler_that_takes_the_value_out_of_the_words_leaves_nothing_to_agree_to() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""))

    @bank.machine.on("post_processing")
    def silent(context: Any) -> Any:
        return "Shall I pay?"

    turn = bank.say("50 to Ada", "yes")
    assert (turn.state, bank.paid, sentences(turn)) == ("confirm", [], ["shown"])


# -- Unchanged


@pytest.mark.parametrize("act", [BY_FUNCTION, BY_TOOL, IN_TALK])
def test_unchanged_a_yes_that_changes_the_value_acts_on_nothing(act: dict[str, Any]) -> None:
    bank = Bank(act, TO_ADA, reply("act", "Paid!", amount=60))
    turn = bank.say("50 to Ada", "yes, but 60")
    assert (turn.state, turn.text, bank.paid) == ("confirm", "60 euros to Ada. Shall I pay?", [])
    assert sentences(turn) == ["unchanged"]


def test_unchanged_a_refused_value_makes_the_yes_void() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, *[reply("act", "Paid!", amount="lots")] * 2)
    turn = bank.say("50 to Ada", "yes, but lots")
    assert (turn.state, bank.paid) == ("confirm", [])


@pytest.mark.parametrize(
    ("changes", "pays"),
    [({"fee": 2}, False), ({"fee": 1}, True), ({"name": "Eve"}, False), ({"other": 1}, True)],
)
def test_unchanged_a_called_flow_is_judged_where_it_is_called(
    changes: dict[str, Any], pays: bool
) -> None:
    fee = {"type": "number", "x-source": "host"}
    keys = {"properties": {**KEYS["properties"], "fee": fee, "other": {"type": "number"}}}
    confirm = {
        **CONFIRM,
        "reply": "{{ amount }} to {{ name }}, and {{ fee }} for us?",
        "confirms": ["amount", "name", "fee"],
    }
    called = {"kind": "subflow", "flow": "payment", "input": {"amount": "amount"}}
    document = {
        "name": "pay",
        "initial_state": "ask",
        "context_schema": keys,
        "states": {
            "ask": ASK,
            "confirm": confirm,
            "act": {**called, "transitions": [{"target_state": "done"}]},
            "done": DONE,
        },
    }
    payment = {
        "name": "payment",
        "initial_state": "act",
        "context_schema": {"properties": {"amount": KEYS["properties"]["amount"]}},
        "states": {
            "act": {**BY_FUNCTION, "on_exhausted": "end", "transitions": [{"target_state": "end"}]},
            "end": {"kind": "final"},
        },
    }
    paid: list[Any] = []
    model = ScriptedLLM([TO_ADA, reply("act", ""), reply("act", "")])
    with Machine.from_dict(document, model=model, flows={"payment": payment}) as machine:
        machine.function(lambda ctx: paid.append(ctx.context["amount"]), name="pay")

        @machine.on("pre_transition")
        def meddle(occasion: Any) -> Any:
            return changes if occasion.target == "act" else None

        chat = machine.start({"fee": 1}, greet=False)
        chat.send("50 to Ada")
        turn = chat.send("yes")
    assert paid == ([50] if pays else [])
    assert (turn.state, "unchanged" in sentences(turn)) == ("done" if pays else "confirm", not pays)


@pytest.mark.parametrize(
    ("act", "changes", "pays"),
    [
        (BY_FUNCTION, {"fee": 2}, False),
        (BY_FUNCTION, {"amount": 7}, False),
        (BY_TOOL, {"fee": 2}, False),
        (BY_TOOL, {"fee": 1}, True),
        (IN_TALK, {"fee": 2}, False),
        (IN_TALK, {"fee": 1.0}, True),
    ],
)
def test_unchanged_a_handler_behind_the_yes_leaves_nothing_to_act_on(
    act: dict[str, Any], changes: dict[str, Any], pays: bool
) -> None:
    fee = {"type": "number", "x-source": "host"}
    confirm = {
        "reply": "{{ amount }} to {{ name }}, and {{ fee }} for us?",
        "confirms": ["amount", "name", "fee"],
    }
    schema = {"properties": {**KEYS["properties"], "fee": fee}}
    script = [TO_ADA, reply("act", "One moment."), PAY, *([reply("act", "Well.")] * 3)]
    bank = Bank(act, *script, confirm=confirm, context_schema=schema)

    @bank.machine.on("post_transition")
    def meddle(occasion: Any) -> Any:
        return changes if occasion.state == "act" else None

    bank.chat.update(context={"fee": 1})
    bank.say("50 to Ada", "yes", *(["go on"] if act is IN_TALK else []))
    assert bank.paid == ([(50, "Ada")] if pays else [])


@pytest.mark.parametrize("taken", ["amount", "name", ""])
def test_unchanged_a_value_that_is_taken_back_in_a_called_flow_is_not_acted_on(taken: str) -> None:
    called = {"kind": "subflow", "flow": "payment", "input": {"amount": "amount", "name": "name"}}
    tools = {"pay": {"registered": "pay", "acts": True}}
    states = {
        "ask": ASK,
        "confirm": CONFIRM,
        "act": {**called, "transitions": [{"target_state": "ask"}]},
    }
    talk = {**IN_TALK, "transitions": [{"target_state": "end", "description": "Done"}]}
    payment = {
        "name": "payment",
        "initial_state": "act",
        "context_schema": KEYS,
        "tools": tools,
        "states": {"act": talk, "end": {"kind": "final"}},
    }
    document = {"name": "pay", "initial_state": "ask", "context_schema": KEYS, "states": states}
    quotes = {"_quotes": {"_clear": "forget it"}}
    forget = reply("act", "Well.", **({"_clear": [taken], **quotes} if taken else {}))
    script = [TO_ADA, reply("act", ""), "One moment.", forget, PAY, reply("act", "Hm.")]
    paid: list[Any] = []
    with Machine.from_dict(
        document, model=ScriptedLLM(script), flows={"payment": payment}
    ) as machine:
        machine.tool(lambda amount, name: paid.append(amount), name="pay", description="Pay")
        chat = machine.start(greet=False)
        for text in ("50 to Ada", "yes", "forget it", "pay now"):
            chat.send(text)
    assert paid == ([] if taken else [50])


@pytest.mark.parametrize("value", [50, 50.0])
def test_unchanged_values_are_compared_as_values(value: Any) -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""))
    bank.say("50 to Ada")
    bank.chat.update(context={"amount": value})
    assert bank.say("yes").state == "done"
    assert [same(50, 50.0), same("50", 50), same(True, 1), same([1], [1.0])] == [
        True,
        True,
        False,
        True,
    ]


# -- Heard


@pytest.mark.parametrize(
    ("heard", "state"),
    [
        ("fifty euros to Ada shall I", "done"),
        ("50 euros to Ada. Shall I", "done"),
        ("50 euros", "confirm"),
        ("", "confirm"),
    ],
)
def test_heard_a_voice_that_was_cut_before_the_values_leaves_no_yes(heard: str, state: str) -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""))
    turn = bank.say("50 to Ada")
    bank.chat.heard(turn.number, heard)
    assert bank.say("yes").state == state


def test_heard_words_of_the_program_in_between_are_said_last() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""), reply("act", ""))
    bank.say("50 to Ada")
    bank.chat.say("We close in five minutes.")
    turn = bank.say("yes")
    assert (turn.state, sentences(turn)) == ("confirm", ["heard"])
    assert bank.say("yes").state == "done"


# -- Said


@pytest.mark.parametrize(
    ("message", "quote", "pays"),
    [
        ("yes please", None, True),
        ("Book it now", "Book it", True),
        ("ok, book it", "book it", True),
        ("No, do not book it!", "book it", False),
        ("No, do not book it!", "No, do not book it!", False),
        ("Book it?", "Book it", False),
        ("book it only if it is free", "book it", False),
        ("book it", "send it", False),
        ("book it", None, False),
        ("Yes. No wait", "Yes", False),
    ],
)
def test_said_a_yes_has_the_users_words(message: str, quote: str | None, pays: bool) -> None:
    quotes = {} if quote is None else {"_quotes": {"_yes": quote}}
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", "Well.", **quotes))
    turn = bank.say("50 to Ada", message)
    assert bool(bank.paid) is pays
    words = [event.words for event in turn.events if isinstance(event, Agreed)]
    assert words == ([quote or message] if pays else [])
    if not pays:
        assert turn.text.endswith("50 euros to Ada. Shall I pay?")


@pytest.mark.parametrize(
    ("language", "yes", "no"),
    [
        ("", "Yes, please.", "Yes, no"),
        ("de", "Ja, gern!", "Ja, aber nicht heute"),
        ("fr", "Oui, s'il vous plaît", "Non merci"),
        ("fr", "D’accord, je confirme", "Oui, mais pas ce soir"),
        ("es", "Sí, claro", "Sí, solo si es gratis"),
        ("es", "Claro que sí, gracias", "No, espere"),
        ("it", "Sì, grazie", "Sì, ma non oggi"),
        ("pt", "Sim, por favor", "Não"),
        ("nl", "Ja graag", "Nee"),
        ("pl", "Tak, proszę", "Nie"),
        ("tr", "Evet lütfen", "Hayır"),
        ("ar", "نعم من فضلك", "لا"),
        ("ja", "はい、お願いします", "いいえ"),
    ],
)
def test_said_each_language_has_its_own_table(language: str, yes: str, no: str) -> None:
    assert is_yes(language, yes)
    assert not is_yes(language, no)
    assert not is_quoted_yes(language, no, no)
    assert not is_yes(language, f"{yes}?")


def test_said_a_turn_in_which_a_tool_ran_gives_none() -> None:
    confirm = {"tools": ["look"], "purpose": "Answer"}
    tools = {"pay": {"registered": "pay", "acts": True}, "look": {"registered": "look"}}
    bank = Bank(
        BY_FUNCTION, TO_ADA, calls(("look", {})), reply("act", ""), confirm=confirm, tools=tools
    )
    turn = bank.say("50 to Ada", "yes")
    assert (bank.paid, sentences(turn)) == ([], ["said"])


PICKED = {"transitions": [{**WAYS[0], "agrees": "picked"}, WAYS[1]]}


@pytest.mark.parametrize(
    ("message", "pays"), [("The user says yes", True), ("1", True), ("yes", False), ("2", False)]
)
def test_said_a_picked_yes_needs_a_choice(message: str, pays: bool) -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""), reply("ask", ""), confirm=PICKED)
    bank.say("50 to Ada")
    assert [choice.label for choice in bank.chat.choices] == ["The user says yes", "Something else"]
    bank.say(message)
    assert bool(bank.paid) is pays


def test_said_a_button_is_a_picked_yes() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, confirm=PICKED)
    bank.say("50 to Ada")
    assert bank.chat.send(bank.chat.choices[0]).state == "done"


@pytest.mark.parametrize(
    ("language", "labels"),
    [
        ("", ["yes", "no"]),
        ("de", ["ja", "nein"]),
        ("fr-CA", ["oui", "non"]),
        ("ja", ["はい", "いいえ"]),
        ("tlh", []),
    ],
)
def test_said_a_read_back_shows_buttons_for_yes_and_no(language: str, labels: list[str]) -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, language=language)
    assert [choice.label for choice in bank.say("50 to Ada").choices] == labels


def test_said_the_button_for_yes_needs_no_model() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA)
    turn = bank.chat.send(bank.say("50 to Ada").choices[0])
    assert (turn.state, turn.usage.calls, bank.paid) == ("done", 0, [(50, "Ada")])


@pytest.mark.parametrize("agrees", [True, "picked"])
@pytest.mark.parametrize("label", ["no", "Not now", "Wait", "Ask my boss", "Later"])
def test_said_a_button_that_is_no_yes_is_none_whatever_a_model_makes_of_it(
    agrees: object, label: str
) -> None:
    ways = [{**WAYS[0], "agrees": agrees}, WAYS[1]]
    confirm = {"transitions": ways, "choices": [{"label": "Pay", "value": "act"}, label]}
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""), reply("ask", ""), confirm=confirm)
    turn = bank.chat.send(bank.say("50 to Ada").choices[1])
    assert (bank.paid, sentences(turn)) == ([], ["said"])


def test_several_ways_of_a_yes_have_no_buttons() -> None:
    ways = [*WAYS, {"target_state": "failed", "description": "Yes, but later", "agrees": True}]
    bank = Bank(BY_FUNCTION, TO_ADA, confirm={"transitions": ways})
    assert bank.say("50 to Ada").choices == ()


# -- Spent

PAY = calls(("pay", ALL))


def test_spent_one_yes_pays_once_however_often_the_model_calls() -> None:
    twice = calls(("pay", ALL), ("pay", ALL))
    bank = Bank(
        IN_TALK,
        TO_ADA,
        reply("act", "One moment."),
        twice,
        reply("act", "Paid."),
        PAY,
        reply("act", "It is paid already."),
    )
    first = bank.say("50 to Ada", "yes", "go on")
    later = bank.say("once more")
    assert bank.paid == [(50, "Ada")]
    assert sentences(first) == sentences(later) == ["spent"]


@pytest.mark.parametrize("act", [BY_FUNCTION, BY_TOOL])
def test_spent_after_undo_and_in_a_fork_the_recorded_result_answers(act: dict[str, Any]) -> None:
    again = [reply("act", ""), *([PAY, "Paid."] if act is BY_TOOL else [])]
    script = [TO_ADA, *again, *again, *again]
    bank = Bank(act, *script)
    assert bank.say("50 to Ada", "yes").state == "done"
    bank.chat.undo()
    assert bank.say("yes").state == "done"
    bank.machine._portal.run(fork(bank.store, "one", "two", 1))
    copy = bank.machine.resume("two")
    assert (copy.state, copy.send("yes").state) == ("confirm", "done")
    assert bank.paid == [(50, "Ada")]


def test_spent_a_new_yes_to_the_same_values_is_a_new_act_with_another_key() -> None:
    bank = Bank(
        BY_FUNCTION,
        TO_ADA,
        reply("act", ""),
        reply("ask", "Again?"),
        reply("confirm", "", name="Ada"),
        reply("act", ""),
    )
    bank.say("50 to Ada", "yes", "another one", "the same again", "yes")
    assert bank.paid == [(50, "Ada")] * len(set(bank.keys))


def test_spent_the_act_is_on_record_with_its_key() -> None:
    bank = Bank(BY_FUNCTION, TO_ADA, reply("act", ""))
    turn = bank.say("50 to Ada", "yes")
    [acted] = [event for event in turn.events if isinstance(event, Acted)]
    assert (acted.act, [acted.key], acted.result["output"]) == ("pay", bank.keys, "done")


def test_spent_in_another_version_of_the_definition_too() -> None:
    bank = Bank(IN_TALK, TO_ADA, reply("act", "One moment."), PAY, reply("act", "Paid."))
    bank.say("50 to Ada", "yes", "go on")
    document = json.loads(json.dumps(bank.document).replace("amount", "sum"))
    document["tools"]["pay"]["binds"] = {"amount": "sum"}
    model = ScriptedLLM([PAY, reply("act", "It is paid already.")])
    with Machine.from_dict(
        document, model=model, store=bank.store, on_change={"keys": {"amount": "sum"}}
    ) as machine:
        machine.tool(bank.pay)
        turn = machine.resume("one").send("once more")
    assert (turn.context["sum"], bank.paid, sentences(turn)) == (50, [(50, "Ada")], ["spent"])


@pytest.mark.parametrize("handled", [True, False])
@pytest.mark.parametrize("act", [BY_TOOL, IN_TALK])
@pytest.mark.parametrize("again", ["yes", "yes please"])
def test_spent_a_turn_that_fails_behind_its_act_leaves_the_act_done(
    act: dict[str, Any], again: str, *, handled: bool
) -> None:
    yes = [reply("act", "One moment.")] if act is IN_TALK else []
    steps = [reply("act", ""), PAY] if act is BY_TOOL else [PAY]
    after = [*steps, reply("act", "Paid.")]
    store = MemoryStore()
    model = ScriptedLLM([TO_ADA, *yes, *steps, ModelError("down"), *after, *after])
    bank = Bank(act)
    with Machine.from_dict(bank.document, model=model, store=store) as machine:
        machine.tool(bank.pay)
        if handled:
            machine.on("error")(lambda _: "Sorry. Once more, please.")
        chat = machine.start(greet=False, conversation_id="two")
        for text in ("50 to Ada", "yes")[: 2 if yes else 1]:
            chat.send(text)
        with nullcontext() if handled else pytest.raises(ModelError):
            chat.send("yes")
        for text in (again, "yes") if chat.state == "confirm" and handled else (again,):
            turn = chat.send(text)
        assert (turn.state, bank.paid) == ("done" if act is BY_TOOL else "act", [(50, "Ada")])
        assert machine._portal.run(examine(store)) == []


# -- Done is what is on record


@pytest.mark.parametrize(
    "wanted",
    [
        calls(("pay", ALL)),
        calls(("pay", ALL), ("pay", ALL)),
        calls(("pay", ALL), ("pay", ALL), ("pay", {**ALL, "amount": 50.0})),
        calls(("pay", {**ALL, "amount": 60})),
        "Paid.",
    ],
)
def test_done_is_no_call_that_failed_or_was_refused_beside_it(wanted: Any) -> None:
    document = {**Bank(BY_TOOL).document, "tools": {"pay": {"registered": "down", "acts": True}}}

    def down(amount: float, name: str) -> str:
        """Pay somebody."""
        raise ConnectionError(f"the bank is down: {amount} to {name}")

    script = [TO_ADA, reply("act", ""), wanted, "Paid.", "Paid."]
    with Machine.from_dict(document, model=ScriptedLLM(script), tools=[down]) as machine:
        chat = machine.start(greet=False)
        chat.send("50 to Ada")
        turn = chat.send("yes")
    assert (turn.state, turn.text) == ("failed", "Not paid.")


@pytest.mark.parametrize(
    ("approved", "before", "end"),
    [
        (True, ["look"], "done"),
        (False, ["look"], "no"),
        (True, [], "done"),
        (False, [], "no"),
        (False, ["look", "look"], "no"),
    ],
)
def test_done_is_no_other_call_in_an_attempt_that_asked_a_person(
    approved: bool, before: list[str], end: str
) -> None:
    task = {**BY_TOOL, "tools": ["pay", "look"], "max_retries": 0, "on_exhausted": "no"}
    document = {
        "name": "desk",
        "initial_state": "act",
        "tools": {
            "pay": {"registered": "pay", "approval": True, "acts": True},
            "look": {"registered": "look"},
        },
        "states": {
            "act": task,
            "done": {"kind": "final", "reply": "Paid."},
            "no": {"kind": "final", "reply": "Not paid."},
        },
    }
    bank = Bank(BY_TOOL)
    script = [*(calls((name, {})) for name in before), PAY, "Paid."]
    with Machine.from_dict(document, model=ScriptedLLM(script), allow_unsafe=True) as machine:
        machine.tool(bank.pay)
        machine.tool(lambda: "rain", name="look", description="Look out")
        machine.run(conversation_id="one")
        turn = machine.answer("one", {"approved": approved})
    assert (turn.state, bool(bank.paid)) == (end, approved)


# -- Bound


@pytest.mark.parametrize(
    ("arguments", "pays"),
    [
        (ALL, True),
        ({"amount": 50.0, "name": "Ada"}, True),
        ({"amount": 500, "name": "Ada"}, False),
        ({"amount": 50, "name": "Eve"}, False),
        ({"amount": 50}, False),
    ],
)
@pytest.mark.parametrize("act", [BY_TOOL, IN_TALK])
def test_bound_a_call_keeps_to_what_was_read_back(
    act: dict[str, Any], arguments: dict[str, Any], pays: bool
) -> None:
    said = [reply("act", "Hm."), calls(("pay", arguments)), *([reply("act", "Hm.")] * 3)]
    bank = Bank(act, TO_ADA, *said)
    turn = bank.say("50 to Ada", "yes")
    if act is IN_TALK:
        turn = bank.say("go on")
    assert bank.paid == ([(50, "Ada")] if pays else [])
    if not pays and len(arguments) == 2:
        assert "bound" in sentences(turn)


def test_bound_the_program_moves_to_an_act_only_if_it_says_yes_itself() -> None:
    bank = Bank(BY_FUNCTION)
    with pytest.raises(ConversationConflict, match="agreed=True"):
        bank.chat.update(context=ALL, state="act")
    with pytest.raises(ConversationConflict, match="agreed=True"):
        bank.machine.start(context=ALL, state="act")
    turn = bank.chat.update(context=ALL, state="act", agreed=True)
    assert [event.by for event in turn.events if isinstance(event, Agreed)] == ["host"]
    assert bank.paid == [(50, "Ada")]


def test_bound_other_names_of_arguments_are_an_error_when_the_tool_is_registered() -> None:
    document: dict[str, Any] = {
        "name": "pay",
        "initial_state": "ask",
        "context_schema": KEYS,
        "tools": {"pay": {"registered": "pay", "acts": True}},
        "states": {
            "ask": ASK,
            "confirm": CONFIRM,
            "act": BY_TOOL,
            "done": DONE,
            "failed": {"reply": "Not paid."},
        },
    }
    paid: list[Any] = []

    def pay(euros: float, to: str, note: str = "") -> str:
        """Pay somebody."""
        paid.append((euros, to))
        return "done"

    machine = Machine.from_dict(document, model=ScriptedLLM([]), tools=[pay])
    with machine, pytest.raises(ConfigurationError, match=r"'euros'.*binds.*free"):
        machine.start(greet=False)
    document["tools"]["pay"] |= {"binds": {"euros": "amount", "to": "name"}, "free": ["note"]}
    script = [TO_ADA, reply("act", "")]
    for call in ({"euros": 500, "to": "Eve"}, {"euros": 50, "to": "Ada", "note": "rent"}):
        script += [calls(("pay", call))]
    with Machine.from_dict(document, model=ScriptedLLM([*script, "Paid."]), tools=[pay]) as machine:
        chat = machine.start(greet=False)
        chat.send("50 to Ada")
        turn = chat.send("yes")
    assert (turn.state, paid, sentences(turn)) == ("done", [(50, "Ada")], ["bound"])


def test_bound_the_program_may_bind_and_free_arguments_where_it_registers_the_tool() -> None:
    paid: list[Any] = []

    def settle(euros: float, to: str, note: str = "") -> str:
        """Pay somebody."""
        paid.append((euros, to, note))
        return "done"

    document = {**Bank(BY_TOOL).document, "tools": {"pay": {"registered": "settle"}}}
    bound = make_tool(settle, acts=True, binds={"euros": "amount", "to": "name"}, free=["note"])
    script = [TO_ADA, reply("act", "")]
    for call in ({"euros": 500, "to": "Ada"}, {"euros": 50, "to": "Ada", "note": "rent"}):
        script += [calls(("pay", call))]
    with Machine.from_dict(
        document, model=ScriptedLLM([*script, "Paid."]), tools=[bound]
    ) as machine:
        chat = machine.start(greet=False)
        chat.send("50 to Ada")
        turn = chat.send("yes")
    assert (turn.state, paid, sentences(turn)) == ("done", [(50, "Ada", "rent")], ["bound"])
