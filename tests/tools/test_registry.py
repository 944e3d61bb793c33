from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
from collections import deque
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from llm_fsm.tools.registry import ToolRegistry, make_tool
from llm_fsm.tools.schema import CallInfo
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn.effects import PlannedCall, ToolResult

pytestmark = pytest.mark.anyio


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Pair:
    left: Any
    right: Any


def planned(name: str, arguments: dict[str, Any] | None = None, **changes: Any) -> PlannedCall:
    return PlannedCall(
        **{"id": name, "name": name, "arguments": arguments or {}, "key": "k", **changes}
    )


async def outcome(
    function: Any, arguments: dict[str, Any] | None = None, **options: Any
) -> ToolResult:
    """The result of one call of a function in state `s`."""
    registry = ToolRegistry()
    registry.register(function, name="f", **options)
    call = planned("f", arguments, timeout=options.get("timeout"))
    return (await Toolbox(registry).run([call], "s", conversation_id="c1")).results[0]


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int = 2) -> int:
    return a + b


def returns_awaitable(a: int, b: int = 2) -> Any:
    return add_async(a, b)


class Adder:
    def method(self, a: int, b: int = 2) -> int:
        return a + b

    def __call__(self, a: int, b: int = 2) -> int:
        return a + b


class AsyncAdder:
    async def __call__(self, a: int, b: int = 2) -> int:
        return a + b


@pytest.mark.parametrize(
    "function",
    [
        add,
        add_async,
        returns_awaitable,
        Adder().method,
        Adder(),
        AsyncAdder(),
        functools.partial(add, b=2),
        functools.partial(add_async, b=2),
    ],
)
async def test_every_kind_of_function_is_a_tool(function):
    result = await outcome(function, {"a": "40"})
    assert (result.value, result.error) == (42, None)


async def test_plain_functions_run_beside_the_loop_and_async_ones_on_it():
    places = []

    def plain() -> None:
        places.append(threading.current_thread() is threading.main_thread())

    async def on_loop() -> None:
        places.append(threading.current_thread() is threading.main_thread())

    await outcome(plain)
    await outcome(on_loop)
    assert places == [False, True]


def circle() -> list[Any]:
    made: list[Any] = []
    made.extend([made] * 10)
    return made


def deep() -> Any:
    made: Any = 1
    for _ in range(5000):
        made = [made]
    return made


def exploding(wrap: Any) -> Any:
    """Ten of ten of ten …: small in memory, without end as JSON."""
    made: Any = wrap(1)
    for _ in range(30):
        made = wrap([made] * 10)
    return made


