"""Observe, orient, decide, act: a loop over the model of one state, and the same loop as a
workflow.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from llm_fsm._async import played
from llm_fsm._json import JsonDict
from llm_fsm._text import escaped
from llm_fsm.llm.clients.messages import Message
from llm_fsm.workflow.bound_llm import BoundLLM
from llm_fsm.workflow.context import ExecutionContext
from llm_fsm.workflow.state import KeyResult, StateSpec
from llm_fsm.workflow.validation import RuleValidator
from llm_fsm.workflow.workflow import Workflow

DONE = "TASK COMPLETE:"
"""The first words of the model's report if nothing is left to do."""

PHASES = ("observe", "orient", "decide", "act")
_ASKED = {
    "observe": "List what is known about the task and what is missing, as short points.",
    "orient": "Say what the observations mean for the task, and which options there are.",
    "decide": "Choose one option. Name the single next action and the reason for it.",
    "act": f"Carry out the decision with the tools that you have, and report the result. If nothing is left to do, "
    f"begin your report with {DONE!r} and give the final answer.",
}


def run_ooda(
    ctx: ExecutionContext, task: str, tools: Sequence[Any] | None = None, max_cycles: int = 5
) -> Any:
    """Work on a task inside a state's function, in cycles of observing, orienting, deciding and
    acting.

    Every call goes through `ctx.llm`, so it is on record and limited. Each phase is reported as
    progress.

    Args:
        ctx: The context of the state's function.
        task: The task.
        tools: Functions to act with, beside the tools of the state.
        max_cycles: The most cycles.

    Returns:
        The report of the last cycle; in an async function an awaitable of it.

    Raises:
        ValueError: There is no model, or no cycle is allowed.
    """
    llm = ctx.llm
    if llm is None:
        raise ValueError("run_ooda asks ctx.llm, and there is none")
    if max_cycles < 1:
        raise ValueError(f"max_cycles is at least 1, not {max_cycles}")

    return played(_cycles(ctx, llm, task, tools or (), max_cycles))


def _cycles(
    ctx: ExecutionContext, llm: BoundLLM, task: str, tools: Sequence[Any], max_cycles: int
) -> Generator[Any, Any, str]:
    """Yield the answers, phase by phase, and return the last report."""
    report = ""
    for cycle in range(1, max_cycles + 1):
        known: JsonDict = {"task": task, "input": ctx.input}
        if report:
            known["last_report"] = report
        for phase in PHASES:
            system, user = f"You are in the phase {phase}. {_ASKED[phase]}", escaped(known)
            if phase == "act":
                report = str((yield llm.run_with_tools(system, user, tools=tools)))
            else:
                messages = [
                    Message(role="system", content=system),
                    Message(role="user", content=user),
                ]
                report = str((yield llm.chat(messages, tools=[])))
            known[phase] = report
            if ctx.task is not None:
                ctx.task.emit({"ooda": phase, "cycle": cycle, "said": report})
        if DONE in report:
            break
    return report


def create_ooda_agent(
    llm: Any, tools: Sequence[Any], task: str, *, max_cycles: int = 5
) -> Workflow:
    """Return the same loop as a workflow of four states. The last state has the tools.

    Args:
        llm: The model.
        tools: Functions to act with.
        task: The task.
        max_cycles: The most cycles.

    Returns:
        The workflow.
    """

    def spec(phase: str) -> StateSpec:
        def execute(ctx: ExecutionContext) -> Any:
            known = {"task": task, "given": ctx.input, "failed": ctx.feedback}
            assert ctx.llm is not None
            return ctx.llm.run_with_tools(
                f"You are in the phase {phase}. {_ASKED[phase]}", escaped(known)
            )

        said = KeyResult(
            "said", "It says something", check=lambda output: bool(str(output or "").strip())
        )
        return StateSpec(
            name=phase,
            objective=_ASKED[phase],
            key_results=[said],
            execute=execute,
            tools=list(tools) if phase == "act" else [],
            is_initial=phase == "observe",
        )

    def after(output: Any) -> str | None:
        cycles = 1 + sum(one.state_name == "act" for one in agent.context.history)
        return None if DONE in str(output) or cycles >= max_cycles else "observe"

    agent = Workflow(
        objective=task,
        states=[spec(phase) for phase in PHASES],
        transitions={"observe": "orient", "orient": "decide", "decide": "act", "act": after},
        llm=llm,
        validator=RuleValidator(),
    )
    return agent
