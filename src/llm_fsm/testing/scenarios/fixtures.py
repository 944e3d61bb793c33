"""The simulated host of a case: tools, functions and handlers that give the results of the case.

A machine is made once for a file. `Stage.set` changes its host from case to case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.conditions.compiler import compile_rule
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.definition.models import Definition
from llm_fsm.engine.handlers.registry import Handler, Occasion, Veto, create_handler
from llm_fsm.session.messages import ToolSpec
from llm_fsm.testing.scenarios.models import (
    FunctionResultFixture,
    HandlerFixture,
    ToolFixture,
    ToolResultFixture,
)
from llm_fsm.testing.scenarios.problems import quoted
from llm_fsm.tools.executor import CallFault
from llm_fsm.tools.registry import Tool, ToolRegistry
from llm_fsm.tools.schema import any_parameters
from llm_fsm.tools.task_context import Workbench
from llm_fsm.turn.effects import Point
from llm_fsm.turn.tool_policy import ToolPolicy

_BRING = (
    "give its result there, or bring it with --tools FILE.py "
    "(with plain pytest: the setting llm_fsm_tools)"
)
"""The end of the sentence about a function that nobody plays."""


class FixtureError(Exception):
    """A fixture raises on purpose, or because the case has no result for a call."""


class Stage:
    """The host of the case that is played. `now`: the time; `misses`: calls that the case does not
    know.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.misses: list[str] = []
        self._tools: Mapping[str, ToolFixture] = {}
        self._functions: Mapping[str, Sequence[FunctionResultFixture]] = {}
        self._handlers: Sequence[HandlerFixture] = ()
        self._used: dict[object, int] = {}

    def set(
        self,
        tools: Mapping[str, ToolFixture],
        functions: Mapping[str, Sequence[FunctionResultFixture]],
        handlers: Sequence[HandlerFixture],
    ) -> None:
        """Begin another case."""
        self.misses = []
        self._tools, self._functions, self._handlers = tools, functions, handlers
        self._used = {}

    def _next(self, place: object) -> int:
        number = self._used.get(place, 0)
        self._used[place] = number + 1
        return number

    # -- tools

    def bound(
        self,
        definitions: Sequence[Definition],
        own: ToolRegistry,
        played: Mapping[str, ToolFixture],
    ) -> ToolRegistry:
        """Return the tools of these definitions: the host's `own` if no case of the file simulates
        them.
        """
        registry = ToolRegistry()
        for definition in definitions:
            for name, ref in definition.tools.items():
                bound = ref.registered or name
                if bound in registry:
                    continue
                found = None
                if name not in played:
                    found = own.get(bound)
                registry.add(
                    played_tool(self, name, bound, played.get(name)) if found is None else found
                )
        return registry

    async def call(self, name: str, **arguments: Any) -> Any:
        """Return the result of a call of the tool.

        Raises:
            CallFault: The case says that the call fails.
        """
        fixture = self._tools.get(name)
        if fixture is None:
            what = f"the tool {name!r} was called, and the case says nothing of it; {_BRING}"
            raise self._missed(what)
        fault = self.unfit(name, arguments)
        if fault is not None:
            raise CallFault(fault, refused=True)
        fitting = [
            number for number, result in enumerate(fixture.calls) if _fits(result, arguments)
        ]
        if not fitting:
            raise self._missed(
                f"no result of the tool {name!r} is for the arguments {quoted(arguments)}"
            )
        same = fixture.calls[fitting[0]].when
        place = fitting[min(self._next((name, quoted(same))), len(fitting) - 1)]
        result = fixture.calls[place]
        if result.error is not None:
            raise CallFault(result.error)
        return result.result

    def unfit(self, name: str, arguments: JsonMap) -> str | None:
        """Return the reason why the tool of this case does not take these arguments; None if it
        does.
        """
        fixture = self._tools.get(name)
        if fixture is None or fixture.parameters is None:
            return None
        return compile_shape(fixture.parameters).fault(arguments)

    def _missed(self, what: str) -> CallFault:
        self.misses.append(what)
        return CallFault(what)

    # -- functions

    async def execute(self, name: str, ctx: Workbench) -> Any:
        """Return the output of a task's function."""
        said = self._function(name)
        if said.set:
            ctx.set_context(**said.set)
        if said.error is not None:
            raise FixtureError(said.error)
        if said.ask is None:
            return said.output
        return ctx.ask(said.ask)

    async def check(self, name: str, **_: Any) -> tuple[bool, str]:
        """Return the verdict of a check, and its reason."""
        said = self._function(name)
        if said.error is not None:
            raise FixtureError(said.error)
        return said.passed is not False, said.reason

    def _function(self, name: str) -> FunctionResultFixture:
        given = self._functions.get(name)
        if given is None:
            what = f"the function {name!r} was called, and the case says nothing of it; {_BRING}"
            self.misses.append(what)
            raise FixtureError(what)
        return given[min(self._next(("function", name)), len(given) - 1)]

    # -- handlers

    def handlers(self, points: Iterable[str]) -> list[Handler]:
        """Return a handler at each of these points."""
        return [
            create_handler("test").at(point).do(partial(self._handle, Point(point)))
            for point in sorted(set(points))
        ]

    async def _handle(self, point: Point, occasion: Occasion) -> Any:
        changes: JsonDict = {}
        for number, fixture in enumerate(self._handlers):
            if fixture.at != point.value or not _meant(fixture, occasion):
                continue
            if fixture.times is not None and self._next(("handler", number)) >= fixture.times:
                continue
            if fixture.error is not None:
                raise FixtureError(fixture.error)
            if fixture.veto is not None:
                return Veto(fixture.veto)
            if fixture.text is not None:
                return fixture.text
            changes |= fixture.set
        return changes


def _fits(result: ToolResultFixture, arguments: JsonMap) -> bool:
    return result.when is None or all(
        name in arguments and arguments[name] == value for name, value in result.when.items()
    )


def _meant(fixture: HandlerFixture, occasion: Occasion) -> bool:
    if fixture.state is not None and occasion.state not in fixture.state:
        return False
    if fixture.when is None:
        return True
    return bool(compile_rule(fixture.when)({**occasion.context, **occasion.system}))


def played_tool(stage: Stage, name: str, registered: str, fixture: ToolFixture | None) -> Tool:
    """Return a simulation of the tool `name` of a definition, under the name by which it is
    bound.
    """
    schema = (
        {"type": "object", "additionalProperties": True} if fixture is None else fixture.parameters
    )
    parameters = any_parameters(schema or {"type": "object", "additionalProperties": True})
    spec = ToolSpec(
        name=registered,
        description="" if fixture is None else fixture.description,
        parameters=parameters.schema,
    )
    policy = ToolPolicy(spec=spec, registered=registered, fits=partial(stage.unfit, name))
    return Tool(function=partial(stage.call, name), parameters=parameters, policy=policy)


def without_servers(definition: Definition) -> Definition:
    """Return the definition with the tools of MCP servers bound to functions of the test."""
    if not any(ref.mcp is not None for ref in definition.tools.values()):
        return definition
    here = {"mcp": None, "tool": None}
    refs = {
        name: ref if ref.mcp is None else ref.model_copy(update={**here, "registered": name})
        for name, ref in definition.tools.items()
    }
    return definition.model_copy(update={"tools": refs})
