"""Read the retail tasks of τ-bench: the database, the writes of the right agent, and the tools."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from benchmarks.suites.files import Unusable, folder, missing, read
from benchmarks.suites.policy import Call

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


class Action(TypedDict):
    name: str
    arguments: dict[str, Any]


class Criteria(TypedDict):
    actions: list[Action]


class Recorded(TypedDict):
    id: str
    evaluation_criteria: Criteria


class Database(TypedDict):
    products: dict[str, Any]
    users: dict[str, Any]
    orders: dict[str, Any]


class Task(NamedTuple):
    """A task: its user, and the writes that the right agent makes."""

    id: str
    user_id: str
    writes: tuple[Call, ...]


class Retail(NamedTuple):
    """The data of the set. `tools`: name of a write to the function of τ-bench."""

    data: Json
    tasks: tuple[Task, ...]
    tools: Mapping[str, Callable[..., str]]


def retail(path: Path) -> Retail:
    """Read the tasks, the database, and the tools of τ-bench. Raises Unusable."""
    where = folder(path, "tau")
    where = where / "retail" if (where / "retail").is_dir() else where
    data: Json = dict(read(where / "db.json", Database, "tau"))
    recorded = read(where / "tasks.json", list[Recorded], "tau")
    found: list[Task] = []
    for one in recorded:
        actions = one["evaluation_criteria"]["actions"]
        writes = [Call(act["name"], act["arguments"]) for act in actions if act["name"] in WRITES]
        found.append(Task(one["id"], _user_of(data, writes, actions), tuple(writes)))
    return Retail(data, tuple(found), _tools(where / "tools"))


def _user_of(data: Json, writes: Sequence[Call], actions: Sequence[Action]) -> str:
    for call in writes:
        if "user_id" in call.arguments:
            return str(call.arguments["user_id"])
        return str(data["orders"][call.arguments["order_id"]]["user_id"])
    for action in actions:
        if "user_id" in action["arguments"]:
            return str(action["arguments"]["user_id"])
    return next(iter(data["users"]))


def _tools(where: Path) -> dict[str, Callable[..., str]]:
    """Load the tools of τ-bench, which import its base class by name."""
    found: dict[str, Callable[..., str]] = {}
    base = where.parent / "tool.py"
    if not where.is_dir() or not base.is_file():
        raise missing(base if where.is_dir() else where, "tau")
    for name in ("tau_bench", "tau_bench.envs"):
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["tau_bench.envs.tool"] = module_of(base, "tau_bench.envs.tool")
    for name in WRITES:
        path = where / f"{name}.py"
        if not path.is_file():
            raise missing(path, "tau")
        tool = getattr(module_of(path, f"tau_{name}"), name.title().replace("_", ""), None)
        if tool is None:
            raise Unusable(f"{path}: not a tool of τ-bench: it has no class of that name")
        found[name] = tool.invoke
    return found


def module_of(path: Path, name: str) -> ModuleType:
    """Run a Python file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def data_of(data: Json, users: Sequence[str]) -> Json:
    """Return a copy of the data in which these users and their orders may be changed."""
    found = {name: dict(table) for name, table in data.items()}
    for user_id in users:
        user = found["users"][user_id] = copy.deepcopy(data["users"][user_id])
        for name in user["orders"]:
            found["orders"][name] = copy.deepcopy(data["orders"][name])
    return found
