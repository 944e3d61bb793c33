"""Research and write a report; each state proves its work first: `pip install
'llm-fsm-runtime[openai]'`.

Run:  OPENAI_API_KEY=… python examples/workflows/workflow_report.py "quantum computing"
"""

from __future__ import annotations

import sys

from llm_fsm.workflow import KeyResult, StateSpec, Workflow
from llm_fsm.workflow.llm.openai import OpenAIAdapter


def search(query: str) -> str:
    """Search the notes."""
    return f"Notes on {query}: see the handbook, chapter 4."


def research(ctx):
    again = f"\nLast time this was missing: {ctx.feedback}" if ctx.feedback else ""
    found = ctx.llm.run_with_tools("Gather what the notes say.", f"{ctx.input}{again}")
    ctx.shared.set("topic", ctx.input)
    return found


def write(ctx):
    return ctx.llm.run_with_tools(
        f"Write a report on {ctx.shared.get('topic')} with headings.", ctx.input
    )


STATES = [
    StateSpec(
        name="research",
        objective="Gather information",
        key_results=[
            KeyResult(
                "length", "At least 40 characters", check=lambda output: len(str(output)) >= 40
            ),
            KeyResult("sourced", "It names its sources"),
        ],
        execute=research,
        tools=[search],
        max_retries=2,
        is_initial=True,
    ),
    StateSpec(
        name="writing",
        objective="Write the report",
        key_results=[
            KeyResult("sections", "Two headings", check=lambda output: str(output).count("#") >= 2)
        ],
        execute=write,
        is_final=True,
    ),
]


def main(llm, topic):
    workflow = Workflow("Report", STATES, {"research": "writing"}, llm, validator_llm=llm)
    print(workflow.run(topic).history[-1].output)


if __name__ == "__main__":
    main(OpenAIAdapter(model="gpt-4o-mini"), sys.argv[1] if len(sys.argv) > 1 else "lighthouses")
