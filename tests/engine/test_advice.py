"""A host is told once what is unsafe in a definition, and which keys no schema declares."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import DefinitionError, Machine, create_handler
from llm_fsm.engine.advice import LOGGER, advise
from llm_fsm.testing import ScriptedLLM, reply

BYE: dict[str, Any] = {"purpose": "Say goodbye"}
KEYS: dict[str, Any] = {"type": "object", "properties": {"day": {"type": "string"}}}


def hello(target: str, **more: Any) -> dict[str, Any]:
    return {"purpose": "Which day?", "transitions": [{"target_state": target, **more}]}


def book(**more: Any) -> dict[str, Any]:
    return {"kind": "task", "purpose": "Book", "transitions": [{"target_state": "bye"}], **more}


TASK: dict[str, Any] = {
    "name": "task",
    "initial_state": "hello",
    "states": {"hello": hello("book"), "book": book(acts=True), "bye": BYE},
}
TOOL: dict[str, Any] = {
    "name": "tool",
    "initial_state": "hello",
    "tools": {"pay": {"registered": "pay", "acts": True}},
    "states": {"hello": hello("book"), "book": book(tools=["pay"]), "bye": BYE},
}
YES_TO_NOTHING: dict[str, Any] = {
    "name": "nothing", "initial_state": "hello", "states": {"hello": hello("bye", agrees=True), "bye": BYE},
}  # fmt: skip
UNDECLARED: dict[str, Any] = {
    "name": "undeclared",
    "initial_state": "hello",
    "context_schema": KEYS,
    "states": {"hello": {**hello("bye", agrees=True), "confirms": ["dya"]}, "bye": BYE},
}
CALLER: dict[str, Any] = {
    "name": "caller",
    "initial_state": "hello",
    "states": {
        "hello": hello("call"),
        "call": {"kind": "subflow", "flow": "booking", "transitions": [{"target_state": "bye"}]},
        "bye": BYE,
    },
}
SAFE: dict[str, Any] = {
    "name": "safe",
    "initial_state": "ask",
    "context_schema": KEYS,
    "states": {
        "ask": {**hello("check"), "required_context_keys": ["day"]},
        "check": {**hello("book", agrees=True), "confirms": ["day"], "reply": "Book {{ day }}?"},
        "book": book(acts=True),
        "bye": BYE,
    },
}
UNSAFE = {
    "a task": (TASK, {}, "F120"),
    "a tool": (TOOL, {}, "F120"),
    "a yes to nothing": (YES_TO_NOTHING, {}, "F122"),
    "a yes to a key that nobody declares": (UNDECLARED, {}, "F122"),
    "a called task": (CALLER, {"booking": TASK}, "F120"),
    "a yes to nothing in a called flow": (CALLER, {"booking": YES_TO_NOTHING}, "F122"),
    "an act two calls away": (CALLER, {"booking": {**CALLER, "name": "b"} | {"states": {
        **CALLER["states"], "call": {**CALLER["states"]["call"], "flow": "deeper"}}}, "deeper": TASK}, "F120"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def forget() -> None:
    advise.cache_clear()


def pay() -> str:
    return "paid"


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_unsafe_starts_only_if_that_is_said(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    document, flows, code = UNSAFE[name]
    settings: dict[str, Any] = {"model": "offline", "flows": flows, "tools": [pay]}
    with pytest.raises(DefinitionError) as refused:
        Machine.from_dict(document, **settings)
    assert [found.code for found in refused.value.findings] == [code]
    assert caplog.records == []
    for _ in range(2):
        Machine.from_dict(document, allow_unsafe=True, **settings).close()
    [record] = caplog.records
    assert (record.name, record.levelno) == (LOGGER, logging.WARNING)
    assert code in record.getMessage()


def test_a_called_file_is_judged_where_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "booking.json").write_text(json.dumps(TASK))
    call = {**CALLER["states"]["call"], "flow": "booking.json"}
    states = {**CALLER["states"], "call": call}
    (tmp_path / "caller.json").write_text(json.dumps({**CALLER, "states": states}))
    with pytest.raises(DefinitionError, match="F120"):
        Machine.from_file(tmp_path / "caller.json", model="offline")


def test_what_is_safe_starts_and_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    Machine.from_dict(SAFE, model="offline").close()
    assert caplog.records == []


def test_a_definition_that_never_acts_costs_no_rules() -> None:
    code = (
        "import sys; from llm_fsm import Machine;"
        "Machine.from_file('fsm_definitions/greeting.json', model='offline').close();"
        "sys.exit('llm_fsm.lint.rules.graph.acts' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


TALK: dict[str, Any] = {
    "name": "talk",
    "initial_state": "hello",
    "context_schema": {"properties": {"name": {"type": "string"}, "day": {"type": "string"}}},
    "states": {"hello": {"purpose": "Talk", "transitions": [{"target_state": "bye"}]}, "bye": BYE},
}


@pytest.mark.parametrize(
    ("key", "hint"), [("nmae", "did you mean 'name'?"), ("colour", "declare it there")]
)
def test_a_key_that_no_schema_declares_is_told_once(
    key: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedLLM([reply("hello", "Hm.")] * 3)
    with Machine.from_dict(TALK, model=model) as machine:
        chat = machine.start(greet=False)
        chat.update({key: "x", "name": "Ada"})

        @machine.on("CONTEXT_UPDATE")
        def write(_: Any) -> dict[str, Any]:
            return {key: "y", "day": "Monday"}

        for _ in range(3):
            chat.send("Hello")
    [record] = caplog.records
    assert (record.name, record.levelno) == (LOGGER, logging.WARNING)
    assert repr(key) in record.getMessage()
    assert hint in record.getMessage()


def test_a_handler_tells_its_unknown_keys_too(caplog: pytest.LogCaptureFixture) -> None:
    with Machine.from_dict(TALK, model=ScriptedLLM([reply("hello", "Hm.")])) as machine:

        @machine.on("PRE_PROCESSING")
        def write(_: Any) -> dict[str, Any]:
            return {"dya": "Monday"}

        machine.start(greet=False).send("Hello")
    assert "did you mean 'day'?" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("nmae", "did you mean 'name'?"),
        ("dya", "did you mean 'day'?"),
        ("colour", "declare it there"),
    ],
)
@pytest.mark.parametrize("waits", ["when_context_has", "when_keys_updated", "on_context_update"])
def test_a_key_that_a_handler_waits_for_is_told_at_the_start(
    waits: str, key: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    builder = create_handler("book").at("context_update")
    handler = getattr(builder, waits)(key, "day", "name.first").do(pay)
    Machine.from_dict(TALK, model="offline", handlers=[handler]).close()
    [record] = caplog.records
    assert (
        f"handler 'book' names the key {key!r}, which context_schema lacks" in record.getMessage()
    )
    assert hint in record.getMessage()


def test_without_a_schema_every_key_is_welcome(caplog: pytest.LogCaptureFixture) -> None:
    document = {name: part for name, part in TALK.items() if name != "context_schema"}
    with Machine.from_dict(document, model="offline") as machine:
        machine.start(greet=False).update({"anything": 1})
    assert caplog.records == []
