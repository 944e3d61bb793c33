"""States that ask other frameworks: they are Python methods, so anything goes in. Here stand-ins
answer.

With the real packages `sgl` is `import sglang as sgl`, and `Assistant` is `autogen.AssistantAgent`.

Run:  python examples/classes/other_frameworks.py
"""

from __future__ import annotations

from types import SimpleNamespace

from statemachine import State

from llm_fsm import LLMStateMachine


def gen(prompt: str, context: str = "") -> str:
    return f"generated: {prompt} ({len(context)} characters of context)"


sgl = SimpleNamespace(gen=gen)


class Assistant:
    """Stands in for an agent of ag2."""

    def __init__(self, name: str) -> None:
        self.name = name

    def generate_reply(self, messages: list[dict]) -> str:
        return f"{self.name}: {messages[-1]['content'].upper()}"


class Mixed(LLMStateMachine):
    drafting = State(initial=True)
    reviewing = State(final=True)
    review = drafting.to(reviewing)

    def on_enter_drafting(self, state_input=None):
        text = sgl.gen(f"a text on {state_input}", context=self.memory.to_context())
        self.memory.working_memory.set(0, text)
        return text

    def on_enter_reviewing(self, state_input=None):
        agent = Assistant("critic")
        asked = self.memory.working_memory.get(0) if state_input is None else state_input
        return agent.generate_reply(messages=[{"role": "user", "content": asked}])


def main():
    machine = Mixed(enable_summarization=False)
    print(machine.execute_state("drafting", "lamps"))
    print(machine.review(state_input=None))
    print([entry["state"] for entry in machine.memory.history.entries])


if __name__ == "__main__":
    main()
