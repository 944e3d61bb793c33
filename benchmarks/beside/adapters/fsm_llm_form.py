"""fsm-llm as it is on PyPI: a function per state, structured replies through the openai SDK, no
greeting.
"""

from __future__ import annotations

from typing import Any

from adapters.common import MODEL, environment
from hand_form import STAGES, SYSTEM
from stub import StubOpenAI

_NEXT = {"greeting": "name", "name": "email", "email": "date", "date": "confirm"}


def _transitions(stage: str) -> dict[str, str]:
    if stage == "confirm":
        wishes = {
            key: f"If the user wants to change the {key}" for key in ("name", "email", "date")
        }
        return {"done": "If the user confirms that everything is correct", **wishes}
    if stage == "done":
        return {}
    found = {_NEXT[stage]: "When the stage has what it needs"}
    return (
        found
        if stage == "date"
        else {**found, "confirm": "When name, email and date are all known"}
    )


class Peer:
    """The machine keeps the history; what the replies tell of the user is kept by the functions of
    the states.
    """

    is_async = True

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        import openai

        self.client = StubOpenAI(is_async=True) if stub else openai.AsyncOpenAI()

    def open(self, _id: str) -> Any:
        from fsm_llm import LLMStateMachine
        from pydantic import BaseModel

        class Reply(BaseModel):
            """What a state's reply holds."""

            name: str | None
            email: str | None
            date: str | None
            content: str

        machine = LLMStateMachine(initial_state="greeting", end_state="done")
        prompt = SYSTEM.replace("FORM-JSON", "FORM")

        async def answer(fsm: Any, response: Any, will_transition: bool) -> str:
            for key in ("name", "email", "date"):
                if getattr(response, key):
                    fsm.set_context_data(key, getattr(response, key))
            return response.content

        for stage in STAGES:
            define = machine.define_state(
                state_key=stage,
                prompt_template="{% raw %}" + prompt + "{% endraw %}",
                transitions=_transitions(stage),
                response_model=Reply,
            )
            define(answer)
        return machine

    def start(self, conversation: Any) -> None:
        """Nothing: it does not greet."""

    async def turn(self, conversation: Any, text: str) -> str:
        run = await conversation.run_state_machine(self.client, user_input=text, model=MODEL)
        return run.response

    def state(self, conversation: Any) -> str:
        return conversation.get_curr_state()

    def data(self, conversation: Any) -> dict[str, Any]:
        return conversation.user_defined_context
