"""Summaries of states, made by a client with your own prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm._text import escaped
from llm_fsm.documents.files import FilePath
from llm_fsm.errors import ReplyError
from llm_fsm.llm.clients.bridge import ClientModel
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.turn.summaries import summary_of

PROMPT = (
    "Summarise what a state of a workflow did, for whoever works on. Answer with one JSON object: "
    '{"summary": "…", "todo_list": ["…"]}. Leave todo_list out where nothing about it changed.'
)


class HistorySummarizer:
    """Makes the summary and the to-do list when a state is left.

    Args:
        llm_client: The client, or the model of the engine.
        prompt: The instruction. It is sent unchanged, and nothing is filled in.
    """

    def __init__(self, llm_client: Any, prompt: str = PROMPT) -> None:
        self._model = ClientModel(lambda _request: llm_client)
        self.prompt = prompt

    async def __call__(self, about: JsonMap) -> Any:
        """Summarise a state.

        Args:
            about: {"of", "happened", "summary", "background"}.

        Returns:
            Text, or {"summary", "todo_list"}.

        Raises:
            ModelError: The model failed.
        """
        messages = (LLMMessage("system", self.prompt), LLMMessage("user", escaped(dict(about))))
        reply = await self._model.complete(LLMRequest(messages=messages))
        try:
            summary, todo = summary_of(reply.text)
        except ReplyError:
            return reply.text
        return {
            "summary": summary or reply.text,
            **({} if todo is None else {"todo_list": list(todo)}),
        }


def create_custom_summarizer(
    llm_client: Any, prompt_file: FilePath | None = None, *, prompt: str | None = None
) -> HistorySummarizer:
    """Make a summarizer with your own prompt, for `set_custom_summarizer`.

    Args:
        llm_client: The client that is called.
        prompt_file: A text file with the prompt.
        prompt: The prompt itself.

    Returns:
        The summarizer.

    Raises:
        OSError: The file cannot be read.
    """
    if prompt_file is not None:
        prompt = Path(prompt_file).read_text(encoding="utf-8")
    return HistorySummarizer(llm_client, PROMPT if prompt is None else prompt)
