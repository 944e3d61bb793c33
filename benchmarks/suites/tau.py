"""Read the retail tasks of τ-bench: the database, the policy, and what the right agent does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from benchmarks.suites.files import folder, missing, read
from benchmarks.suites.policy import Call
from benchmarks.suites.retail_tools import WRITES, Json, Tool, tools_of


class Action(TypedDict):
    name: str
    arguments: dict[str, Any]


class Criteria(TypedDict):
    actions: list[Action]
    communicate_info: NotRequired[list[str] | None]


class Scenario(TypedDict):
    instructions: str | dict[str, str | None]


class Recorded(TypedDict):
    id: str
    user_scenario: Scenario
    evaluation_criteria: Criteria


class Database(TypedDict):
    products: dict[str, Any]
    users: dict[str, Any]
    orders: dict[str, Any]


class Task(NamedTuple):
    """A task: its user, and the writes that the right agent makes.

    `outputs`: texts that the agent must say. `scenario`: what the user wants and knows, as the set
    words it, by topic.
    """

    id: str
    user_id: str
    writes: tuple[Call, ...]
    outputs: tuple[str, ...] = ()
    scenario: Mapping[str, str] = MappingProxyType({})


class Retail(NamedTuple):
    """The data of the set.

    `tools`: name of a write to the function of τ-bench. `loop`: all tools of τ-bench, for a model.
    """

    data: Json
    tasks: tuple[Task, ...]
    tools: Mapping[str, Callable[..., str]]
    loop: tuple[Tool, ...] = ()


def retail(path: Path) -> Retail:
    """Read the tasks, the database, and the tools of τ-bench. Raises Unusable."""
    where = _place(path)
    data: Json = dict(read(where / "db.json", Database, "tau"))
    recorded = read(where / "tasks.json", list[Recorded], "tau")
    tools = tools_of(where / "tools")
    writes = {tool.name: tool.invoke for tool in tools if tool.name in WRITES}
    return Retail(data, tuple(_task(data, one) for one in recorded), writes, tools)


def policy(path: Path) -> str:
    """Read the rules for the agent. Raises Unusable."""
    where = _place(path) / "policy.md"
    if not where.is_file():
        raise missing(where, "tau")
    return where.read_text(encoding="utf-8")


def _place(path: Path) -> Path:
    where = folder(path, "tau")
    return where / "retail" if (where / "retail").is_dir() else where


def _task(data: Json, one: Recorded) -> Task:
    criteria = one["evaluation_criteria"]
    actions = criteria["actions"]
    writes = [Call(act["name"], act["arguments"]) for act in actions if act["name"] in WRITES]
    told = one["user_scenario"]["instructions"]
    scenario = {"reason_for_call": told} if isinstance(told, str) else told
    return Task(
        id=one["id"],
        user_id=_user_of(data, writes, actions),
        writes=tuple(writes),
        outputs=tuple(criteria.get("communicate_info") or ()),
        scenario={topic: words for topic, words in scenario.items() if words and words != "."},
    )


def _user_of(data: Json, writes: Sequence[Call], actions: Sequence[Action]) -> str:
    for call in writes:
        if "user_id" in call.arguments:
            return str(call.arguments["user_id"])
        return str(data["orders"][call.arguments["order_id"]]["user_id"])
    for action in actions:
        if "user_id" in action["arguments"]:
            return str(action["arguments"]["user_id"])
    return str(next(iter(data["users"])))


def data_of(data: Json, users: Sequence[str]) -> Json:
    """Return a copy of the data in which these users and their orders may be changed."""
    found = {name: dict(table) for name, table in data.items()}
    for user_id in users:
        user = found["users"][user_id] = copy.deepcopy(data["users"][user_id])
        for name in user["orders"]:
            found["orders"][name] = copy.deepcopy(data["orders"][name])
    return found


def right_data(retail: Retail, task: Task) -> Json:
    """Return the database that the tools of τ-bench leave if they run the writes of a task."""
    data = data_of(retail.data, (task.user_id,))
    for call in task.writes:
        retail.tools[call.name](data, **copy.deepcopy(call.arguments))
    return data
