"""A conversation that is longer than the model's context goes on with a shorter prompt."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.errors import ModelError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.turn.prompt.shorten import size_of

TRIP: dict[str, Any] = {
    "name": "trip",
    "initial_state": "a",
    "states": {
        "a": {"purpose": "Listen to the user", "transitions": [{"target_state": "b"}]},
        "b": {"reply": "Bye."},
    },
}
REPLY = '{"target_state": "a", "context_update": {}, "message": "%s"}' % ("Well well. " * 60)


class SmallModel:
    """A model whose server refuses what does not fit, or reads the end of it alone."""

    name = "small"

    def __init__(self, room: int, *, told: str = "", cuts: bool = False) -> None:
        self.room = room
        self.told = told
        self.cuts = cuts
        self.sizes: list[int] = []

    async def complete(self, request: LLMRequest) -> ModelReply:
        size = size_of(request)
        self.sizes.append(size)
        if size > self.room and not self.cuts:
            raise ModelError(f"it answered 400: {self.told}", status=400, refusal="size")
        return ModelReply(text=REPLY, model="small", input_tokens=min(size, self.room))


def talked(model: SmallModel, messages: int, **settings: Any) -> list[tuple[str, ...]]:
    """What was left out of the prompts of a conversation of long messages."""
    with Machine.from_dict({**TRIP, "model": settings}, model=model) as machine:
        chat = machine.start(greet=False)
        found: list[tuple[str, ...]] = []
        for _ in range(messages):
            events = chat.send("We went on. " * 40).events
            found += [event.left_out for event in events if isinstance(event, ev.ModelReplied)]
    return found


@pytest.mark.parametrize(
    "told", ["", "the context size is 1500", "maximum context length is 1500 tokens"]
)
def test_a_refusal_for_the_size_is_asked_again_with_less_history_and_remembered(told: str) -> None:
    model = SmallModel(1500, told=told)
    found = talked(model, 12)
    assert len(found) == 12
    assert found[0] == ()
    assert found[-1] == ("history",)
    assert sum(size > 1500 for size in model.sizes) == 1


def test_a_context_that_the_definition_names_is_never_exceeded() -> None:
    model = SmallModel(1500)
    assert talked(model, 12, context=1400)[-1] == ("history",)
    assert max(model.sizes) <= 1400
    assert len(model.sizes) == 12


def test_a_prompt_that_nothing_makes_fit_is_an_error_that_names_its_parts() -> None:
    with pytest.raises(ModelError, match=r"even without history .*system \d+.*user_input \d+"):
        talked(SmallModel(100), 1)


def test_a_server_that_cuts_prompts_in_silence_is_noticed_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = SmallModel(700, cuts=True)
    with caplog.at_level(logging.WARNING, "llm_fsm"):
        found = talked(model, 12)
    assert sum("its context is too small" in line for line in caplog.messages) == 1
    assert "model.context" in caplog.text
    assert found[-1] == ("history",)
    assert model.sizes[-1] <= 700


def test_a_refused_request_counts_as_an_attempt_and_not_as_a_call() -> None:
    model = SmallModel(1500)
    with Machine.from_dict(TRIP, model=model) as machine:
        chat = machine.start(greet=False)
        usages = [chat.send("We went on. " * 40).usage for _ in range(8)]
    assert {usage.calls for usage in usages} == {1}
    assert max(usage.attempts for usage in usages) == 2
