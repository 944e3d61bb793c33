"""The map in docs/architecture.md holds: imports go down, at the top of a module, and nothing is too large."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "llm_fsm"

# From top to bottom; a name stands for a module or a folder of modules.
LAYERS: Mapping[str, tuple[str, ...]] = {
    "applications": ("__main__", "cli", "pytest_plugin"),
    "around": ("cases", "sync", "telemetry", "testing"),
    "front door": ("conversation", "machine"),
    "shell": (
        "admission",
        "asking",
        "closing",
        "courier",
        "doctor",
        "edition",
        "editions",
        "engine",
        "execution",
        "folder",
        "inbox",
        "journal",
        "once",
        "points",
        "recent",
        "recovery",
        "running",
        "shipped",
        "transfer",
        "voice",
    ),
    "ports": (
        "addresses",
        "forks",
        "functions",
        "handlers",
        "llm",
        "loops",
        "mcp",
        "mcp_session",
        "observers",
        "patience",
        "proxies",
        "sinks",
        "stores",
        "threads",
        "tool_batch",
        "tool_schema",
        "toolbox",
        "tools",
        "webhook",
        "workbench",
    ),
    "turn": (
        "amendment",
        "assembly",
        "blanks",
        "briefs",
        "certain",
        "corrections",
        "course",
        "effects",
        "foresight",
        "history",
        "kit",
        "migration",
        "moves",
        "nesting",
        "outputs",
        "patterns",
        "portrait",
        "program",
        "progress",
        "prompts",
        "repair",
        "reply",
        "retake",
        "rounds",
        "speech",
        "stream",
        "talk",
        "terms",
        "thoughts",
        "transition",
        "turn",
        "verdicts",
        "vicinity",
        "why",
        "work",
    ),
    "documents": (
        "checking",
        "codes",
        "convert",
        "diff",
        "draw",
        "flows",
        "foreign",
        "form",
        "graph",
        "legacy",
        "lint",
        "loader",
        "places",
        "plain",
        "published",
        "reading",
        "schema",
        "source",
        "templates",
    ),
    "words": (
        "coercion",
        "compact",
        "conditions",
        "context",
        "copies",
        "courtesies",
        "definition",
        "english",
        "errors",
        "event_json",
        "events",
        "excerpt",
        "findings",
        "flow_events",
        "folding",
        "forms",
        "inlining",
        "json_values",
        "likeness",
        "markup",
        "meanings",
        "memory",
        "messages",
        "names",
        "nodes",
        "numerals",
        "operators",
        "parts",
        "pleas",
        "pointers",
        "questions",
        "recognition",
        "records",
        "reply_schema",
        "secrecy",
        "session",
        "shapes",
        "soundness",
        "tokens",
        "tool_calls",
        "tool_formats",
        "tool_results",
        "window",
        "wording",
    ),
}
PURE = ("turn", "documents", "words")
WORLD = {
    *("aiohttp", "asyncio", "concurrent", "http", "litellm", "logging", "loguru", "multiprocessing", "os"),
    *("pathlib", "random", "secrets", "select", "signal", "socket", "sqlite3", "subprocess", "sys"),
    *("tempfile", "threading", "time", "urllib"),
}
# Below the line a definition's file and the schema that travels with the package are opened.
OPENS_FILES = {"reading": {"os"}, "published": {"os"}}
# Imports inside functions that are meant: what is slow to load and seldom needed.
LAZY = {
    *{("loader", "checking"), ("reply", "json_repair")},
    *{("lint.rules.bad_check", "lint.flow"), ("lint.rules.bad_check", "lint.members")},
}
LAZY_ROOMS = ("cli",)  # its commands


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
NAMED = [name for name in MODULES if name]  # without the package itself, whose names load on first use


def room_of(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def layer_of(module: str) -> int:
    for rank, rooms in enumerate(LAYERS.values()):
        if room_of(module) in rooms:
            return rank
    raise AssertionError(f"{module} stands in no layer: put it into LAYERS and into docs/architecture.md")


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


def test_every_module_has_its_place_and_every_place_is_taken() -> None:
    assert {room_of(module) for module in NAMED} == {room for rooms in LAYERS.values() for room in rooms}


def test_the_map_in_the_documents_is_this_table() -> None:
    lines = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| layer | rooms |") + 2
    shown = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        name, rooms = (cell.strip() for cell in line.strip("|").split("|"))
        shown[name] = tuple(room.strip(" `") for room in rooms.split(","))
    assert shown == dict(LAYERS)
    assert list(shown) == list(LAYERS)


def test_the_documents_tell_of_every_room_and_of_no_module_that_is_not_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = text[text.index("\n## The rooms") : text.index("\n## A turn")]
    rows = dict(re.findall(r"^\| (`[^|]*) \| (.*) \|$", told, re.MULTILINE))
    rooms = {room: words for names, words in rows.items() for room in re.findall(r"`(\w+)`", names)}
    assert rooms.keys() == {room_of(module) for module in NAMED} - {"__main__"}
    for room in rooms.keys() & {room_of(module) for module in NAMED if "." in module}:
        named = {f"{room}.{name}" for name in re.findall(r"`(\w+)`", rooms[room])}
        assert named - {*NAMED, f"{room}.rules"} == set()


def test_the_documents_say_where_a_change_begins_and_goes_on() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text[text.index("| change | begins in | goes on in |") : text.index("\n## A turn")].splitlines()[2:]
    assert len(rows) > 10
    told = {name for row in rows for cell in row.split(" | ")[1:] for name in re.findall(r"`([^`]+)`", cell)}
    told -= {"validate", "Limits", "correct", "python -m benchmarks.prompts"}
    places = {name for name in told if "/" in name}
    assert {name for name in told - places if name not in {*NAMED, "lint.rules", "cli", "convert", "draw"}} == set()
    files = places | set(re.findall(r"(?<!`)\b((?:tests|docs|src)/[\w/]+(?:\.\w+)+)", " ".join(rows)))
    assert {name for name in files if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("module", NAMED)
def test_imports_go_down(module: str) -> None:
    upwards = {name for name in ours(module) if layer_of(name) < layer_of(module)}
    assert not upwards


def test_no_module_imports_itself_round_a_corner() -> None:
    TopologicalSorter({module: ours(module) - {module} for module in NAMED}).prepare()


@pytest.mark.parametrize(
    "module", [name for name in NAMED if any(room_of(name) in LAYERS[layer] for layer in PURE)]
)
def test_below_the_ports_nothing_touches_the_world(module: str) -> None:
    used = {room_of(name) for node in ast.walk(tree(module)) for name in imported(node)}
    assert used & WORLD <= OPENS_FILES.get(module, set())
    asked = {node.attr for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)}
    assert not asked & {"now", "today", "utcnow", "uuid1", "uuid4"}, "no clock, no chance"


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


def hidden_in_comprehensions(function: ast.AST, own: set[str]) -> set[str]:
    """Names of a module that a function reads, and that a comprehension in it has as a variable."""
    kinds = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    variables: set[str] = set()
    inside: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, kinds):
            targets = [name for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)]
            taken = {name.id for name in targets} & own
            variables |= taken
            inside |= {name for name in ast.walk(node) if isinstance(name, ast.Name) and name.id in taken}
    names = {node for node in ast.walk(function) if isinstance(node, ast.Name)} - inside
    return variables & {name.id for name in names if isinstance(name.ctx, ast.Load)}


@pytest.mark.parametrize("module", NAMED)
def test_no_comprehension_hides_what_its_function_calls(module: str) -> None:
    """Python 3.12.1 takes the one for the other and raises UnboundLocalError."""
    body = tree(module).body
    own = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    own |= {
        (alias.asname or alias.name).partition(".")[0]
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    functions = [
        node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert not {name for function in functions for name in hidden_in_comprehensions(function, own)}


@pytest.mark.parametrize("module", NAMED)
def test_a_module_is_small_enough_to_hold_in_the_head(module: str) -> None:
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= 400


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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


HEAVY = {
    *{"pydantic", "pydantic_core", "asyncio", "aiohttp", "litellm", "jinja2", "loguru", "click", "rich"},
    "prompt_toolkit",
}
SELDOM = {"llm_fsm.engine.explain", "llm_fsm.lint.facts.data_flow", "llm_fsm.lint.facts.members", "llm_fsm.documents.check", "jsonschema_rs", "re2"}
"""What only some machines need, or the command line alone."""


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import llm_fsm", HEAVY),
        ("from llm_fsm import check", HEAVY),
        ("import llm_fsm.cli.commands.validate", HEAVY - {"click"}),
        ("from llm_fsm import Machine", {"litellm", "aiohttp", "loguru", "click", "rich", "prompt_toolkit"} | SELDOM),
        ("from llm_fsm import load, check", {"litellm", "aiohttp", "asyncio", "loguru", "rich"}),
        ("import llm_fsm.llm.litellm.adapter", {"litellm", "openai"}),
        ("import llm_fsm.cli", {"litellm", "aiohttp", "loguru", "prompt_toolkit", "rich"}),
    ],
)
def test_importing_is_cheap_and_changes_nothing(statement: str, absent: set[str]) -> None:
    found = after(statement)
    assert not absent & set(found["loaded"])
    assert found["changed"] == []
