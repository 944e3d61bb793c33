"""A model that plays the customer of a τ-bench task, as the user simulator of τ-bench does."""

from __future__ import annotations

from collections.abc import Mapping

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.session.messages import LLMMessage, LLMRequest

STOP = "###STOP###"
"""The message of a customer who is content, or gives up."""
OPENING = "Hi! How can I help you today?"
"""The words to which the customer writes first. The agent does not see them."""
_TOPICS = {
    "reason_for_call": "What you want",
    "known_info": "What you know",
    "unknown_info": "What you do not know",
    "task_instructions": "How you are, and how you act",
}
_PROMPT = """You play a customer of an online shop who writes to its agent in a chat.

{scenario}

Rules:
- Answer with your next message alone: one message, short, as a person types it. No quotation marks, no comments.
- Begin with what you want. Tell the rest when the agent asks for it, not all at once.
- Say it in your own words. Do not quote the text above, and do not tell that you play.
- Use only what stands above and what the agent told you. If you are asked for anything else, say that you do not know.
- If the agent asks whether to go on with exactly what you want, say yes. If it is not what you want, say no, and why.
- Want nothing that does not stand above.
- Answer with {stop} alone when all that you want is done, answered, or refused for good.
- Answer with {stop} alone when the agent passes you to a person.
- Do not answer with {stop} before that, or while the agent waits for your yes."""


class Customer:
    """A customer who talks to an agent.

    Args:
        llm: The model that plays.
        scenario: What the customer wants and knows, by the topics of τ²-bench.
    """

    def __init__(self, llm: LLM, scenario: Mapping[str, str]) -> None:
        self._llm = llm
        self._messages = [LLMMessage("system", prompt(scenario))]

    async def answer(self, words: str) -> str:
        """Return the next message.

        Args:
            words: The words of the agent.

        Raises:
            ModelError: The model failed, or said nothing.
        """
        self._messages.append(LLMMessage("user", words or "(The agent says nothing.)"))
        request = LLMRequest(messages=tuple(self._messages))
        said = (await self._llm.complete(request)).text.strip()
        if not said:
            raise ModelError("the customer's model said nothing")
        self._messages.append(LLMMessage("assistant", said))
        return said


def prompt(scenario: Mapping[str, str]) -> str:
    """Return the instructions for the model. Topics that it does not know are left out."""
    lines = [
        f"{title}: {scenario[topic]}" for topic, title in _TOPICS.items() if scenario.get(topic)
    ]
    return _PROMPT.format(scenario="\n".join(lines), stop=STOP)
