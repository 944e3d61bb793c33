"""Names that strings lead to exist: modules that load on first use, and tables of places."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import click
import pytest

import llm_fsm
import llm_fsm.statechart
import llm_fsm.testing
from llm_fsm.cli import group
from llm_fsm.cli.commands.conversations import listing
from llm_fsm.lint import registry as lint_registry
from llm_fsm.stores import registry as stores_registry
from paths import ROOT

PACKAGE = ROOT / "src" / "llm_fsm"
PLACE = re.compile(r"llm_fsm(?:\.\w+)+:\w+(?:\.\w+)*")
"""A place in a table: "llm_fsm.module:Name"."""

COMPUTED = {
    ("llm_fsm", "f'{__name__}.{module}'"),
    (
        "llm_fsm.cli.commands.conversations.listing",
        "f'llm_fsm.cli.commands.conversations.{cmd_name}'",
    ),
    ("llm_fsm.cli.group", "module"),
    ("llm_fsm.cli.host_code", "f'llm_fsm.channels.{name}'"),
    ("llm_fsm.lint.registry", "found.name"),
    ("llm_fsm.llm.clients.adk", "module"),
    ("llm_fsm.llm.clients.base", "module"),
    ("llm_fsm.llm.registry", "module"),
    ("llm_fsm.stores.registry", "f'llm_fsm.stores.{kind}'"),
    ("llm_fsm.testing", "f'llm_fsm.{module}'"),
}
"""Loads whose module is computed. A test below reads the table of each; only ADK is not installed
everywhere.
"""


def module_names() -> list[str]:
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    names.remove("llm_fsm.__main__")  # importing it runs the command
    return names


MODULES = module_names()


@cache
def tree(module: str) -> ast.Module:
    path = PACKAGE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def argument(node: ast.AST) -> ast.expr | None:
    """What a call of `import_module` loads; None for anything else."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "import_module"
    ):
        return node.args[0]
    return None


def loaded(node: ast.AST | None) -> str | None:
    """The module that an expression loads by its written name."""
    name = None if node is None else argument(node)
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def bindings(scope: ast.AST) -> Iterator[tuple[str, str]]:
    """Variables of a scope that hold a loaded module, with its name."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(node.target, node.value)]
        else:
            continue
        for target, value in pairs:
            together = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            inner = zip(target.elts, value.elts, strict=True) if together else [(target, value)]
            for name, source in inner:
                if module := loaded(source):
                    yield ast.unparse(name), module


def scopes(module: ast.Module) -> Iterator[ast.AST]:
    """Places in which a variable has one meaning: functions; classes, for `self`; the module's own
    lines.
    """
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    yield from (node for node in ast.walk(module) if isinstance(node, kinds))
    yield ast.Module([node for node in module.body if not isinstance(node, kinds)], [])


def reached(source: ast.Module) -> set[tuple[str, str]]:
    """Names that a module reads of modules that it loads by name, as (module, name); "" for the
    load itself.
    """
    found = set()
    for scope in scopes(source):
        held = dict(bindings(scope))
        if isinstance(scope, ast.ClassDef):
            held = {name: module for name, module in held.items() if name.startswith("self.")}
        for node in ast.walk(scope):
            if module := loaded(node):
                found.add((module, ""))
            if isinstance(node, ast.Attribute):
                owner = loaded(node.value) or held.get(ast.unparse(node.value))
                if owner is not None:
                    found.add((owner, node.attr))
    return found


def is_installed(module: str) -> bool:
    """False only for packages of others that are not there; a module of ours must exist."""
    package = module.partition(".")[0]
    return (
        package == "llm_fsm" or package in sys.stdlib_module_names or find_spec(package) is not None
    )


def missing(found: set[tuple[str, str]]) -> list[str]:
    """Names of `found` that do not exist."""
    faults = []
    for module, name in sorted(found):
        try:
            if name:
                getattr(import_module(module), name)
            else:
                import_module(module)
        except (ImportError, AttributeError) as error:
            faults.append(str(error))
    return faults


def resolve(place: str) -> Any:
    """What "module:Name.name" names."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


def test_every_module_loads_and_has_what_it_lists() -> None:
    lost = []
    for name in MODULES:
        module = import_module(name)
        listed = getattr(module, "__all__", ())
        lost += [f"{name}.{one}" for one in listed if not hasattr(module, one)]
    assert lost == []


def test_names_of_modules_that_load_on_first_use_exist() -> None:
    reads: set[tuple[str, str]] = set()
    for module in MODULES:
        reads |= reached(tree(module))
    assert ("litellm", "ModelResponse") in reads
    assert missing({(owner, name) for owner, name in reads if is_installed(owner)}) == []


def test_places_in_tables_exist() -> None:
    places = {
        node.value
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and PLACE.fullmatch(node.value)
    }
    assert "llm_fsm.llm.openai.client:CompatLLM" in places
    for place in places:
        assert callable(resolve(place))


def test_modules_that_other_programs_load_exist() -> None:
    """Options such as `-m llm_fsm.server.worker` and pytest's `-p`."""
    words = {
        element.value
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call | ast.Tuple | ast.List)
        for element in (node.args if isinstance(node, ast.Call) else node.elts)
        if isinstance(element, ast.Constant) and str(element.value).count(".") > 1
    }
    named = {str(word) for word in words if re.fullmatch(r"llm_fsm(?:\.\w+)+", str(word))}
    assert {"llm_fsm.server.worker", "llm_fsm.testing.pytest_plugin"} <= named
    assert named <= set(MODULES)


def test_entry_points_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for place in project["scripts"].values():
        assert callable(resolve(place))
    for points in project["entry-points"].values():
        for place in points.values():
            import_module(place.partition(":")[0])


def test_loads_with_a_computed_name_are_known() -> None:
    found = {
        (module, ast.unparse(name))
        for module in MODULES
        for node in ast.walk(tree(module))
        if (name := argument(node)) is not None and not isinstance(name, ast.Constant)
    }
    assert found == COMPUTED


def test_tables_of_names_lead_to_names() -> None:
    for package in (llm_fsm, llm_fsm.testing):
        for name in package._MODULE_OF:
            assert getattr(package, name) is not None
    for kind, (name, extra) in stores_registry._CLASSES.items():
        assert callable(getattr(import_module(f"llm_fsm.stores.{kind}"), name)), extra
    assert lint_registry.MODULES
    for channel in ("slack", "telegram", "whatsapp"):
        assert callable(import_module(f"llm_fsm.channels.{channel}").routes)


@pytest.mark.parametrize(
    "commands", [group.Commands(), listing.conversations], ids=["llm-fsm", "conversations"]
)
def test_commands_in_tables_load(commands: click.Group) -> None:
    context = click.Context(commands)
    for name in commands.list_commands(context):
        assert isinstance(commands.get_command(context, name), click.Command), name


def test_a_renamed_name_is_found() -> None:
    source = (
        "def first():\n    loader = import_module('llm_fsm.testing.scenarios.loader')\n    loader.read_sweet()\n"
        "def second():\n    return import_module('llm_fsm.testing.scenarios.lauder')\n"
        "class Third:\n    def __init__(self):\n        self._sdk: Any = import_module('llm_fsm.errors')\n"
        "    def fail(self):\n        raise self._sdk.ModelEror\n"
        "def fourth():\n    loader = object()\n    loader.anything()\n"
    )
    faults = " ".join(missing(reached(ast.parse(source))))
    for name in ("read_sweet", "lauder", "ModelEror"):
        assert name in faults
    assert "anything" not in faults
