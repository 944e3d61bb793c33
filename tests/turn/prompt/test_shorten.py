"""A prompt that is longer than a model's context is made shorter, step by step."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.turn.prompt.shorten import shortened, size_of
from machines import machine, reply, say, start


def long_request() -> LLMRequest:
    """The question of a conversation with eight long exchanges and a described key."""
    keys = {
        name: {"type": "string", "description": f"What is meant by {name}. " * 20}
        for name in ("city", "note")
    }
    states = {
        "a": {
            "purpose": "Which city?",
            "required_context_keys": ["city"],
            "transitions": [{"target_state": "b"}],
        },
        "b": {},
    }
    made = machine(states, context_schema={"properties": keys})
    session = start(made, greet=False).session
    for number in range(8):
        said = f"message {number} <b>" + " and so on" * 40
        played = say(made, session, said, reply("a", f"answer {number}" + " well" * 40))
        session = played.session
    return say(made, session, "And now?", reply("a")).requests[0]


def history(request: LLMRequest) -> list[dict[str, str]]:
    text = request.messages[1].content
    inside = text.partition("<conversation_history>\n")[2].partition("\n</conversation_history>")[0]
    return json.loads(inside) if inside else []


def test_a_prompt_that_fits_stays_as_it_is() -> None:
    request = long_request()
    assert shortened(request, size_of(request)) == (request, ())


def test_the_oldest_exchanges_go_first() -> None:
    request = long_request()
    shorter, left_out = shortened(request, size_of(request) - 200)
    assert left_out == ("history",)
    assert size_of(shorter) <= size_of(request) - 200
    assert 0 < len(history(shorter)) < len(history(request))
    assert history(shorter) == history(request)[-len(history(shorter)) :]
    assert shorter.messages[0] == request.messages[0]


def test_descriptions_of_keys_that_are_not_asked_for_go_last() -> None:
    shorter, left_out = shortened(long_request(), 450)
    assert left_out == ("history", "keys")
    assert "conversation_history" not in shorter.messages[1].content
    system = shorter.messages[0].content
    assert "city: What is meant by city." in system
    assert "\nnote\n</context_keys>" in system
    assert shorter.messages[1].content.endswith('<user_input>\n"And now?"\n</user_input>\n')


def test_results_of_tools_go_after_the_history() -> None:
    request = long_request()
    results = f'<tool_results>\n["{"x" * 9000}"]\n</tool_results>\nTools gave these results.\n'
    user = request.messages[1].content.replace("<now>", results + "<now>")
    fuller = replace(request, messages=(request.messages[0], LLMMessage("user", user)))
    shorter, left_out = shortened(fuller, 1200)
    assert left_out == ("history", "results")
    assert "Tools gave" not in shorter.messages[1].content
    assert "<now>" in shorter.messages[1].content


@pytest.mark.parametrize("most", [0, 50, 100])
def test_what_nothing_makes_fit_is_as_short_as_it_can_be(most: int) -> None:
    shorter, _ = shortened(long_request(), most)
    assert shortened(shorter, most) == (shorter, ())
    assert "<user_input>" in shorter.messages[1].content