class Box(BaseModel):
    inside: Any


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (None, None),
        ({"a": [1, 2.5, True, None]}, {"a": [1, 2.5, True, None]}),
        (Point(x=1), {"x": 1, "y": 0}),
        (Pair(date(2026, 1, 2), {3}), {"left": "2026-01-02", "right": [3]}),
        ([Point(x=2)], [{"x": 2, "y": 0}]),
        ("ü", "ü"),
        ("half \ud800", "half \ufffd"),
    ],
)
async def test_results_become_json(value, taken):
    def give() -> Any:
        return value

    assert (await outcome(give)).value == taken


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ({7: "lamp", 8.5: "table"}, {"7": "lamp", "8.5": "table"}),
        ({True: "x", date(2026, 1, 2): 1}, {"true": "x", "2026-01-02": 1}),
        ({"invoice": Path("orders/7.pdf")}, {"invoice": "orders/7.pdf"}),
        ({"ids": {"a": 1}.keys()}, {"ids": ["a"]}),
        ({"last": deque([1, 2])}, {"last": [1, 2]}),
        (range(3), [0, 1, 2]),
    ],
)  # fmt: skip
async def test_what_has_an_evident_form_is_a_result(value, taken):
    assert (await outcome(lambda: value)).value == taken


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            object(),
            "the tool has run to its end; its result has no JSON form: a object has no JSON form",
        ),
        (
            b"\xff\xfe",
            "the tool has run to its end; its result has no JSON form: a bytes has no JSON form",
        ),
        (float("nan"), "numbers must be finite, and whole ones fit in 64 bits"),
        (
            "x" * 10_000_000,
            "the tool has run to its end, but its result is lost: the result is too large",
        ),
        ([0] * 3_000_000, "too large"),
        ({"a": ["y" * 600_000, "z" * 600_000]}, "too large"),
        (circle(), "it has more, or contains itself"),
        (exploding(lambda inner: Pair(inner, 0)), "too large"),
        (exploding(lambda inner: Box.model_construct(inside=inner)), "too large"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_tool_that_has_acted_is_never_told_to_have_failed_for_its_result(value, says, kind):
    def plain() -> Any:
        return value

    async def on_loop() -> Any:
        return value

    result = await outcome(plain if kind == "plain" else on_loop)
    assert (result.error, result.refused) == (None, False)
    assert says in result.value
    assert len(result.value) < 300


async def test_parts_without_a_form_leave_the_rest_of_a_result():
    made = {
        "order": 7,
        "lock": object(),
        "lines": [{"n": 1, "at": Pair(object(), 2)}],
        "sum": float("inf"),
    }
    value = (await outcome(lambda: made)).value
    assert value["order"] == 7
    assert "a object has no JSON form" in value["lock"]
    assert (value["lines"][0]["n"], value["lines"][0]["at"]["right"]) == (1, 2)
    assert "numbers must be finite" in value["sum"]
    assert "deeper than 32" in json.dumps((await outcome(deep)).value)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (ValueError("no such order"), "ValueError: no such order"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (StopIteration("over"), "StopIteration"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), ""),
        (Unspeakable(), "Unspeakable: (its words cannot be had"),
        (TimeoutError("their own"), "TimeoutError: their own"),
        (RuntimeError("x" * 5000), "characters missing]"),
        (RuntimeError("\udcff"), "RuntimeError: ?"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_what_a_tool_raises_is_told_without_a_traceback(raised, says, kind):
    def plain() -> None:
        raise raised

    async def on_loop() -> None:
        raise raised

    result = await outcome(plain if kind == "plain" else on_loop)
    assert says in result.error
    assert "Traceback" not in result.error
    assert len(result.error) < 2100
    result.error.encode()


class Stop(BaseException):
    pass


@pytest.mark.parametrize("raised", [SystemExit(3), Stop("now"), asyncio.CancelledError()])
async def test_a_tool_cannot_end_the_program(raised):
    def plain() -> None:
        raise raised

    async def awaited() -> None:
        raise raised

    for function in (plain, awaited):
        result = await outcome(function)
        assert result.error is not None


async def test_an_interrupt_is_no_result():
    def plain() -> None:
        raise KeyboardInterrupt

    async def awaited() -> None:
        raise KeyboardInterrupt

    for function in (plain, awaited):
        with pytest.raises(KeyboardInterrupt):
            await outcome(function)


@pytest.mark.parametrize("at_most_once", [False, True])
async def test_a_call_that_was_given_up_is_of_unknown_outcome_where_it_must_not_be_repeated(
    at_most_once,
):
    release = threading.Event()

    def plain() -> None:
        release.wait(30)

    async def awaited() -> None:
        await asyncio.sleep(30)

    for function in (plain, awaited):
        registry = ToolRegistry()
        registry.register(function, name="f")
        call = planned("f", timeout=0.01, at_most_once=at_most_once)
        (result,) = (await Toolbox(registry).run([call], "s")).results
        assert (result.unknown, "did not finish within" in str(result.error)) == (
            at_most_once,
            True,
        )
    release.set()


async def test_a_tool_that_hangs_is_given_up():
    async def hangs() -> None:
        await asyncio.sleep(60)

    release = threading.Event()

    def blocks() -> None:
        release.wait(60)

    for function in (hangs, blocks):
        result = await outcome(function, timeout=0.05)
        assert result.error == "it did not finish within 0.05 seconds, and was given up"
    release.set()


async def test_a_coroutine_that_will_not_be_cancelled_is_left_to_itself(monkeypatch):
    monkeypatch.setattr("llm_fsm.tools.executor.GRACE", 0.02)
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return "never heard"

    def wrapped() -> Any:
        return stubborn()

    results = [await outcome(function, timeout=0.05) for function in (stubborn, wrapped)]
    release.set()
    await asyncio.sleep(0.01)
    assert {result.error for result in results} == {
        "it did not finish within 0.05 seconds, and was given up"
    }


async def test_what_a_coroutine_gives_when_it_is_told_to_stop_counts():
    async def finishes() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "half of it"

    assert (await outcome(finishes, timeout=0.05)).value == "half of it"


async def test_who_cancels_the_run_cancels_the_tools():
    ended = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    registry = ToolRegistry([hangs])
    task = asyncio.create_task(Toolbox(registry).run([planned("hangs", parallel=True)] * 2, "s"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: Input should be a valid integer"),
        ({"a": 1, "bb": 2}, "bb: there is no such argument; did you mean 'b'?"),
        ({"a": 1, "zzz": 2}, "zzz: there is no such argument; there are a, b"),
        (
            {"a": None, "b": []},
            "a: Input should be a valid integer; b: Input should be a valid integer",
        ),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_is_called(arguments, says):
    called = []

    def look(a: int, b: int = 1) -> None:
        called.append(a)

    result = await outcome(look, arguments)
    assert says in result.error
    assert result.refused
    assert called == []


async def test_a_call_knows_its_key_its_conversation_and_its_state():
    seen = []

    def look(a: int, info: CallInfo) -> None:
        seen.append(info)

    def maybe(info: CallInfo | None = None) -> None:
        seen.append(info)

    await outcome(look, {"a": 1})
    await outcome(maybe)
    assert seen == [CallInfo(key="k", conversation_id="c1", state="s")] * 2
    refused = await outcome(look, {"a": 1, "info": {"key": "mine"}})
    assert "info: there is no such argument" in refused.error


async def test_a_name_that_is_not_registered_or_out_of_scope_is_an_error():
    registry = ToolRegistry([add])
    registry.register(add_async, name="scoped", scope=["work", "more"])
    calls = [
        planned("ad"),
        planned("scoped", {"a": 1}),
        planned("scoped", {"a": 1}, scope=("s",)),
        planned("add", {"a": 1}, scope=("work",)),
        planned("sum", {"a": 1}, registered="add"),
    ]
    results = (await Toolbox(registry).run(calls, "s")).results
    assert results[0].error == "there is no tool 'ad'; did you mean 'add'?"
    assert results[1].error == "the tool 'scoped' cannot be called in state 's', only in work, more"
    assert results[2].value == 3, "the definition's scope counts, not the host's"
    assert results[3].error == "the tool 'add' cannot be called in state 's', only in work"
    assert (results[4].name, results[4].value) == ("sum", 3)
    assert [result.refused for result in results] == [True, True, False, True, False]


def test_a_registered_function_stays_a_function():
    registry = ToolRegistry()

    @registry.register
    def one() -> int:
        """First."""
        return 1

    @registry.register(name="zwei", description="Second.", parallel=True, scope=["a"], timeout=3)
    def two() -> int:
        return 2

    assert (one(), two(), len(registry)) == (1, 2, 2)
    assert [(tool.name, tool.spec.description) for tool in registry] == [
        ("one", "First."),
        ("zwei", "Second."),
    ]
    policy = registry.get("zwei").policy
    assert (policy.parallel, policy.scope, policy.timeout, policy.breaking) == (
        True,
        ("a",),
        3,
        False,
    )
    assert ("one" in registry, "two" in registry, registry.get("two")) == (True, False, None)
    assert [spec.name for spec in registry.specs("b")] == ["one"]
    assert [spec.name for spec in registry.specs("a")] == ["one", "zwei"]


def test_registries_take_functions_and_tools_and_no_name_twice():
    tool = make_tool(add)
    registry = ToolRegistry([tool, add_async])
    assert [item.name for item in ToolRegistry(registry)] == ["add", "add_async"]
    registry.add(tool)
    registry.register(add)
    with pytest.raises(ValueError, match="there is a tool 'add' already"):
        registry.register(add_async, name="add")


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (3, {}, "a tool is a function, not a int"),
        (lambda: 1, {}, "'<lambda>' is no name for a tool"),
        (add, {"name": "two words"}, "'two words' is no name"),
        (add, {"name": "x" * 65}, "is no name"),
        (add, {"scope": "work"}, r"write \['work'\]"),
        (add, {"timeout": 0}, "timeout is a number of seconds above 0, not 0"),
    ],
)
def test_what_is_no_tool_is_refused_when_it_is_registered(function, options, says):
    with pytest.raises(ValueError, match=says):
        ToolRegistry().register(function, **options)


def test_the_schemas_are_those_of_the_providers():
    registry = ToolRegistry([add])
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert registry.schemas("openai") == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Add two numbers.",
                "parameters": parameters,
            },
        }
    ]
    assert registry.schemas("anthropic") == [
        {"name": "add", "description": "Add two numbers.", "input_schema": parameters}
    ]
    (google,) = registry.schemas("google")[0]["function_declarations"]
    assert google["parameters"]["properties"] == {
        "a": {"type": "INTEGER"},
        "b": {"type": "INTEGER"},
    }
    json.dumps(registry.schemas("google"))
    with pytest.raises(ValueError, match="the formats are openai, anthropic and google"):
        registry.schemas("cohere")


