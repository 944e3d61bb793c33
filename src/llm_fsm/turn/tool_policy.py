"""The tools of a definition as a turn knows them: the terms of each, and which of them each state may call.

`ToolPolicy` is all that the core knows of a tool: the terms of the definition, laid over those of the host. The host
makes it once for each tool (`llm_fsm.tools.toolbox`). The core plans calls by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from llm_fsm._text import nearest
from llm_fsm.definition.models import ToolRef
from llm_fsm.session.messages import ToolCall, ToolSpec
from llm_fsm.turn.effects import PlannedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """A tool as it may be used. `spec.name` is the name by which the model calls it.

    `registered`, or `mcp` with `tool`, say what is called. `output`: context key to JSON path of the result.
    `breaking`: the run stops after the batch that calls it. `approval`: a person is asked before each call.
    `at_most_once`: never called again when the outcome of a call is unknown. `parallel`: may run beside its
    parallel neighbours in a batch. `timeout`: seconds for one call; None: what the registry says. `scope`:
    the states in which it may be called; None: all that list it. `fits`: why the tool does not take some
    arguments, None when it does; without it nobody knows before the call.
    """

    spec: ToolSpec
    registered: str | None = None
    mcp: str | None = None
    tool: str | None = None
    output: Mapping[str, str] = field(default_factory=dict)
    breaking: bool = False
    approval: bool = False
    at_most_once: bool = False
    parallel: bool = False
    timeout: float | None = None
    scope: tuple[str, ...] | None = None
    fits: Callable[[Mapping[str, Any]], str | None] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self.spec.name

    def usable_in(self, state: str) -> bool:
        """Return true when its scope includes the state."""
        return self.scope is None or state in self.scope

    def fault(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why a call with these arguments could not be made; None where nothing is known against it."""
        return None if self.fits is None else self.fits(arguments)

    def plan(self, *, id: str, arguments: Mapping[str, Any], key: str) -> PlannedCall:
        """Return a call on these terms. `id`: the model's; `key`: the idempotency key."""
        return PlannedCall(
            id=id,
            name=self.name,
            arguments=arguments,
            key=key,
            registered=self.registered,
            mcp=self.mcp,
            tool=self.tool,
            timeout=self.timeout,
            parallel=self.parallel,
            at_most_once=self.at_most_once,
            scope=self.scope,
        )


def planned(name: str, ref: ToolRef, own: ToolPolicy) -> ToolPolicy:
    """Return the terms of the tool `name` of a definition: what `ref` says counts, for the rest the tool's `own`."""
    return replace(
        own,
        spec=structs.replace(own.spec, name=name),
        output=ref.output,
        breaking=own.breaking if ref.breaking is None else ref.breaking,
        approval=own.approval if ref.approval is None else ref.approval,
        at_most_once=own.at_most_once if ref.at_most_once is None else ref.at_most_once,
        parallel=own.parallel if ref.parallel is None else ref.parallel,
        timeout=own.timeout if ref.timeout is None else ref.timeout,
        scope=own.scope if ref.scope is None else tuple(ref.scope),
    )


@dataclass(frozen=True, slots=True)
class AvailableTools:
    """ToolPolicy by the name of the tool; state id to the names that it lists, in order.

    `flows`: the tools of the definitions that are called, by name.
    """

    policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flows: Mapping[str, AvailableTools] = field(default_factory=dict)

    def of(self, flow: str) -> AvailableTools:
        """Return the tools of the definition at work; "" is the one that was started."""
        return self.flows.get(flow, NO_TOOLS) if flow else self

    def beside(self, flow: str, state: str, policies: Sequence[ToolPolicy]) -> AvailableTools:
        """Return these tools and, in one state of a definition, further ones."""
        own = self.of(flow)
        names = (*own.states.get(state, ()), *(one.name for one in policies))
        more = replace(
            own,
            policies={**own.policies, **{one.name: one for one in policies}},
            states={**own.states, state: tuple(dict.fromkeys(names))},
        )
        return replace(self, flows={**self.flows, flow: more}) if flow else more

    def names(self, state: str) -> tuple[str, ...]:
        """Return the names of the tools that may be called in a state."""
        policies = self.policies
        return tuple(
            name for name in self.states.get(state, ()) if name in policies and policies[name].usable_in(state)
        )

    def specs(self, state: str) -> tuple[ToolSpec, ...]:
        """Return the tools of a state as a model is told of them."""
        return tuple(self.policies[name].spec for name in self.names(state))

    def fault(self, state: str, name: str) -> str | None:
        """Return why no tool of this name may be called in a state; None when one may."""
        names = self.names(state)
        if name in names:
            return None
        offered = f"the tools here are {', '.join(names)}" if names else "there are no tools here"
        if name in self.policies:
            return f"the tool {name} cannot be called in this state; {offered}"
        guess = nearest(name, names)
        hint = f"did you mean {guess}? " if guess else ""
        return f"there is no tool {json.dumps(name[:100])}; {hint}{offered}"


NO_TOOLS = AvailableTools()


def call_key(space: str, time: float, number: int, call: ToolCall) -> str:
    """Compute the idempotency key of a call. It is the same when the turn is begun again.

    Every other call has another key.

    Args:
        space: The conversation's id and the turn's number, and more where a turn has several courses.
        time: The time at which the turn began, in seconds since the epoch.
        number: The number of the call in its turn.
        call: The call.
    """
    text = json.dumps([space, time, number, call.name, call.arguments])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
