"""What is dropped or closed leaves no thread and no file, at every door."""

import asyncio
import gc
import subprocess
import sys

import pytest

from llm_fsm import AsyncMachine, Machine
from llm_fsm.testing import ScriptedLLM, reply
from llm_fsm.workflow import StateSpec, Workflow, WorkflowError

DEFINITION = {
    "name": "d",
    "initial_state": "a",
    "states": {
        "a": {"purpose": "?", "transitions": [{"target_state": "b", "description": "x"}]},
        "b": {"reply": "b"},
    },
}

# Each door makes its object, uses it, and drops it or closes it.
_HEAD = """
import asyncio, gc, os, resource, sys, threading
from llm_fsm import AsyncMachine, LLMStateMachine, Machine
from llm_fsm.statechart import AsyncLLMStateMachine
from llm_fsm.testing import ScriptedLLM, calls, reply
from llm_fsm.workflow import BoundLLM, KeyResult, StateSpec, Workflow
from statemachine import State

DEFINITION = %r

def workflow(**options):
    passed = KeyResult("any", check=lambda output: True)
    states = [StateSpec("a", key_results=[passed], execute=lambda ctx: ctx.input), StateSpec("b")]
    return Workflow("w", states, {"a": lambda output: "b", "b": None}, ScriptedLLM([]), **options)

class Chart(LLMStateMachine):
    idle = State(initial=True)
    work = State(final=True)
    go = idle.to(work)
    def on_enter_work(self, state_input=None):
        return "x"

class AsyncChart(AsyncLLMStateMachine):
    idle = State(initial=True)
    work = State(final=True)
    go = idle.to(work)
    async def on_enter_work(self, state_input=None):
        return "x"

class Own:
    def __init__(self):
        self.machine = Machine.from_dict(DEFINITION, model="offline", tools=[self.look])
        self.machine.add_handler
        self.machine.start()
    def look(self):
        "Look."

class OwnWorkflow:
    def __init__(self):
        self.workflow = Workflow("w", [StateSpec("a", execute=self.work)], {"a": None}, None)
        self.workflow.run(1)
    def work(self, ctx):
        return ctx.input

def closed(made):
    with made as one:
        one.run(1)
    one.close()

async def aclosed(made):
    async with made as one:
        await one.arun(1)
    await one.aclose()

def chart_closed():
    with Chart(None, enable_summarization=False) as one:
        one.go(state_input="x")
    one.close()

async def chart_run():
    await AsyncChart(None, enable_summarization=False).go(state_input="x")

async def machine_run():
    await AsyncMachine.from_dict(DEFINITION, model="offline").start()

def streamed():
    chat = Machine.from_dict(DEFINITION, model=ScriptedLLM([reply("b", "ok")])).start(greet=False)
    for event in chat.stream("hello"):
        pass
"""
_TAIL = """
def held():
    gc.collect()
    return threading.active_count(), len(os.listdir("/dev/fd"))

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
for name, (door, number) in doors.items():
    door()
    before = held()
    for _ in range(number):
        door()
    after = held()
    print(name, after[0] - before[0], after[1] - before[1], flush=True)
"""
OFTEN = ("a machine", "a workflow", "a state machine")
DOORS = {
    "a machine": "def door(): Machine.from_dict(DEFINITION, model='offline').start()",
    "an asynchronous machine": "def door(): asyncio.run(machine_run())",
    "a conversation that outlives its machine": "def door(): streamed()",
    "an object whose method is a tool of its machine": "door = Own",
    "a workflow": "def door(): workflow().run(1)",
    "a workflow that never ran": "door = workflow",
    "a workflow with its record": "def door():\n    made = workflow()\n    made.run(1)\n    made.turns()",
    "an asynchronous run": "def door(): asyncio.run(workflow().arun(1))",
    "an object whose method is a state of its workflow": "door = OwnWorkflow",
    "a workflow that is closed": "def door(): closed(workflow())",
    "a workflow that is closed in a loop": "def door(): asyncio.run(aclosed(workflow()))",
    "a state machine": "def door(): Chart(None, enable_summarization=False).go(state_input='x')",
    "a state machine that is closed": "door = chart_closed",
    "an asynchronous state machine": "def door(): asyncio.run(chart_run())",
    "a question outside of a workflow": "def door(): BoundLLM(ScriptedLLM(['ok']), []).run_with_tools('s', 'u')",
}


def test_a_hundred_of_each_leave_no_thread_and_no_file():
    rows = ["doors = {}"]
    for name, source in DOORS.items():
        rows += [source, f"doors[{name!r}] = (door, {100 if name in OFTEN else 25})"]
    code = _HEAD % (DEFINITION,) + "\n".join(rows) + _TAIL
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [f"{name} 0 0" for name in DOORS], run.stderr[-2000:]


def greeting() -> Workflow:
    return Workflow(
        "greet",
        [StateSpec("greet", execute=lambda ctx: f"Hello {ctx.input}")],
        {"greet": None},
        None,
    )


def test_a_closed_workflow_says_so():
    workflow = greeting()
    workflow.close()
    workflow.close()
    with pytest.raises(WorkflowError, match="is closed; make another one"):
        workflow.run("Ada")


def test_a_closed_workflow_says_so_in_a_loop():
    async def use() -> None:
        async with greeting() as workflow:
            await workflow.arun("Ada")
        await workflow.aclose()
        with pytest.raises(WorkflowError, match="is closed; make another one"):
            await workflow.astep("Ben")

    asyncio.run(use())


def test_a_machine_whose_tools_refer_to_it_is_freed():
    freed = []

    class Counted(ScriptedLLM):
        async def aclose(self) -> None:
            freed.append("closed")

    def make() -> None:
        machine = Machine.from_dict(DEFINITION, model=Counted([reply("b", "ok")]))
        machine.function(lambda: machine, name="own")
        machine.start(greet=False).send("hello")

    make()
    gc.collect()
    assert freed == ["closed"]


def test_closing_closes_all_whatever_is_raised():
    closed = []

    class Failing(ScriptedLLM):
        async def aclose(self) -> None:
            closed.append("model")
            raise RuntimeError("no")

    async def close() -> None:
        machine = AsyncMachine.from_dict(DEFINITION, model=Failing([]))
        with pytest.raises(RuntimeError, match="no"):
            await machine.close()

    asyncio.run(close())
    assert closed == ["model"]
