"""Customer support that waits for a person and goes on elsewhere: `pip install
'llm-fsm-runtime[openai,statemachine]'`.

Run:  OPENAI_API_KEY=… python examples/classes/openai_support.py "My lamp is broken"      # pauses
      OPENAI_API_KEY=… python examples/classes/openai_support.py --answer "Refund it"     # goes on
"""

from __future__ import annotations

import sys
from pathlib import Path

from statemachine import State

from llm_fsm import (
    ExecutionBreak,
    LLMStateMachine,
    PersistentMemory,
    ToolRegistry,
    ToolType,
    create_llm_client,
    register_tool,
)

TOOLS = ToolRegistry()


@register_tool(description="Look a customer up", state_scope="helping", registry=TOOLS)
def customer(name: str) -> str:
    return f"{name} has been a customer since 2019."


@register_tool(description="Ask the supervisor", tool_type=ToolType.BREAKING, registry=TOOLS)
def ask_supervisor(question: str) -> str:
    return f"[WAITING]: {question}"


class Support(LLMStateMachine):
    waiting = State(initial=True)
    helping = State()
    closed = State(final=True)

    call = waiting.to(helping)
    close = helping.to(closed)

    def on_enter_helping(self, state_input=None):
        self.memory.working_memory.set(0, f"They said: {state_input}")
        return self.run_llm_with_tools(
            system_prompt=f"Help the customer. Ask the supervisor about refunds.\n\n{self.memory.to_context()}",
            user_message=str(state_input),
            state_name="helping",
        )


def main(client, message, state, answer=None):
    if answer is None:
        workflow = Support(client, tool_registry=TOOLS)
        try:
            print(workflow.call(state_input=message))
        except ExecutionBreak as paused:
            workflow.memory.save_to_file(state)
            print(f"{paused.call['arguments']['question']} (saved in {Path(state).name})")
        return
    workflow = Support(client, memory=PersistentMemory.load_from_file(state), tool_registry=TOOLS)
    print(workflow.execute_state("helping", state_input=answer))
    print(f"To do: {workflow.memory.background.todo_list}")
    workflow.close()


if __name__ == "__main__":
    given = sys.argv[1:] or ["My lamp is broken"]
    reply = given[1] if given[0] == "--answer" else None
    main(create_llm_client("openai", model="gpt-4o-mini"), given[0], "support.json", reply)
