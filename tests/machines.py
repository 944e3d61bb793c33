"""Machines and drivers shared by tests of the core: values in, values out, no event loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from llm_fsm import events as ev
from llm_fsm.course import Heard, Opening
from llm_fsm.definition import Definition
from llm_fsm.effects import AskModel, HandlerResult, HandlerResults, Point, RunHandlers
from llm_fsm.messages import LLMRequest, ModelReply, Usage
from llm_fsm.program import Program, compile_program
from llm_fsm.prompts import compile_prompts
from llm_fsm.session import Session
from llm_fsm.shipped import prompt_sources
from llm_fsm.turn import Step, advance, begin, begin_start

PROMPTS = compile_prompts(prompt_sources())

GREETER: dict[str, Any] = {
    "name": "greeter",
    "initial_state": "hello",
    "states": {
        "hello": {
            "purpose": "Greet the user and learn their name",
            "required_context_keys": ["name"],
            "transitions": [
                {
                    "target_state": "bye",
                    "description": "The name is known",
                    "conditions": [{"requires_context_keys": ["name"]}],
                }
            ],
        },
        "bye": {"purpose": "Say goodbye by name"},
    },
}


def program(document: dict[str, Any], **changes: Any) -> Program:
    """A compiled machine; `changes` are further top-level keys."""
    return compile_program(Definition.model_validate({**document, **changes}), PROMPTS)


def machine(states: dict[str, Any], initial: str | None = None, **keys: Any) -> Program:
    """A machine of these states, the first one initial."""
    return program({"name": "test", "initial_state": initial or next(iter(states)), "states": states, **keys})


def reply(target: str, message: str = "ok", **update: Any) -> str:
    """A model's reply as text."""
    return json.dumps({"transition": {"target_state": target, "context_update": update}, "message": message})


Handler = Callable[[RunHandlers], HandlerResult | None]


@dataclass
class Played:
    """What a turn did."""

    session: Session
    events: list[ev.Event]
    requests: list[LLMRequest]
    handled: list[RunHandlers]
    usage: Usage

    @property
    def text(self) -> str:
        return "\n\n".join(event.text for event in self.events if isinstance(event, ev.BotSaid))

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def prompt(self) -> str:
        return self.requests[0].messages[1].content


def play(
    step: Step, replies: Iterable[str | ModelReply], handler: Handler | None = None, *, spare: bool = False
) -> Played:
    """Perform a turn's effects from a list of replies, all of them used unless `spare`, and one handler."""
    answers = iter(replies)
    events = list(step.events)
    requests: list[LLMRequest] = []
    handled: list[RunHandlers] = []
    while step.effect is not None:
        if isinstance(step.effect, AskModel):
            requests.append(step.effect.request)
            step.effect.view()
            answer = next(answers)
            step = advance(step, answer if isinstance(answer, ModelReply) else ModelReply(text=answer))
        else:
            handled.append(step.effect)
            result = handler(step.effect) if handler else None
            step = advance(step, HandlerResults(results=() if result is None else (result,)))
        events.extend(step.events)
    left = list(answers)
    assert spare or not left, f"replies never asked for: {left}"
    return Played(step.session, events, requests, handled, step.usage)


ALL_POINTS = frozenset(Point)


def start(
    made: Program,
    *replies: str,
    context: dict[str, Any] | None = None,
    greet: bool = False,
    state: str | None = None,
    handler: Handler | None = None,
) -> Played:
    """The first turn; without a greeting unless asked for."""
    opening = Opening(conversation_id="c1", time=1000.0, context=context, greet=greet, state=state)
    points = ALL_POINTS if handler else frozenset()
    return play(begin_start(made, opening, points), replies, handler)


def say(
    made: Program,
    session: Session,
    text: str,
    *replies: str | ModelReply,
    handler: Handler | None = None,
    spare: bool = False,
) -> Played:
    """One message's turn."""
    points = ALL_POINTS if handler else frozenset()
    return play(begin(made, session, Heard(text=text, time=2000.0), points), replies, handler, spare=spare)


def talk(made: Program, text: str, *replies: str | ModelReply, **options: Any) -> Played:
    """Start without a greeting, then one message."""
    handler = options.pop("handler", None)
    return say(made, start(made, **options).session, text, *replies, handler=handler)
