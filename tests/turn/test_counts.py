"""The system names that count: messages in a state, messages that brought nothing, values that were
refused.
"""

from __future__ import annotations

from typing import Any

from llm_fsm.turn.pipeline import UserMessage
from llm_fsm.turn.steps import begin
from machines import Played, machine, play, reply, start

EMAIL = {"email": {"type": "string", "format": "email"}, "city": {"type": "string"}}


def desk(*moves: dict[str, Any], patterns: tuple[str, ...] = (), **more: Any) -> Any:
    """Asks for an e-mail; `moves`: further transitions of that state."""
    known = [{"requires_context_keys": ["email"]}]
    ask = {
        "purpose": "Ask",
        "required_context_keys": ["email"],
        "transitions": [{"target_state": "done", "conditions": known}, *moves],
        **more.pop("ask", {}),
    }
    states = {
        "ask": ask,
        "done": {"purpose": "Done"},
        "person": {"purpose": "A person", "reply": "A person comes."},
        "hours": {"purpose": "Tell the hours"},
    }
    aside = {"target_state": "hours", "description": "Asks for the hours", "return": True}
    return machine(
        states,
        context_schema={"properties": EMAIL},
        patterns=list(patterns),
        global_transitions=[aside],
        **more,
    )


def said(made: Any, *turns: str | list[str]) -> Played:
    """Play turns from a model's replies to each."""
    session = start(made).session
    for number, replies in enumerate(turns, 1):
        given = [replies] if isinstance(replies, str) else replies
        last = play(begin(made, session, UserMessage(text="x", time=float(number))), given)
        session = last.session
    return last


def counts(made: Any, *turns: str | list[str]) -> tuple[Any, ...]:
    names = said(made, *turns).session.system_names()
    return tuple(names[name] for name in ("_turns_in_state", "_misses", "_refusals"))


def test_messages_that_bring_nothing_are_counted_in_a_row() -> None:
    nothing = reply("ask", "Hm?")
    assert counts(desk(), nothing, nothing) == (2, 2, {})
    assert counts(desk(), nothing, nothing, reply("ask", "Fine.", city="Rome")) == (3, 0, {})
    assert counts(desk(), nothing, reply("ask", "Fine.", city="Rome"), nothing) == (3, 1, {})


def test_a_reply_that_cannot_be_read_is_counted_once() -> None:
    assert counts(desk(), ["nonsense", "more of it"], reply("ask")) == (2, 2, {})


def test_refused_values_are_counted_by_key_until_one_is_kept() -> None:
    bad = reply("ask", "Again?", email="ada at example")
    assert counts(desk(), bad, [reply("done", email="x"), reply("ask", "Again?", email="y")]) == (
        2,
        2,
        {"email": 2},
    )
    good = reply("ask", "Good.", email="ada@example.org")
    assert counts(desk(), bad, good) == (2, 0, {})


def test_digressions_are_no_messages_of_the_state_and_no_misses() -> None:
    aside = reply("hours", "Nine to five.")
    assert counts(desk(), reply("ask"), aside, reply("ask")) == (2, 1, {})
    assert counts(
        desk(patterns=("digress",)), reply("ask"), reply("digress", "Nine."), reply("ask")
    ) == (2, 1, {})


def test_a_third_miss_leads_on_in_its_own_turn() -> None:
    made = desk(
        {
            "target_state": "person",
            "auto": True,
            "conditions": [{"logic": {">=": [{"var": "_misses"}, 3]}}],
        }
    )
    nothing = reply("ask", "Hm?")
    assert said(made, nothing, nothing).session.state == "ask"
    done = said(made, nothing, nothing, nothing)
    assert (done.session.state, done.text.endswith("A person comes.")) == ("person", True)


def test_a_third_refusal_of_a_key_opens_a_way() -> None:
    logic = {">=": [{"var": "_refusals.email"}, 3]}
    made = desk({"target_state": "person", "auto": True, "conditions": [{"logic": logic}]})
    bad = reply("ask", "Again?", email="nobody")
    assert said(made, bad, bad).session.state == "ask"
    assert said(made, bad, bad, bad).session.state == "person"


def test_fixed_words_and_the_next_state_see_the_counts() -> None:
    made = desk(
        ask={"reply": "{% if _misses %}Miss {{ _misses }}. {% endif %}{{ _refusals.email }}E-mail?"}
    )
    assert said(made, reply("ask", ""), reply("ask", "", email="x")).text.endswith(
        "Miss 2. 1E-mail?"
    )
    assert counts(made, reply("ask"), reply("done", email="a@b.org"))[:2] == (0, 0)
