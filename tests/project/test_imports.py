"""Imports stand at the top of a module, cost little and change nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from paths import ROOT

PACKAGE = ROOT / "src" / "llm_fsm"
# Imports inside functions that are meant: what is slow to load and seldom needed.
LAZY = {
    *{
        ("testing.pytest_plugin", f"testing.scenarios.{name}")
        for name in ("checks", "loader", "problems")
    },
    *{("testing.pytest_plugin", f"testing.scenarios.{name}") for name in ("schema", "session")},
    *{("testing.pytest_plugin", "_text"), ("testing.pytest_plugin", "engine.host_files")},
    ("documents.safety", "lint.rules.graph.acts"),
    *{("documents.loader", "documents.check"), ("turn.reply.parser", "json_repair")},
    ("engine.conversation", "records.explain"),
    ("engine.outbox.sinks", "engine.outbox.webhook"),
    ("server.mcp_door", "server.mcp_server"),  # it loads the SDK of MCP
    *{("languages", f"babel{part}") for part in ("", ".lists", ".numbers")},
    ("turn.localized", "babel.dates"),
    *{("documents.translations", f"babel.messages{part}") for part in ("", ".pofile")},
    ("definition.templates", "definition.reply_template"),  # it loads the template engine
    ("lint.rules.conditions.bad_condition", "lint.facts.data_flow"),
    ("lint.rules.conditions.bad_condition", "lint.facts.members"),
}
LAZY_ROOMS = ("cli",)  # its commands
SHARED_CLASS_NAMES = {
    "KeyResult",  # the published schema names one, workflows the other
    "Limits",  # of a definition, in the published schema; of the server, for `create_app`
    "Message",  # a message of a conversation; one to a chat client
    "Paused",  # the question of a run; the event, whose name is in records
    "ToolCall",  # as models ask for it; as chat clients give it
    "ToolSpec",  # of a model's request; of workflows
    "Work",  # of a session, in stores; a step
}
"""Names that stay doubled, because users, records or schemas know both classes by them."""


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
# without the package itself, whose names load on first use
NAMED = [name for name in MODULES if name]


def room_of(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that an import statement loads; ours without `llm_fsm.`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name.removeprefix("llm_fsm.")
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        place = node.module or ""
        if place != "llm_fsm" and not place.startswith("llm_fsm."):
            yield place
            return
        inner = place.removeprefix("llm_fsm").removeprefix(".")
        for alias in node.names:
            deeper = f"{inner}.{alias.name}".removeprefix(".")
            yield deeper if deeper in MODULES else inner


def ours(module: str) -> set[str]:
    names = {name for node in ast.walk(tree(module)) for name in imported(node)}
    return {name for name in names if name and name in MODULES}


def test_no_module_imports_itself_round_a_corner() -> None:
    TopologicalSorter({module: ours(module) - {module} for module in NAMED}).prepare()


def test_imports_stand_at_the_top() -> None:
    inner = {
        (module, name)
        for module in NAMED
        if room_of(module) not in LAZY_ROOMS
        for function in ast.walk(tree(module))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        for name in imported(node)
    }
    assert inner == LAZY


def test_a_class_name_is_one_class() -> None:
    names = [
        node.name
        for module in MODULES
        for node in tree(module).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == SHARED_CLASS_NAMES


def hidden_in_comprehensions(function: ast.AST, own: set[str]) -> set[str]:
    """Names of a module that a function reads, and that a comprehension in it has as a variable."""
    kinds = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    variables: set[str] = set()
    inside: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, kinds):
            targets = [
                name
                for part in node.generators
                for name in ast.walk(part.target)
                if isinstance(name, ast.Name)
            ]
            taken = {name.id for name in targets} & own
            variables |= taken
            inside |= {
                name for name in ast.walk(node) if isinstance(name, ast.Name) and name.id in taken
            }
    names = {node for node in ast.walk(function) if isinstance(node, ast.Name)} - inside
    return variables & {name.id for name in names if isinstance(name.ctx, ast.Load)}


def own_names(module: ast.Module) -> set[str]:
    """Names that a module defines or imports at its top."""
    own = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            own |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return own


def test_no_comprehension_hides_what_its_function_calls() -> None:
    """Python 3.12.1 takes the one for the other and raises UnboundLocalError."""
    hidden = []
    for module in NAMED:
        own = own_names(tree(module))
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = hidden_in_comprehensions(node, own)
                hidden += [f"{module}.{node.name}: {name}" for name in names]
    assert hidden == []


def after(statement: str) -> dict[str, list[str]]:
    """What a fresh interpreter has loaded and changed once `statement` ran."""
    program = (
        "import json, logging, os, sys\n"
        "before = dict(os.environ), list(logging.root.handlers), logging.root.level, set(sys.modules)\n"
        f"{statement}\n"
        "changed = [] if before[:3] == (dict(os.environ), list(logging.root.handlers), logging.root.level) else"
        " ['environment or logging']\n"
        "print(json.dumps({'changed': changed, 'loaded': sorted(set(sys.modules) - before[3])}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


HEAVY = {
    *{
        "pydantic",
        "pydantic_core",
        "asyncio",
        "aiohttp",
        "litellm",
        "jinja2",
        "loguru",
        "click",
        "rich",
    },
    "prompt_toolkit",
}
SELDOM = {
    *{"llm_fsm.records.explain", "llm_fsm.lint.facts.data_flow", "llm_fsm.lint.facts.members"},
    *{"llm_fsm.documents.check", "jsonschema_rs", "re2"},
}
"""What only some machines need, or the command line alone."""


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import llm_fsm", HEAVY),
        ("from llm_fsm import check", HEAVY),
        ("import llm_fsm.cli.commands.validate", HEAVY - {"click"}),
        (
            "from llm_fsm import Machine",
            {"litellm", "aiohttp", "loguru", "click", "rich", "prompt_toolkit"} | SELDOM,
        ),
        ("from llm_fsm import load, check", {"litellm", "aiohttp", "asyncio", "loguru", "rich"}),
        ("import llm_fsm.llm.litellm.adapter", {"litellm", "openai"}),
        ("import llm_fsm.server", {"litellm", "mcp"}),
        ("import llm_fsm.cli", {"litellm", "aiohttp", "loguru", "prompt_toolkit", "rich"}),
    ],
)
def test_importing_is_cheap_and_changes_nothing(statement: str, absent: set[str]) -> None:
    found = after(statement)
    assert not absent & set(found["loaded"])
    assert found["changed"] == []
