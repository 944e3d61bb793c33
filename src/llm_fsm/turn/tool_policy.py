"""The tools of a definition for a turn: the policy of each, and the tools that each state may call.

`ToolPolicy` is all that the core knows of a tool: the settings of the definition, laid over those
of the host. The host makes it once for each tool (`llm_fsm.tools.toolbox`). The core plans calls by
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm._text import nearest, sha256_of
from llm_fsm.definition.models import ToolRef
from llm_fsm.session.messages import ToolCall, ToolSpec
from llm_fsm.turn.effects import PlannedCall

_SETTINGS = (
    *("breaking", "approval", "at_most_once", "parallel", "timeout"),
    *("scope", "acts", "binds", "free"),
)
"""The settings of a tool that a definition lays over those of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """The rules for the use of a tool. `spec.name` is the name by which the model calls it.

    Args:
        spec: The tool for the model.
        registered: The name of the host's function.
        mcp: The name of the MCP server, with `tool`.
        tool: The name of the tool at that server.
        output: Context key to JSON path of the result.
        breaking: The run stops after the batch that calls it.
        approval: A person is asked before each call.
        at_most_once: It is never called again if the outcome of a call is unknown.
        parallel: It may run beside its parallel neighbours in a batch.
        timeout: Seconds for one call; None for the registry's own.
        scope: The states in which it may be called; None for all that list it.
        acts: It changes the world outside. A call must keep to what the user agreed to.
        binds: Argument to the key that the user agrees to. An argument is bound to its own name
            otherwise.
        free: Arguments that nobody agrees to.
        fits: Returns why the tool does not take some arguments; None if it does.
    """

    spec: ToolSpec
    registered: str | None = None
    mcp: str | None = None
    tool: str | None = None
    output: TextMap = field(default_factory=dict)
    breaking: bool = False
    approval: bool = False
    at_most_once: bool = False
    parallel: bool = False
    timeout: float | None = None
    scope: tuple[str, ...] | None = None
    acts: bool = False
    binds: TextMap = field(default_factory=dict)
    free: tuple[str, ...] = ()
    fits: Callable[[JsonMap], str | None] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self.spec.name

    @property
    def act(self) -> str:
        """The name of what it does, whatever a definition calls it."""
        return f"{self.mcp}/{self.tool}" if self.mcp else self.registered or self.name

    def bound(
        self, arguments: JsonMap, agreed: Container[str], prefix: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """Yield the key that each argument is bound to, with its value. One that is bound to no
        agreed key has its own name.
        """
        for name, value in arguments.items():
            path = f"{prefix}{name}"
            key = self.binds.get(path, path)
            if path in self.free:
                continue
            if key not in agreed and isinstance(value, Mapping) and value:
                yield from self.bound(value, agreed, f"{path}.")
            else:
                yield key, value

    def usable_in(self, state: str) -> bool:
        """Return true if its scope includes the state."""
        return self.scope is None or state in self.scope

    def fault(self, arguments: JsonMap) -> str | None:
        """Return why a call with these arguments could not be made; None if no reason is known."""
        return None if self.fits is None else self.fits(arguments)

    def plan(self, *, id: str, arguments: JsonMap, key: str) -> PlannedCall:
        """Return a call by these rules. `id`: the model's; `key`: the idempotency key."""
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
    """Return the policy of the tool `name` of a definition: the settings of `ref`, else the tool's
    `own`.
    """
    settings: JsonDict = {"output": ref.output}
    for setting in _SETTINGS:
        value = getattr(ref, setting)
        if value is not None:
            settings[setting] = tuple(value) if isinstance(value, list) else value
    return replace(own, spec=structs.replace(own.spec, name=name), **settings)


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
        added = {policy.name: policy for policy in policies}
        names = dict.fromkeys((*own.states.get(state, ()), *added))
        states = {**own.states, state: tuple(names)}
        more = replace(own, policies={**own.policies, **added}, states=states)
        return replace(self, flows={**self.flows, flow: more}) if flow else more

    def names(self, state: str) -> tuple[str, ...]:
        """Return the names of the tools that may be called in a state."""
        names: list[str] = []
        for name in self.states.get(state, ()):
            policy = self.policies.get(name)
            if policy is not None and policy.usable_in(state):
                names.append(name)
        return tuple(names)

    def acting(self, state: str, *, acts: bool) -> frozenset[str]:
        """Return the tools of a state that change the world outside.

        In a task that `acts`, all tools do if none says so.
        """
        names = self.names(state)
        acting = frozenset(name for name in names if self.policies[name].acts)
        return frozenset(names) if acts and not acting else acting

    def specs(self, state: str) -> tuple[ToolSpec, ...]:
        """Return the tools of a state for the model."""
        return tuple(self.policies[name].spec for name in self.names(state))

    def fault(self, state: str, name: str) -> str | None:
        """Return why no tool of this name may be called in a state; None if one may."""
        names = self.names(state)
        if name in names:
            return None
        offered = "there are no tools here"
        if names:
            offered = f"the tools here are {', '.join(names)}"
        if name in self.policies:
            return f"the tool {name} cannot be called in this state; {offered}"
        guess = nearest(name, names)
        hint = f"did you mean {guess}? " if guess else ""
        return f"there is no tool {json.dumps(name[:100])}; {hint}{offered}"


NO_TOOLS = AvailableTools()


def call_key(space: str, time: float, number: int, call: ToolCall) -> str:
    """Compute the idempotency key of a call. It is the same if the turn is begun again.

    Every other call has another key.

    Args:
        space: The conversation's id and the turn's number, and more if a turn has several branches.
        time: The time at which the turn began, in seconds since the epoch.
        number: The number of the call in its turn.
        call: The call.
    """
    text = json.dumps([space, time, number, call.name, call.arguments])
    return sha256_of(text)[:32]
