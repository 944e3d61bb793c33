"""What a function gives is known when it is registered, or said when it is called: never a success
of nothing.
"""

import array
import dataclasses
import math
from collections.abc import AsyncIterator, Generator, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statemachine import State
from statemachine.exceptions import InvalidDefinition

from llm_fsm import LLMStateMachine, Machine, create_handler, observe
from llm_fsm.engine.outbox.sinks import sink
from llm_fsm.testing import ScriptedLLM, calls
from llm_fsm.tools.registry import ToolRegistry, make_tool
from llm_fsm.turn.tool_results import tool_result
from llm_fsm.workflow import KeyResult, StateSpec, ToolSpec, Workflow

TALK = {"name": "talk", "initial_state": "a", "states": {"a": {"kind": "final", "reply": "Hi"}}}


def plain(value: Any) -> Any:
    """Yield something."""
    yield value


async def awaited(value: Any) -> Any:
    """Yield something."""
    yield value


class Called:
    """An object whose call is a generator."""

    def __call__(self, value: Any) -> Any:
        yield value


def chart(function: Any) -> None:
    class Chart(LLMStateMachine):
        idle = State(initial=True)
        work = State(final=True)
        go = idle.to(work)

        if hasattr(function, "__code__") and function.__code__ is plain.__code__:

            def on_enter_work(self, state_input: Any = None) -> Any:
                yield state_input

        else:

            async def on_enter_work(self, state_input: Any = None) -> Any:
                yield state_input


def workflow(**options: Any) -> None:
    ways = options.pop("ways", {"a": None})
    validator = options.pop("validator", None)
    Workflow("w", [StateSpec("a", **options)], ways, None, validator)


class Judge:
    def __init__(self, function: Any) -> None:
        self.validate = function


DOORS = {
    "a tool": lambda f: make_tool(f, name="t"),
    "a tool of a machine": lambda f: Machine.from_dict(TALK, model="offline").tool(f, name="t"),
    "a tool among primitives": lambda f: ToolRegistry().register(f, name="t"),
    "a function": lambda f: Machine.from_dict(TALK, model="offline").function(f, name="f"),
    "a handler": lambda f: create_handler("h").at("pre_processing").do(f),
    "the condition of a handler": lambda f: create_handler("h").when(f),
    "a sink": lambda f: sink(f, name="s"),
    "an observer": observe,
    "a summarizer": lambda f: Machine.from_dict(TALK, model="offline", summarizer=f),
    "a state of a workflow": lambda f: workflow(execute=f),
    "a check of a workflow": lambda f: workflow(key_results=[KeyResult("k", check=f)]),
    "what follows in a workflow": lambda f: workflow(ways={"a": f}),
    "a validator of a workflow": lambda f: workflow(validator=Judge(f)),
    "a tool of a workflow": lambda f: (
        Workflow(
            "w", [StateSpec("a", tools=[ToolSpec("t", "T", {}, f)])], {"a": None}, None
        ).definition
    ),
    "a state of a state machine": chart,
}


@pytest.mark.parametrize("function", [plain, awaited, partial(plain), Called()])
@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_a_function_whose_call_runs_nothing(door, function):
    with pytest.raises(
        (ValueError, TypeError, InvalidDefinition, Exception), match="is a generator function"
    ):
        DOORS[door](function)


def gives_iterator() -> Iterator[int]:
    return iter([1])


def gives_generator() -> Generator[int, None, None]:
    return (number for number in [1])


async def gives_async() -> AsyncIterator[int]:
    return awaited(1)


def gives_bytes() -> bytes:
    return b"x"


def gives_complex() -> complex:
    return 1j


@pytest.mark.parametrize(
    "function", [gives_iterator, gives_generator, gives_async, gives_bytes, gives_complex]
)
@pytest.mark.parametrize(
    "door", ["a tool", "a function", "a state of a workflow", "a tool of a workflow"]
)
def test_a_return_type_without_a_json_form_is_said_when_the_function_is_registered(door, function):
    with pytest.raises(Exception, match=r"returns .*, which has no JSON form"):
        DOORS[door](function)


def unknown_hint() -> "NoSuchName":  # noqa: F821
    """Look."""
    return 1


def test_other_functions_are_taken():
    for function in (unknown_hint, lambda: 1, dict, partial(int, "1")):
        Machine.from_dict(TALK, model="offline").function(function, name="f")


