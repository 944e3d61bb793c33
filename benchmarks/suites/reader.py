"""The report of one retail task that is played live, over two OpenAI-compatible servers."""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import os
import sys

from benchmarks.suites import episode, tau
from benchmarks.suites.agents import Agent, RetailBot, ToolLoop
from benchmarks.suites.customer import Customer
from benchmarks.suites.episode import Exchange
from benchmarks.suites.files import Unusable
from benchmarks.suites.meter import Meter
from benchmarks.suites.play import table
from benchmarks.suites.retail_tools import Json
from benchmarks.suites.tau import Retail, Task
from benchmarks.tokens import counter
from llm_fsm.llm.openai.client import CompatLLM

MODEL = "reader"
"""The name that a server gets if nobody names a model."""
TOKENIZER = "o200k_base"


def report(options: argparse.Namespace) -> int:
    """Play a task, print its row, and write all of it to a file.

    Returns:
        The exit code: 3 if a model failed, else 0.

    Raises:
        Unusable: The data is missing, or there is no such task.
        ConfigurationError: A server cannot be used.
    """
    retail = tau.retail(options.data)
    found = asyncio.run(_played(options, retail, _task(retail, options.task)))
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    agent = found["agent"]
    row = [
        *(found["task"], agent["name"], found["reward"], found["turns"]),
        *(agent["calls"], agent["tokens_in"], agent["tokens_out"]),
    ]
    print(table(["task", "agent", "reward", "turns", "calls", "tokens in", "tokens out"], [row]))
    if found["error"]:
        print(found["error"], file=sys.stderr)
        return 3
    return 0


def _task(retail: Retail, task_id: str) -> Task:
    for task in retail.tasks:
        if task.id == task_id:
            return task
    raise Unusable(f"there is no task {task_id}; the set has {len(retail.tasks)} tasks")


async def _played(options: argparse.Namespace, retail: Retail, task: Task) -> Json:
    count = counter(TOKENIZER)
    model = Meter(_server(options.base_url, options.model, options.timeout), count)
    human = Meter(_server(options.user_url, options.user_model, options.timeout), count)
    data = copy.deepcopy(retail.data)
    agent: Agent
    if options.bare:
        agent = ToolLoop(model, data, tau.policy(options.data), retail.loop)
    else:
        agent = RetailBot(model, data, options.reply)
    customer = Customer(human, task.scenario)

    def told(one: Exchange) -> None:
        spent = f"{model.calls} calls, {model.tokens_in} tokens in, {model.tokens_out} out"
        shown = f"customer: {one.customer}\nagent: {one.agent}\n({spent})"
        print(shown, file=sys.stderr, flush=True)

    try:
        played = await episode.play(retail, task, data, agent, customer, told=told)
    finally:
        await model.aclose()
        await human.aclose()
    name = "bare loop" if options.bare else "examples/retail"
    return {
        "task": task.id,
        "agent": {"name": name, **_counted(model)},
        "customer": _counted(human),
        **played.to_dict(),
    }


def _counted(meter: Meter) -> Json:
    return {"calls": meter.calls, "tokens_in": meter.tokens_in, "tokens_out": meter.tokens_out}


def _server(address: str, model: str | None, timeout: float) -> CompatLLM:
    key = os.environ.get("LLM_FSM_API_KEY")
    return CompatLLM(model or MODEL, base_url=address, api_key=key, timeout=timeout)
