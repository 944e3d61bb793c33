"""A state that asks an agent of Google's ADK: `pip install 'llm-fsm-runtime[adk,statemachine]'`.

Run:  GOOGLE_API_KEY=… python examples/classes/adk_agent.py "Where is order 7?"
"""

from __future__ import annotations

import sys

from statemachine import State

from llm_fsm import LLMStateMachine
from llm_fsm.adk_client import ADKStateMixin, create_adk_agent_with_tools


def order_status(order_id: str) -> str:
    """Say where an order is."""
    return f"Order {order_id} left the warehouse."


class Service(LLMStateMachine, ADKStateMixin):
    waiting = State(initial=True)
    answering = State()
    closed = State(final=True)

    ask = waiting.to(answering)
    close = answering.to(closed)

    def on_enter_answering(self, state_input=None):
        return self.run_with_adk(query=str(state_input), state_name="answering")


def main(model, question):
    client = create_adk_agent_with_tools(
        model=model,
        name="service",
        instruction="Answer questions about orders.",
        tools=[order_status],
    )
    workflow = Service(client, enable_summarization=False)
    print(workflow.ask(state_input=question))
    workflow.close()


if __name__ == "__main__":
    main("gemini-2.0-flash", sys.argv[1] if len(sys.argv) > 1 else "Where is order 7?")