async def test_a_time_that_is_over_before_the_call_calls_nothing():
    registry = ToolRegistry([add])
    result = (await Toolbox(registry).run([planned("add", {"a": 1})], "s", timeout=0.0)).results[0]
    assert result.error == "no time was left for this call; it was not made"
    assert result.refused


def test_execute_calls_a_tool_by_name_with_checked_arguments() -> None:
    registry = ToolRegistry([add])
    assert registry.execute("add", a="40") == 42
    assert registry.execute("add", {"a": 1, "b": 1}) == 2
    assert registry.execute("add", {"a": 1, "b": 1}, b=5) == 6
    assert registry.get_tools() == [add]


def test_execute_takes_arguments_that_are_called_name_and_arguments() -> None:
    registry = ToolRegistry()

    @registry.register
    def greet(name: str, arguments: int = 0) -> str:
        return f"{name} {arguments}"

    assert registry.execute("greet", name="Ada", arguments=2) == "Ada 2"


def test_execute_says_what_is_wrong_and_lets_the_tools_own_errors_through() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(KeyError) as unknown:
        registry.execute("ad", a=1)
    assert str(unknown.value) == "there is no tool 'ad'; did you mean 'add'?"
    assert isinstance(unknown.value, ValueError)
    with pytest.raises(ValueError, match="add: c: there is no such argument"):
        registry.execute("add", a=1, c=2)

    @registry.register
    def fails() -> None:
        raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        registry.execute("fails")


