"""Research and write with a model of smolagents: `pip install
'llm-fsm-runtime[smolagents,statemachine]'`.

Old versions of smolagents call InferenceClientModel `HfApiModel`.

Run:  python examples/classes/smolagents_research.py "lighthouses"
"""

from __future__ import annotations

import sys

from statemachine import State

from llm_fsm import LLMStateMachine, ToolRegistry, create_llm_client, register_tool
from llm_fsm.statechart import Message

TOOLS = ToolRegistry()


@register_tool(description="Search for information", state_scope="research", registry=TOOLS)
def demo_search(query: str) -> str:
    return f"Much is known about {query}."


class Research(LLMStateMachine):
    idle = State(initial=True)
    research = State()
    writing = State()
    done = State(final=True)

    begin = idle.to(research)
    write = research.to(writing)
    finish = writing.to(done)

    def on_enter_research(self, state_input=None):
        found = self.run_llm_with_tools(
            "Find out what is asked, with your tools.", str(state_input), "research"
        )
        self.memory.working_memory.set(0, found)
        return found

    def on_enter_writing(self, state_input=None):
        def attempt(refinement_advice=None):
            asked = f"{self.memory.to_context()}\n\nWrite a short article on {state_input}. {refinement_advice or ''}"
            return self.llm_client.chat([Message(role="user", content=asked)]).content

        return self.run_with_refinement(
            "writing", "A short article about the findings", attempt, max_retries=2
        )


def main(model, topic):
    client = create_llm_client("smolagents", agent_or_model=model)
    workflow = Research(client, tool_registry=TOOLS, enable_summarization=False)
    print(workflow.begin(state_input=topic))
    print(workflow.write(state_input=topic))
    workflow.finish()


if __name__ == "__main__":
    from smolagents import InferenceClientModel

    main(InferenceClientModel(), sys.argv[1] if len(sys.argv) > 1 else "lighthouses")
