"""A state that observes, orients, decides and acts until its task is done: `pip install
'llm-fsm-runtime[openai]'`.

Run:  OPENAI_API_KEY=… python examples/workflows/workflow_ooda.py
"""

from __future__ import annotations

from llm_fsm.workflow import StateSpec, Workflow, run_ooda
from llm_fsm.workflow.llm.openai import OpenAIAdapter

SHELVES = {"A": 3, "B": 0}


def count(shelf: str) -> int:
    """Count the boxes on a shelf."""
    return SHELVES[shelf]


def move(source: str, target: str, boxes: int) -> str:
    """Move boxes from one shelf to another."""
    SHELVES[source] -= boxes
    SHELVES[target] += boxes
    return f"{source}: {SHELVES[source]}, {target}: {SHELVES[target]}"


def tidy(ctx):
    return run_ooda(ctx, task="Have two boxes on shelf B", tools=[move], max_cycles=3)


def main(llm):
    state = StateSpec("tidy", "Tidy the shelves", execute=tidy, tools=[count])
    print(Workflow("Warehouse", [state], {"tidy": None}, llm).run().history[-1].output)


if __name__ == "__main__":
    main(OpenAIAdapter(model="gpt-4o-mini"))
