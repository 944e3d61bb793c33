"""Machines and drivers shared by tests of the core: values in, values out, no event loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flow, Flows
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.bundled import pattern_piece, prompt_sources
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall, ToolSpec, Usage
from llm_fsm.session.session import Session, dump_session, parse_session
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import (
    AskModel,
    CallTools,
    CheckKeyResults,
    Execute,
    Executed,
    HandlerResult,
    HandlerResults,
    Point,
    RunHandlers,
    ToolResult,
    ToolResults,
    Verdicts,
)
from llm_fsm.turn.pipeline import Answer, Due, Opening, Resume, UserMessage
from llm_fsm.turn.prompt.render import compile_prompts
from llm_fsm.turn.steps import Step, advance, begin
from llm_fsm.turn.tool_policy import NO_TOOLS, AvailableTools, ToolPolicy, planned
from llm_fsm.turn.turn_state import HostCapabilities

EMPTY = Session(conversation_id="c1")
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


def program(document: dict[str, Any], **changes: Any) -> CompiledMachine:
    """A compiled machine; `changes` are further top-level keys."""
    flow = Flow(definition=Definition.model_validate({**document, **changes}))
    return compile_flows(Flows(root=flow), PROMPTS, pattern_piece)


def nested(document: dict[str, Any], **flows: dict[str, Any]) -> CompiledMachine:
    """A compiled machine that calls these definitions by their names."""
    found = gather(Definition.model_validate(document), registered=flows)
    return compile_flows(found, PROMPTS, pattern_piece)


def machine(states: dict[str, Any], initial: str | None = None, **keys: Any) -> CompiledMachine:
    """A machine of these states, the first one initial."""
    return program(
        {"name": "test", "initial_state": initial or next(iter(states)), "states": states}, **keys
    )


def reply(target: str, message: str = "ok", question: str | None = None, **update: Any) -> str:
    """A model's reply as text; without a question in the form that has no field for one."""
    made = {"transition": {"target_state": target, "context_update": update}, "message": message}
    return json.dumps(made if question is None else {**made, "question": question})


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
    step: Step,
    replies: Iterable[str | ModelReply],
    handler: Handler | None = None,
    *,
    spare: bool = False,
    host: Worker | None = None,
) -> Played:
    """Perform a turn's effects from a list of replies, all of them used unless `spare`, and one
    handler. A model whose only reply is refused says the same again.
    """
    given = list(replies)
    answers = iter(given)
    events = list(step.events)
    requests: list[LLMRequest] = []
    handled: list[RunHandlers] = []
    while step.effect is not None:
        if isinstance(step.effect, AskModel):
            requests.append(step.effect.request)
            step.effect.view()
            insists = step.turn.retried and len(given) == 1
            answer = given[0] if insists else next(answers)
            step = advance(
                step, answer if isinstance(answer, ModelReply) else ModelReply(text=answer)
            )
        elif not isinstance(step.effect, RunHandlers):
            assert host is not None, f"nobody performs {step.effect}"
            step = advance(step, host.perform(step.effect))
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
    made: CompiledMachine,
    *replies: str,
    context: dict[str, Any] | None = None,
    greet: bool = False,
    state: str | None = None,
    handler: Handler | None = None,
) -> Played:
    """The first turn; without a greeting unless asked for."""
    opening = Opening(conversation_id="c1", time=1000.0, context=context, greet=greet, state=state)
    points = ALL_POINTS if handler else frozenset()
    return play(begin(made, EMPTY, opening, HostCapabilities(points=points)), replies, handler)


def say(
    made: CompiledMachine,
    session: Session,
    text: str,
    *replies: str | ModelReply,
    handler: Handler | None = None,
    spare: bool = False,
) -> Played:
    """One message's turn."""
    points = ALL_POINTS if handler else frozenset()
    return play(
        begin(made, session, UserMessage(text=text, time=2000.0), HostCapabilities(points=points)),
        replies,
        handler,
        spare=spare,
    )


def talk(made: CompiledMachine, text: str, *replies: str | ModelReply, **options: Any) -> Played:
    """Start without a greeting, then one message."""
    handler = options.pop("handler", None)
    return say(made, start(made, **options).session, text, *replies, handler=handler)


# -- work: tools, functions, checks and judges that are values


