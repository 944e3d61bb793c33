"""A machine whose state runs another machine: `pip install 'llm-fsm-runtime[openai,statemachine]'`.

Run:  OPENAI_API_KEY=… python examples/classes/nested_machines.py
"""

from __future__ import annotations

from statemachine import State

from llm_fsm import LLMStateMachine, create_llm_client
from llm_fsm.statechart import Message


class Chapter(LLMStateMachine):
    planning = State(initial=True)
    writing = State(final=True)
    write = planning.to(writing)

    def on_enter_planning(self, state_input=None):
        plan = self.llm_client.chat([Message("user", f"Plan a chapter on {state_input}.")]).content
        self.memory.working_memory.set(0, plan)
        return plan

    def on_enter_writing(self, state_input=None):
        asked = f"{self.memory.to_context()}\n\nWrite the chapter on {state_input}."
        return self.llm_client.chat([Message("user", asked)]).content


class Book(LLMStateMachine):
    empty = State(initial=True)
    drafting = State()
    printed = State(final=True)

    begin = empty.to(drafting)
    finish = drafting.to(printed)

    def on_enter_drafting(self, state_input=None):
        chapters = []
        for topic in state_input:
            chapter = Chapter(self.llm_client, enable_summarization=False)
            chapter.execute_state("planning", topic)
            chapters.append(chapter.write(state_input=topic))
        return chapters


def main(client):
    book = Book(client, enable_summarization=False)
    for chapter in book.begin(state_input=["lamps", "lenses"]):
        print(chapter)
    book.finish()


if __name__ == "__main__":
    main(create_llm_client("openai", model="gpt-4o-mini"))
