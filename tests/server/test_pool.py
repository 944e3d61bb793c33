"""Work for authors runs beside the server, with little time, and sees no keys."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.server.limits import Limits
from llm_fsm.server.pool import WorkPool
from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller
from machines import GREETER

ADA, BOB = Caller(name="ada"), Caller(name="bob")
LONG = json.dumps(
    {
        "name": "long",
        "initial_state": "s0",
        "states": {
            f"s{number}": {
                "purpose": f"Ask for the number {number} of the form",
                "transitions": [
                    {"target_state": f"s{(number * 7 + step) % 900}"} for step in range(1, 6)
                ],
            }
            for number in range(900)
        },
    }
)


def pooled(limits: Limits, use: Callable[[WorkPool], Awaitable[None]]) -> None:
    async def run() -> None:
        pool = WorkPool(limits)
        try:
            await use(pool)
        finally:
            await pool.close()

    asyncio.run(run())


def test_jobs_run_in_a_process_of_their_own_that_has_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-operator")
    monkeypatch.setenv("LLM_FSM_MODEL", "openai/gpt-4o")

    async def use(pool: WorkPool) -> None:
        found = await pool.run(ADA, "findings", json.dumps({**GREETER, "initial_state": "nowhere"}))
        assert "error" in [one["level"] for one in found]
        (process,) = pool._free
        assert process.pid != os.getpid()
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"sk-operator" not in environment
        assert b"LLM_FSM_MODEL" not in environment

    pooled(Limits(), use)


def test_a_job_that_takes_too_long_is_ended_and_the_next_one_is_done() -> None:
    async def use(pool: WorkPool) -> None:
        with pytest.raises(Problem, match="longer than") as caught:
            await pool.run(ADA, "findings", LONG)
        assert caught.value.status == 413
        assert pool._free == []
        object.__setattr__(pool._limits, "work_seconds", 60.0)
        assert (await pool.run(ADA, "drawn", json.dumps(GREETER), "mermaid")).startswith(
            "stateDiagram"
        )

    pooled(Limits(work_seconds=0.01), use)


def test_one_token_has_few_jobs_at_once_and_keeps_nobody_else_out() -> None:
    async def use(pool: WorkPool) -> None:
        first = asyncio.create_task(pool.run(ADA, "findings", json.dumps(GREETER)))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as caught:
            await pool.run(ADA, "findings", json.dumps(GREETER))
        assert caught.value.status == 429
        assert await pool.run(BOB, "drawn", json.dumps(GREETER), "text")
        await first
        assert await pool.run(ADA, "findings", json.dumps(GREETER)) is not None

    pooled(Limits(work_waiting=1), use)


@pytest.mark.parametrize(
    ("job", "arguments", "kind"),
    [
        ("drawn", ("{", "text"), "invalid"),
        ("played", (json.dumps(GREETER), "{"), "invalid"),
        ("played", (json.dumps(GREETER), '{"cases": 1}'), "invalid"),
        ("prompt", (json.dumps(GREETER), "bye", {}, "Hi", False), "invalid"),
        ("picture", (7, "text"), "internal"),
        ("nothing", (), "internal"),
    ],
)
def test_what_is_wrong_comes_back_as_a_problem(
    job: str, arguments: tuple[Any, ...], kind: str
) -> None:
    async def use(pool: WorkPool) -> None:
        with pytest.raises(Problem) as caught:
            await pool.run(ADA, job, *arguments)
        assert caught.value.kind == kind
        assert "/" not in caught.value.detail

    pooled(Limits(), use)


def test_a_job_whose_caller_left_ends_its_process() -> None:
    async def use(pool: WorkPool) -> None:
        await pool.run(ADA, "drawn", json.dumps(GREETER), "text")
        (process,) = pool._free
        job = asyncio.create_task(pool.run(ADA, "findings", LONG))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert pool._jobs == {}
        assert process.returncode is not None or pool._free == [process]

    pooled(Limits(), use)
