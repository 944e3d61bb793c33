"""fsm-agent-flow does not converse: one run of three states, each with one tool call, stands for
three turns.
"""

from __future__ import annotations

from typing import Any

from adapters.common import MODEL, environment
from hand_form import SYSTEM
from stub import StubOpenAI

_TEXTS = {
    "name": "My full name is Maria Gonzalez",
    "email": "maria@example.com",
    "date": "How about 12 May 2027, in the morning?",
}


def save_name(name: str) -> str:
    """Store the user's full name."""
    return f"stored {name}"


def save_email(email: str) -> str:
    """Store the user's email address."""
    return f"stored {email}"


def save_date(date: str) -> str:
    """Store the preferred date."""
    return f"stored {date}"


class Peer:
    """A finished workflow does nothing when it is run again, so each run is of a new one."""

    is_async = False
    turns_per_call = 3

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from fsm_agent_flow.llm.openai import OpenAIAdapter

        self.llm = OpenAIAdapter(model=MODEL)
        if stub:
            self.llm._client = StubOpenAI()

    def workflow(self) -> Any:
        from fsm_agent_flow import KeyResult, StateSpec, Workflow

        def state(key: str, tool: Any, **kind: bool) -> Any:
            def execute(context: Any) -> Any:
                prompt = SYSTEM.replace("FORM-JSON", "FORM")
                return context.llm.run_with_tools(system_prompt=prompt, user_message=_TEXTS[key])

            results = [KeyResult("ok", "answered", check=bool)]
            return StateSpec(
                name=key,
                objective=f"Collect the {key}",
                tools=[tool],
                key_results=results,
                execute=execute,
                **kind,
            )

        states = [
            state("name", save_name, is_initial=True),
            state("email", save_email),
            state("date", save_date, is_final=True),
        ]
        transitions = {"name": "email", "email": "date", "date": None}
        return Workflow(
            objective="Fill the form", states=states, transitions=transitions, llm=self.llm
        )

    def open(self, _id: str) -> dict[str, Any]:
        return {}

    def start(self, conversation: Any) -> None:
        """Nothing: nobody is greeted."""

    def turn(self, conversation: Any, _text: str) -> str:
        conversation["out"] = self.workflow().run("start")
        return str(conversation["out"])[-200:]

    def state(self, conversation: Any) -> str:
        return "done" if "out" in conversation else "name"

    def data(self, _conversation: Any) -> dict[str, Any]:
        return {}