WORK = {
    "name": "shop",
    "initial_state": "work",
    "tools": {"order": {"registered": "order"}},
    "states": {
        "work": {
            "kind": "task",
            "purpose": "Order.",
            "tools": ["order"],
            "transitions": [{"target_state": "end"}],
        },
        "end": {"kind": "final"},
    },
}


def returned(function: Any) -> list[tuple[Any, str | None]]:
    """Result and error of a tool that a model calls."""
    with Machine.from_dict(WORK, model=ScriptedLLM([calls(("order", {})), "Done."])) as machine:
        machine.tool(function, name="order", description="Order")
        events = machine.run().events
    return [
        (event.result, event.error) for event in events if type(event).__name__ == "ToolReturned"
    ]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda: plain(1), "generator"),
        (lambda: awaited(1), "async_generator"),
        (lambda: map(str, [1]), "map"),
        (lambda: filter(None, [1]), "filter"),
        (lambda: iter([1]), "list_iterator"),
    ],
)
def test_a_call_that_gives_an_iterator_is_an_error_and_no_success(function, kind):
    [(result, error)] = returned(function)
    assert result is None
    assert error.startswith(f"the tool gave a {kind}, whose work is done only when it is read")


class Number:
    """A number of another library."""

    def item(self) -> Any:
        return 3


class Array:
    def __init__(self, content: Any) -> None:
        self.content = content

    def tolist(self) -> Any:
        return self.content


class Frame:
    columns = ("a",)

    def to_dict(self, orient: str) -> Any:
        assert orient == "records"
        return [{"a": 1}, {"a": math.nan}]


class Rows:
    def to_dicts(self) -> Any:
        return [{"a": 1}]


class Refusing:
    """Its method of that name is another one."""

    def item(self, place: int) -> Any:
        return place


@dataclasses.dataclass
class Order:
    count: Any
    price: Any


LEAVES = st.floats() | st.integers() | st.text() | st.none()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
NOT_FINITE = "[numbers must be finite, and whole ones fit in 64 bits]"
FORMS = [
    (Fraction(1, 2), 0.5),
    (Number(), 3),
    (Array([1, Number()]), [1, 3]),
    (Array(3), 3),
    ([Array([[1], [2]])], [[[1], [2]]]),
    (Frame(), [{"a": 1}, {"a": NOT_FINITE}]),
    (Rows(), [{"a": 1}]),
    (array.array("d", [1.0, math.inf]), [1.0, NOT_FINITE]),
    ({"prices": [1.0, math.nan], "order": 7}, {"prices": [1.0, NOT_FINITE], "order": 7}),
    (Order(Number(), math.nan), {"count": 3, "price": NOT_FINITE}),
    ({Number(): 1}, {"3": 1}),
    (
        {"a": Refusing(), "b": 1},
        {"a": "[a Refusing has no JSON form; give text, a number, a list or an object]", "b": 1},
    ),
]


@pytest.mark.parametrize(("made", "kept"), FORMS)
def test_what_a_tool_gives_is_kept_and_said_at_the_place_of_what_cannot_be(made, kept):
    assert returned(lambda: made) == [(kept, None)]


@pytest.mark.parametrize(
    ("made", "kept"), [form for form in FORMS if not isinstance(form[0], Refusing)]
)
def test_the_output_of_a_task_and_of_a_workflow_is_kept_alike(made, kept):
    ran = []

    def work(_: Any) -> Any:
        ran.append(1)
        return made

    task = {"kind": "task", "execute": "work", "transitions": [{"target_state": "end"}]}
    document = {**TALK, "initial_state": "work", "states": {"work": task, "end": {"kind": "final"}}}
    with Machine.from_dict(document, model="offline") as machine:
        machine.function(work)
        assert machine.run().output == kept
    done = Workflow("w", [StateSpec("a", execute=work)], {"a": None}, None).run(1)
    assert done.history[-1].output == kept
    assert len(ran) == 2  # what has acted does not run again for the form of its result


@given(VALUES)
def test_no_part_is_lost_for_another_one(value):
    kept = tool_result([value, "kept"])
    assert kept[1] == "kept"


def test_an_async_check_of_a_workflow_does_not_pass():
    async def check(output: Any) -> bool:
        return False

    state = StateSpec("a", key_results=[KeyResult("k", check=check)], max_retries=0)
    with pytest.raises(Exception, match="async"):
        Workflow("w", [state], {"a": None}, None).run(1)
