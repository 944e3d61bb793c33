"""The signatures and the `repr` of what a host holds."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, Machine
from llm_fsm.testing import ScriptedLLM, reply
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


def settings(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Name of a keyword to its type and default."""
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters)
    return {one.name: (hints[one.name], one.default) for one in parameters if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize("cls", [AsyncMachine, Machine])
def test_every_way_to_make_a_machine_has_the_same_typed_settings(cls: Any) -> None:
    wanted = settings(AsyncMachine.__init__)
    assert len(wanted) > 15
    assert settings(cls.__init__) == settings(cls.from_dict) == wanted
    assert settings(cls.from_file) == {name: wanted[name] for name in wanted if name != "file"}


@pytest.mark.parametrize("name", ["on", "run", "step", "start", "run_due", "migrate", "answer"])
def test_a_machine_takes_the_same_arguments_with_and_without_asyncio(name: str) -> None:
    assert settings(getattr(Machine, name)) == settings(getattr(AsyncMachine, name))


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
        with pytest.raises(TypeError, match=rf"^{cls.__name__}\.{named}\(\) got an unexpected keyword argument 'modl'"):
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
