from __future__ import annotations

import pytest

from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM, calls
from llm_fsm.workflow import (
    ExecutionContext,
    SharedContext,
    StateSpec,
    Workflow,
    create_ooda_agent,
    run_ooda,
)

CYCLE = ["seen", "meant", "chosen"]


def look(at: str) -> str:
    """Look."""
    return f"{at} is wet"


def touch(what: str) -> str:
    """Touch."""
    return f"{what} is cold"


def workflow(execute, model, tools=()):
    return Workflow(
        "Find out", [StateSpec("work", execute=execute, tools=list(tools))], {"work": None}, model
    )


def test_the_loop_stops_when_done_and_uses_the_tools_of_the_state_and_its_own() -> None:
    acting = calls(("look", {"at": "the sea"}), ("touch", {"what": "ice"}))
    model = ScriptedLLM([*CYCLE, acting, "not yet", *CYCLE, "TASK COMPLETE: wet and cold"])
    run = workflow(
        lambda ctx: run_ooda(ctx, task="How is it?", tools=[touch], max_cycles=3), model, [look]
    )
    assert run.run("go").history[-1].output == "TASK COMPLETE: wet and cold"
    offered = [[tool.name for tool in request.tools] for request in model.requests]
    assert offered[:5] == [[], [], [], ["look", "touch"], ["look", "touch"]]
    told = [message.content for message in model.requests[4].messages if message.role == "tool"]
    assert told == ['"the sea is wet"', '"ice is cold"']
    assert "not yet" in model.requests[5].messages[-1].content

    events = [event for turn in run.turns() for event in turn.events]
    phases = [
        (event.report["cycle"], event.report["ooda"])
        for event in events
        if isinstance(event, ev.Progressed)
    ]
    assert phases == [
        (cycle, phase) for cycle in (1, 2) for phase in ("observe", "orient", "decide", "act")
    ]
    assert [event.name for event in events if isinstance(event, ev.ToolReturned)] == [
        "look",
        "touch",
    ]


def test_the_loop_ends_with_its_cycles() -> None:
    model = ScriptedLLM([*CYCLE, "one", *CYCLE, "two"])
    assert (
        workflow(lambda ctx: run_ooda(ctx, "x", max_cycles=2), model).run().history[-1].output
        == "two"
    )
    assert model.remaining == 0


@pytest.mark.anyio
async def test_the_loop_is_awaited_in_async_functions() -> None:
    model = ScriptedLLM([*CYCLE, "TASK COMPLETE: yes"])

    async def execute(ctx):
        return await run_ooda(ctx, "x")

    assert (await workflow(execute, model).arun()).history[-1].output == "TASK COMPLETE: yes"


def test_a_loop_without_a_model_or_a_cycle_is_refused() -> None:
    bare = ExecutionContext(None, SharedContext(), [])
    with pytest.raises(ValueError, match=r"ctx\.llm"):
        run_ooda(bare, "x")
    with pytest.raises(ValueError, match="at least 1"):
        workflow(lambda ctx: run_ooda(ctx, "x", max_cycles=0), ScriptedLLM([])).run()


def test_the_same_loop_as_a_workflow() -> None:
    model = ScriptedLLM(
        [*CYCLE, "not yet", *CYCLE, calls(("look", {"at": "x"})), "TASK COMPLETE: done"]
    )
    result = create_ooda_agent(model, [look], "x", max_cycles=4).run("go")
    assert [one.state_name for one in result.history] == ["observe", "orient", "decide", "act"] * 2
    assert result.history[-1].output == "TASK COMPLETE: done"
    assert len(create_ooda_agent(ScriptedLLM(["x"] * 4), [], "x", max_cycles=1).run().history) == 4
