"""A conversation that is to be tried, before it is known what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.testing.generate.paths import Act


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One conversation. `state`: where it begins, "" where the definition says; `context`: what is known then.

    `greet`: it begins with a greeting; `input`: what the first task is given; `outputs`: the tasks that begin at
    once, each with what it puts out; `checks`: whether registered checks pass; `judged`: whether the judge is
    content; `calls`: the tools called before, one reply after the other; `results`: what these give back;
    `host`: what a handler sets with each message.
    """

    name: str
    state: str
    context: Mapping[str, Any]
    acts: tuple[Act, ...] = ()
    greet: bool = False
    input: Any = None
    outputs: tuple[tuple[str, Any], ...] = ()
    checks: bool = True
    judged: bool = True
    calls: tuple[tuple[str, ...], ...] = ()
    host: tuple[Mapping[str, Any], ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
