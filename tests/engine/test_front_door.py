"""The signatures and the `repr` of what a host holds."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncConversation, AsyncMachine, Conversation, Machine, primitives
from llm_fsm.definition.schema import docstrings
from llm_fsm.documents import loader
from llm_fsm.engine import machine as asynchronous
from llm_fsm.engine import sync
from llm_fsm.engine.handlers import registry
from llm_fsm.engine.outbox import sinks
from llm_fsm.engine.settings import DEFAULTS, MachineSettings
from llm_fsm.llm import scripted
from llm_fsm.testing import ScriptedLLM, reply
from llm_fsm.tools import registry as tools
from llm_fsm.tools.registry import ToolRegistry

DOCUMENT: dict[str, Any] = {
    "name": "greeter",
    "initial_state": "hello",
    "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}},
    "states": {
        "hello": {"purpose": "Learn the pin", "transitions": [{"target_state": "bye"}]},
        "bye": {"kind": "final", "reply": "Bye!"},
    },
}
REPLY = reply("bye", "Thanks.", pin="s3cret")
PIZZA: dict[str, Any] = {
    "name": "pizza",
    "initial_state": "order",
    "context_schema": {"properties": {"size": {"enum": ["small", "large"]}}},
    "states": {
        "order": {
            "purpose": "Learn the size",
            "required_context_keys": ["size"],
            "reply": "Which size?",
            "transitions": [{"target_state": "done"}],
        },
        "done": {"kind": "final", "reply": "One pizza, {{size}}."},
    },
}
"""The definition in the examples of docstrings."""
TWINS = [
    pytest.param(getattr(twin, name), method, id=f"{twin.__name__}.{name}")
    for twin, cls in ((Machine, AsyncMachine), (Conversation, AsyncConversation))
    for name, method in inspect.getmembers(cls, inspect.isroutine)
    if not name.startswith("_") and inspect.isroutine(getattr(twin, name, None))
]
SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)
EXAMPLES = [
    pytest.param(test, id=test.name.removeprefix("llm_fsm."))
    for module in (sync, asynchronous, registry, sinks, loader, primitives, scripted, tools)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module)
    if test.examples
]


def contract(function: Callable[..., Any]) -> tuple[str, dict[str, list[str]]]:
    """The first paragraph of a docstring, and the names in its sections."""
    first, *sections = SECTION.split(inspect.getdoc(function) or "")
    named = dict(zip(sections[::2], sections[1::2], strict=True))
    return first.split("\n\n")[0], {
        section: re.findall(r"^    (\w+):", named.get(section, ""), re.MULTILINE)
        for section in ("Args", "Raises")
    }


def keywords(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Name of a keyword to its type and default; settings are named `**settings`."""
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return {one.name: (hints[one.name], one.default) for one in parameters if one.kind in kinds}


@pytest.mark.parametrize("cls", [AsyncMachine, Machine])
def test_every_way_to_make_a_machine_has_the_same_typed_settings(cls: Any) -> None:
    wanted = keywords(AsyncMachine.__init__)
    assert wanted["settings"][0] == typing.Unpack[MachineSettings]
    assert keywords(cls.__init__) == keywords(cls.from_dict) == wanted
    assert keywords(cls.from_file) == {"settings": wanted["settings"]}


@pytest.mark.parametrize("name", ["on", "run", "step", "start", "run_due", "migrate", "answer"])
def test_a_machine_takes_the_same_arguments_with_and_without_asyncio(name: str) -> None:
    assert keywords(getattr(Machine, name)) == keywords(getattr(AsyncMachine, name))


@pytest.mark.parametrize(("function", "twin"), TWINS)
def test_an_async_method_points_to_the_twin_that_describes_it(
    function: Callable[..., Any], twin: Callable[..., Any]
) -> None:
    awaited = ", awaited" if inspect.iscoroutinefunction(twin) else ""
    assert (twin.__doc__ or "").startswith(f"As `{function.__qualname__}`{awaited}.")
    assert len(TWINS) > 25


@pytest.mark.parametrize("function", [twins.values[0] for twins in TWINS])
def test_a_public_method_describes_its_arguments_and_result(function: Any) -> None:
    signature = inspect.signature(function)
    assert contract(function)[1]["Args"] == [
        name for name in signature.parameters if name != "self"
    ]
    if signature.return_annotation not in (None, "None"):
        assert "Returns:\n" in (function.__doc__ or "")


def test_each_setting_is_described_where_it_is_declared() -> None:
    assert set(docstrings(MachineSettings)) == set(DEFAULTS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_in_a_docstring_does_as_it_says(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pizza.json").write_text(json.dumps(PIZZA), encoding="utf-8")
    with Machine.from_dict(PIZZA, model="offline") as machine:
        example.globs = {**example.globs, "machine": machine}
        said: list[str] = []
        failed, _ = doctest.DocTestRunner().run(example, out=said.append)
        assert failed == 0, "".join(said)


def test_settings_reach_the_machine_from_a_file(tmp_path: Path) -> None:
    place = tmp_path / "greeter.json"
    place.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    model = ScriptedLLM([REPLY])
    with Machine.from_file(path=place, model=model, tools=[len_of], clock=lambda: 5.0) as machine:
        assert machine.start(greet=False).send("hi").text == "Thanks.\n\nBye!"
    assert model.remaining == 0


def len_of(text: str) -> int:
    return len(text)


@pytest.mark.parametrize("cls", [AsyncMachine, Machine])
def test_an_unknown_setting_is_refused_in_the_name_of_what_was_called(cls: Any) -> None:
    called = [cls, cls.from_dict, cls.from_file]
    for function, named in zip(called, ["__init__", "from_dict", "from_file"], strict=True):
        says = rf"^{cls.__name__}\.{named}\(\) got an unexpected keyword argument 'modl'; did you mean 'model'"
        with pytest.raises(TypeError, match=says):
            function({}, modl="offline")


class Desk(Machine):
    """A machine of a host's own class."""


def test_a_class_of_the_host_makes_its_own_machines() -> None:
    with Desk.from_dict(DOCUMENT, model="offline") as machine:
        assert type(machine) is Desk


def test_public_values_have_a_short_repr_without_values_of_the_context() -> None:
    model = ScriptedLLM([reply("hello", "Which pin?"), REPLY])
    with Machine.from_dict(DOCUMENT, model=model, tools=[len_of]) as machine:
        chat = machine.start(conversation_id="c1")
        assert repr(chat) == "<Conversation 'c1' in state 'hello'>"
        stream = chat.stream("s3cret")
        assert repr(stream) == "<SyncStream: <TurnStream: not begun>>"
        list(stream)
        assert repr(stream.turn) == "<Turn 1 in state 'bye', passed: 'Thanks.\\n\\nBye!'>"
        assert repr(machine.resume("c1")) == "<Conversation 'c1' in state 'bye', ended>"
        assert repr(machine) == "<Machine of Definition('greeter', 2 states)>"
        assert repr(model) == "<ScriptedLLM: 0 of 2 replies left>"


def test_tools_and_long_words_have_a_short_repr() -> None:
    registry = ToolRegistry([len_of])
    assert repr(registry) == "ToolRegistry(['len_of'])"
    assert repr(registry.get("len_of")) == "Tool('len_of')"
    with Machine.from_dict(DOCUMENT, model=ScriptedLLM([reply("hello", "x" * 500)])) as machine:
        (turn,) = machine.start().turns
        assert len(repr(turn)) < 120
