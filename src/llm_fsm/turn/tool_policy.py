"""The terms on which a definition uses a tool: its own, laid over those of the host.

`ToolPolicy` is all that the core knows of a tool. The host makes it once for each tool of a definition
(`llm_fsm.tools.toolbox`); the core plans calls by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from llm_fsm.definition.models import ToolRef
from llm_fsm.session.messages import ToolSpec
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
