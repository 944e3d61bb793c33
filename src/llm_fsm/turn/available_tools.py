"""The tools of a machine as a turn knows them: their terms, and which of them each state may call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from llm_fsm._text import nearest
from llm_fsm.session.messages import ToolCall, ToolSpec
from llm_fsm.turn.tool_policy import ToolPolicy


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