def test_execute_runs_an_async_tool_to_its_end() -> None:
    assert ToolRegistry([add_async]).execute("add_async", a=40) == 42


async def test_execute_of_an_async_tool_is_awaited_inside_a_loop() -> None:
    assert await ToolRegistry([add_async]).execute("add_async", a=40) == 42


@pytest.mark.parametrize("form", ["openai", "anthropic", "google"])
def test_get_tool_schemas_speaks_three_forms(form) -> None:
    registry = ToolRegistry([add])
    assert registry.get_tool_schemas(form) == registry.schemas(form)
    with pytest.raises(ValueError, match="unknown tool format 'grok'"):
        registry.get_tool_schemas("grok")


SOURCE = """
def search(query: str) -> str:
    return {result!r}
"""


def defined(result: str, module: str = "notebook") -> Any:
    names: dict[str, Any] = {"__name__": module}
    exec(SOURCE.format(result=result), names)
    return names["search"]


def test_a_function_that_is_defined_again_replaces_itself() -> None:
    registry = ToolRegistry([defined("old")])
    registry.register(defined("new"))
    assert registry.execute("search", query="x") == "new"


def test_another_function_under_a_taken_name_is_a_conflict() -> None:
    registry = ToolRegistry([defined("old")])
    with pytest.raises(ValueError, match="there is a tool 'search' already"):
        registry.register(defined("new", "elsewhere"))
    with pytest.raises(ValueError, match="there is a tool 'search' already"):
        registry.register(add, name="search")


def test_two_functions_made_in_one_function_are_two_unless_they_are_alike() -> None:
    def made(result: str) -> Any:
        def search(query: str) -> str:
            return result

        return search

    registry = ToolRegistry([made("one")])
    registry.register(made("one"))
    with pytest.raises(ValueError, match="there is a tool 'search' already"):
        registry.register(made("two"))


def test_the_words_of_workflows_for_tools() -> None:
    registry = ToolRegistry()
    registry.register(add, is_breaking=True)
    [tool] = registry.list_tools()
    assert (tool.name, tool.policy.breaking) == ("add", True)
    assert registry.to_openai_schemas() == registry.schemas("openai")
