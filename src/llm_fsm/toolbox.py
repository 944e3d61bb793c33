"""The tools of a machine as a turn knows them: what the definition says of each, over what its host says.

A tool is called through the name that the definition gives it. Only the tools of a state may be called there,
and only with arguments that fit their schema; both are decided here and so hold for every way in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.definition import ToolRef
from llm_fsm.effects import PlannedCall
from llm_fsm.findings import nearest
from llm_fsm.messages import ToolCall, ToolSpec
from llm_fsm.shapes import Shape, compile_shape

MAX_ARGUMENT_CHARS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What the host says of one tool: how a model is told of it, and the defaults of its attributes."""

    description: str
    parameters: Mapping[str, Any]
    breaking: bool = False
    approval: bool = False
    at_most_once: bool = False
    parallel: bool = False
    timeout: float | None = None
    scope: tuple[str, ...] | None = None
    output: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlan:
    """One tool of a definition, bound: the definition's attributes over the host's."""

    spec: ToolSpec
    shape: Shape
    ref: ToolRef
    breaking: bool
    approval: bool
    at_most_once: bool
    parallel: bool
    timeout: float | None
    scope: frozenset[str] | None
    output: Mapping[str, str]


def plan_tool(name: str, ref: ToolRef, facts: ToolFacts) -> ToolPlan:
    """Bind one tool. Raises ShapeError for parameters that are no JSON Schema."""

    def either(attribute: str) -> Any:
        written = getattr(ref, attribute)
        return getattr(facts, attribute) if written is None else written

    scope = either("scope")
    return ToolPlan(
        spec=ToolSpec(name=name, description=facts.description, parameters=facts.parameters),
        shape=compile_shape(facts.parameters),
        ref=ref,
        breaking=either("breaking"),
        approval=either("approval"),
        at_most_once=either("at_most_once"),
        parallel=either("parallel"),
        timeout=either("timeout"),
        scope=None if scope is None else frozenset(scope),
        output=ref.output or facts.output,
    )


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a machine by name, and what each state may call, in the order in which it names them."""

    plans: Mapping[str, ToolPlan] = field(default_factory=dict)
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self, state: str) -> tuple[str, ...]:
        """The names of the tools that may be called in a state."""
        return tuple(
            name
            for name in self.states.get(state, ())
            if name in self.plans and self._in_scope(self.plans[name], state)
        )

    def specs(self, state: str) -> tuple[ToolSpec, ...]:
        """The tools of a state as a model is told of them."""
        return tuple(self.plans[name].spec for name in self.names(state))

    @staticmethod
    def _in_scope(plan: ToolPlan, state: str) -> bool:
        return plan.scope is None or state in plan.scope

    def fault(self, state: str, call: ToolCall) -> str | None:
        """Why a call must not run in a state; None when its name may be called there."""
        names = self.names(state)
        if call.name in names:
            return None
        offered = f"the tools here are {', '.join(names)}" if names else "there are no tools here"
        if call.name in self.plans:
            return f"the tool {call.name} cannot be called in this state; {offered}"
        guess = nearest(call.name, names)
        hint = f"did you mean {guess}? " if guess else ""
        return f"there is no tool {json.dumps(call.name[:100])}; {hint}{offered}"

    def planned(self, call: ToolCall, arguments: Mapping[str, Any], key: str) -> PlannedCall | str:
        """The call as it can run, or why its arguments do not fit."""
        plan = self.plans[call.name]
        reason = plan.shape.fault(arguments)
        if reason is not None:
            return f"the arguments do not fit: {reason}"
        return PlannedCall(
            id=call.id,
            name=call.name,
            arguments=arguments,
            key=key,
            registered=plan.ref.registered,
            mcp=plan.ref.mcp,
            tool=plan.ref.tool,
            timeout=plan.timeout,
            parallel=plan.parallel,
            at_most_once=plan.at_most_once,
        )


NO_TOOLS = Toolbox()


def read_arguments(text: str) -> dict[str, Any] | str:
    """A model's arguments as an object, or why they are none. No text means no arguments."""
    if len(text) > MAX_ARGUMENT_CHARS:
        return f"the arguments are {len(text)} characters long; at most {MAX_ARGUMENT_CHARS} are read"
    try:
        value = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        return f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return f"the arguments must be a JSON object, not {type(value).__name__}"
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def call_key(conversation_id: str, time: float, number: int, call: ToolCall) -> str:
    """An idempotency key: the same when a turn is begun again, another for every other call."""
    text = json.dumps([conversation_id, time, number, call.name, call.arguments])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
