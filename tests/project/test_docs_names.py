"""The reference names all that there is to import, to set and to call, and nothing that there is
not.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import llm_fsm
from llm_fsm import errors
from llm_fsm.definition import models as definition
from llm_fsm.definition.names import PATTERNS
from llm_fsm.engine.conversation import AsyncConversation, Turn
from llm_fsm.engine.handlers.registry import Handler, HandlerBuilder, Occasion, Veto
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import TurnAborted, TurnSaved
from llm_fsm.engine.outbox.sinks import Delivery, SinkFailed
from llm_fsm.engine.pauses import OpenPause
from llm_fsm.engine.settings import DEFAULTS, MachineSettings
from llm_fsm.engine.sync import Conversation, Machine
from llm_fsm.errors import Finding
from llm_fsm.session import events, messages
from llm_fsm.stores.base import Listed
from llm_fsm.testing.scenarios import models as suite
from llm_fsm.testing.scenarios.models import Written
from llm_fsm.tools import task_context as workbench
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.turn.choices import Choice
from paths import ROOT

SOURCE = ROOT / "src" / "llm_fsm"
PAGES = ("api.md", "reference/events.md", "reference/errors.md", "reference/environment.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)
GIVEN = (
    Turn,
    Choice,
    messages.Message,
    messages.Usage,
    messages.Paused,
    OpenPause,
    Listed,
    Delivery,
    Finding,
)
ASKED = (messages.LLMRequest, messages.LLMMessage, messages.ModelReply)
TOLD = (Occasion, Veto, Handler)
SETTINGS = (
    *(
        definition.Condition,
        definition.HistorySettings,
        definition.ModelSettings,
        definition.Limits,
    ),
    *(definition.ToolRef, definition.KeyResult, definition.Scope, definition.Property),
)


def tables(header: str) -> list[list[str]]:
    """The rows of all tables below such a header, cell by cell."""
    found, lines = [], PAGE.splitlines()
    for start in (number for number, line in enumerate(lines) if line == header):
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def called(header: str) -> dict[str, list[str] | None]:
    """What the first cells show: names to parameters, None for those that are not called."""
    found: dict[str, list[str] | None] = {}
    for name, brackets in re.findall(
        r"`(\w+)(\([^`]*\))?`", " ".join(row[0] for row in tables(header))
    ):
        inside = brackets.strip("()").replace("*", "")
        found[name] = (inside.split(", ") if inside else []) if brackets else None
    return found


def members(*kinds: type) -> dict[str, list[str] | None]:
    """Public names of classes, a later one's counting first: methods with their parameters, others
    with None.
    """
    found: dict[str, list[str] | None] = {}
    for kind in kinds:
        for name in (name for name in dir(kind) if not name.startswith("_")):
            value = inspect.getattr_static(kind, name)
            if isinstance(value, classmethod):
                continue
            if not inspect.isfunction(value):
                found[name] = None
            else:
                found[name] = list(inspect.signature(value).parameters)[1:]
    return found


def test_every_name_of_the_package_is_told_of_once() -> None:
    shown = re.findall(r"`(\w+)`", " ".join(row[0] for row in tables("| name | is |")))
    assert sorted(shown) == sorted(set(llm_fsm.__all__) - {"__version__"})


def test_every_error_is_told_of() -> None:
    public = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    assert {name for name in public if f"`{name}`" not in PAGE} == set()
    for attribute in inspect.signature(errors.ModelError).parameters:
        if not attribute.endswith(("message", "rejected")):
            assert f"`{attribute}`" in PAGE


def test_every_setting_of_a_machine_is_told_of_with_what_stands_for_it() -> None:
    shown = [(row[0].strip("`"), row[1].strip("`")) for row in tables("| setting | without | is |")]
    settings = {**DEFAULTS, "file": None}
    assert shown == [(name, repr(value).replace("'", '"')) for name, value in settings.items()]
    assert list(MachineSettings.__annotations__) == list(DEFAULTS)


def test_every_method_is_told_of_with_its_parameters() -> None:
    machine = called("| of a machine | gives |")
    sync = {name for name, value in members(Machine).items() if value is not None}
    inside = {"program", "release"}  # for doors of this package
    ours = {name: value for name, value in members(AsyncMachine).items() if name not in inside}
    assert machine == ours
    assert sync | {"definition"} == set(ours)
    told = called("| of a conversation | is |")
    ours = members(AsyncConversation)
    assert set(told) == {*ours, *members(Conversation)}
    assert {name: names for name, names in told.items() if names is not None} == {
        name: names
        for name, names in ours.items()
        if names is not None and name not in ("history", "turns")
    }
    alone = set(re.findall(r"`(\w+)(?:\(\))?` ¹", PAGE))
    assert alone == set(ours) - set(members(Conversation))
    assert called("| of `create_handler(name)` | means |") == {
        name: names for name, names in members(HandlerBuilder).items() if name != "name"
    }
    assert called("| of a `ToolRegistry` | does |") == members(ToolRegistry)


def _names(kind: Any) -> list[str]:
    """The fields of a frozen value."""
    fields = getattr(kind, "__struct_fields__", ()) or [
        field.name for field in dataclasses.fields(kind)
    ]
    return [name.lstrip("_") for name in fields]


def test_every_field_of_what_is_given_is_told_of_in_order() -> None:
    shown = {}
    for name, cell in tables("| class | has |"):
        words = re.sub(r"^of [^:]*: |\([^)]*\)", "", cell)
        shown[name.strip("`")] = re.findall(r"`(\w+)`", words)
    assert shown == {kind.__name__: _names(kind) for kind in (*GIVEN, *ASKED, *TOLD)}


def test_every_event_is_told_of_with_its_fields() -> None:
    shown = {
        row[0].strip("`"): re.findall(r"`(\w+)`", row[1])
        for row in tables("| event | fields | happened |")
    }
    kinds = {name: getattr(events, name) for name in events.EVENTS}
    kinds |= {kind.__name__: kind for kind in (SinkFailed, TurnSaved, TurnAborted)}
    assert shown == {name: _names(kind) for name, kind in kinds.items()}


def test_what_a_function_of_a_task_works_with_is_told_of() -> None:
    found = tables("| `ctx` of a function for `execute` | is |")
    shown = {name for row in found for name in re.findall(r"`(\w+)", " ".join(row))}
    parts = (workbench.Workbench, workbench.BoundModel, workbench.Shared, workbench.TaskMemory)
    meant = {name for part in parts for name in members(part)} - {"answer", "stop"}
    told = set(re.findall(r"`(\w+)`", workbench.Workbench.__doc__ or "")) - {
        "ctx",
        "run_with_tools",
        "chat",
    }
    assert {*meant, *told} <= shown


def test_every_environment_variable_is_told_of() -> None:
    read = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r'environ(?:\.get\(|\[)"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert {row[0].strip("`") for row in tables("| variable | is |")} >= read
    assert read >= {"LLM_FSM_MODEL", "LLM_FSM_HOME"}


def fields(kind: Any) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        yield field.alias or name


def test_every_setting_of_the_format_is_told_of() -> None:
    """Keys of a definition, its states and transitions are columns of the guide, see `test_guide`."""
    names = ("LLM_GUIDE.md", "reference/agents-and-tasks.md", "ci.md")
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in names]
    words = re.sub(r"^```.*?^```", "", "\n".join(pages), flags=re.DOTALL | re.MULTILINE)
    told = set(re.findall(r"[`\"]([\w$-]+)[`\"]", words))
    for kind in SETTINGS:
        assert set(fields(kind)) - told == set()


def test_every_repair_pattern_is_told_of() -> None:
    page = (ROOT / "docs" / "reference" / "cancel-correct-repeat.md").read_text(encoding="utf-8")
    assert [
        name for name in re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE) if name in PATTERNS
    ] == list(PATTERNS)


def test_the_page_of_continuous_integration_names_every_input_of_the_action() -> None:
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    inputs = re.findall(
        r"^  ([\w-]+):$", action[action.index("inputs:") : action.index("runs:")], re.MULTILINE
    )
    assert "fail-on" in inputs
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert [name for name in inputs if f"`{name}`" not in page] == []


TESTS = [
    kind for kind in vars(suite).values() if inspect.isclass(kind) and issubclass(kind, Written)
]


@pytest.mark.parametrize("kind", TESTS)
def test_every_key_of_a_conversation_test_is_told_of(kind: Any) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    told = set(re.findall(r"[`\"](\w+)[`\"]", page))
    assert set(fields(kind)) - {"$schema"} - told == set()