def calls(*wanted: tuple[str, Any], text: str = "") -> ModelReply:
    """A model's reply that calls tools: (name, arguments) each; arguments as text are sent as they
    stand.
    """
    return ModelReply(
        text=text,
        tool_calls=tuple(
            ToolCall(
                id=f"c{number}",
                name=name,
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
            )
            for number, (name, arguments) in enumerate(wanted, 1)
        ),
    )


def kit_of(made: CompiledMachine, **attributes: dict[str, Any]) -> AvailableTools:
    """The tools of a definition, with these attributes from the host, by name."""
    anything = {"type": "object"}
    terms = {
        name: planned(
            name,
            ref,
            ToolPolicy(
                spec=ToolSpec(name=name, description=f"does {name}", parameters=anything),
                registered=ref.registered,
                **attributes.get(name, {}),
            ),
        )
        for name, ref in made.definition.tools.items()
    }
    return AvailableTools(
        terms, {name: tuple(plan.definition.tools) for name, plan in made.states.items()}
    )


@dataclass
class Worker:
    """A host made of plain functions, and what it was asked to do."""

    program: CompiledMachine
    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    functions: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    summaries: bool = True
    asked: list[Any] = field(default_factory=list)

    @property
    def capabilities(self) -> HostCapabilities:
        kit = kit_of(self.program, **self.attributes) if self.program.definition.tools else NO_TOOLS
        return HostCapabilities(tools=kit, summaries=self.summaries)

    def perform(self, effect: Any) -> Any:
        self.asked.append(effect)
        if isinstance(effect, CallTools):
            return ToolResults(results=tuple(self._call(call) for call in effect.calls))
        if isinstance(effect, CheckKeyResults):
            verdicts = {
                name: self.functions[function](effect.data) for name, function in effect.checks
            }
            return Verdicts(verdicts=verdicts)
        assert isinstance(effect, Execute)
        found = self.functions[effect.function](effect)
        return found if isinstance(found, Executed) else Executed(output=found)

    def _call(self, call: Any) -> ToolResult:
        try:
            found = self.tools[call.name](**call.arguments)
        except (ValueError, KeyError) as error:
            return ToolResult(id=call.id, name=call.name, error=str(error))
        return (
            found
            if isinstance(found, ToolResult)
            else ToolResult(id=call.id, name=call.name, value=found)
        )

    # -- turns

    def run(
        self, *replies: str | ModelReply, input: Any = None, context: dict[str, Any] | None = None
    ) -> Played:
        """Begin a run without a user and play it as far as it goes."""
        opening = Opening(
            conversation_id="c1", time=1000.0, context=context, greet=False, input=input, hold=True
        )
        begun = begin(self.program, EMPTY, opening, self.capabilities)
        done = play(
            begin(self.program, begun.session, Resume(time=1000.0), self.capabilities),
            replies,
            host=self,
        )
        return replace(done, events=[*begun.events, *done.events])

    def go_on(self, session: Session, *replies: str | ModelReply, time: float = 3000.0) -> Played:
        """Take up a run where its session left it."""
        return play(
            begin(self.program, stored(session), Resume(time=time), self.capabilities),
            replies,
            host=self,
        )

    def say(self, session: Session, text: str, *replies: str | ModelReply) -> Played:
        """One message's turn."""
        step = begin(
            self.program, stored(session), UserMessage(text=text, time=2000.0), self.capabilities
        )
        return play(step, replies, host=self)

    def answer(
        self, session: Session, value: Any, *replies: str | ModelReply, time: float = 4000.0
    ) -> Played:
        """Answer what the session waits for."""
        step = begin(
            self.program, stored(session), Answer(value=value, time=time), self.capabilities
        )
        return play(step, replies, host=self)

    def due(self, session: Session, time: float, *replies: str | ModelReply) -> Played:
        """Fire what is due."""
        return play(
            begin(self.program, stored(session), Due(time=time), self.capabilities),
            replies,
            host=self,
        )


def stored(session: Session) -> Session:
    """A session as it comes back from a store."""
    return parse_session(dump_session(session))


def worker(states: dict[str, Any], **options: Any) -> Worker:
    """A host of a machine of these states; `tools`, `functions`, `attributes`, `summaries`, else
    top-level keys.
    """
    own = {
        name: options.pop(name)
        for name in ("functions", "attributes", "summaries")
        if name in options
    }
    tools = options.pop("tools", {})
    refs = options.pop("refs", {})
    if tools:
        options["tools"] = {name: {"registered": name, **refs.get(name, {})} for name in tools}
    return Worker(machine(states, **options), tools=tools, **own)
