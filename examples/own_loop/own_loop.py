"""A loop of your own over the primitives: a map of states, tools, and any model's SDK.

Inject where you are, let the model declare a call, execute it, accumulate the result, and check for
the end.

Run:  OPENAI_API_KEY=… python examples/own_loop/own_loop.py
"""

from __future__ import annotations

import json

from llm_fsm import FSM, ToolRegistry, generate_orchestrator_guide

tools = ToolRegistry()
fsm = FSM(
    states={
        "start": ["researching"],
        "researching": ["writing"],
        "writing": ["reviewing"],
        "reviewing": ["writing", "end"],
        "end": [],
    },
    initial_state="start",
    terminal_states=["end"],
)


@tools.register
def research_web(topic: str) -> str:
    """Conduct web research on a topic."""
    return f"Research completed: {topic}"


@tools.register(scope=["reviewing"])
def review_article(article: str) -> str:
    """Review the article."""
    return "APPROVED" if len(article) > 20 else "REJECTED: too short"


@tools.register
def transition_state(next_state: str, reason: str = "") -> str:
    """Go to the next state."""
    fsm.transition(next_state)
    return f"Now in {next_state}. {reason}".strip()


def main(client, model="gpt-4o-mini", most=20):
    messages = [{"role": "user", "content": "Create an article about lighthouses"}]
    for _ in range(most):
        if fsm.is_terminal():
            break
        system = f"You lead a content team.\n{generate_orchestrator_guide(fsm, tools)}"
        reply = client.chat.completions.create(
            model=model,
            messages=[{"role": "system", "content": system}, *messages],
            tools=tools.get_tool_schemas(),
        )
        said = reply.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls or ():
            try:
                result = tools.execute(call.function.name, json.loads(call.function.arguments))
            except ValueError as error:  # the model reads what it did wrong
                result = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
    print(f"{fsm.current_state} after {len(messages)} messages")


if __name__ == "__main__":
    from openai import OpenAI

    main(OpenAI())
