"""The tools of τ-bench's retail shop, which are Python files over the loaded database."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from benchmarks.suites.files import Unusable, missing

Json = dict[str, Any]
WRITES = (
    "cancel_pending_order",
    "exchange_delivered_order_items",
    "modify_pending_order_address",
    "modify_pending_order_items",
    "modify_pending_order_payment",
    "modify_user_address",
    "return_delivered_order_items",
)


class Tool(NamedTuple):
    """A tool: the function over the database, and its description as a model gets it."""

    name: str
    invoke: Callable[..., str]
    description: str
    parameters: Json


def tools_of(where: Path) -> tuple[Tool, ...]:
    """Load the tools, which import their base class by name. Raises Unusable."""
    base = where.parent / "tool.py"
    if not where.is_dir() or not base.is_file():
        raise missing(base if where.is_dir() else where, "tau")
    for name in WRITES:
        if not (where / f"{name}.py").is_file():
            raise missing(where / f"{name}.py", "tau")
    for name in ("tau_bench", "tau_bench.envs"):
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["tau_bench.envs.tool"] = module_of(base, "tau_bench.envs.tool")
    files = sorted(path for path in where.glob("*.py") if path.stem != "__init__")
    return tuple(map(_tool, files))


def _tool(path: Path) -> Tool:
    name = path.stem
    made = getattr(module_of(path, f"tau_{name}"), name.title().replace("_", ""), None)
    if made is None:
        raise Unusable(f"{path}: not a tool of τ-bench: it has no class of that name")
    told: Json = made.get_info()["function"]
    return Tool(name, made.invoke, told["description"], told["parameters"])


def module_of(path: Path, name: str) -> ModuleType:
    """Run a Python file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
