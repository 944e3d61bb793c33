"""The model of one state with the state's tools: `ctx.llm` of a workflow's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llm_fsm._json import JsonDict
from llm_fsm.llm.clients.messages import AnyMessage, read_tools, to_engine, to_response
from llm_fsm.session.messages import LLMMessage, ModelReply
from llm_fsm.tools.task_context import BoundModel, Break, Question, SyncModel
from llm_fsm.workflow.errors import ExecutionBreak
from llm_fsm.workflow.host import ask_alone
from llm_fsm.workflow.tools import read_tool


class BoundLLM:
    """A model that records its calls and the calls of its tools. Async functions await its methods.

    Args:
        adapter: The model that the workflow received.
        llm: The engine's own model of the attempt; or tools, for a model outside of a workflow.
        state: The state whose tools it has.
    """

    def __init__(
        self, adapter: Any, llm: BoundModel | SyncModel | Sequence[Any], state: str = ""
    ) -> None:
        self.adapter = adapter
        self._llm = llm
        self._state = state

    def chat(
        self,
        messages: Sequence[AnyMessage],
        *,
        tools: list[JsonDict] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> Any:
        """Ask the model once, with the tools of the state. You perform the calls in the reply.

        Args:
            messages: The conversation so far, oldest first.
            tools: Tools instead of those of the state, as chat completions take them.
            temperature: Sampling temperature.
            max_tokens: The most tokens of the reply.
            options: Further settings of the provider, such as `top_p`, `seed` or `response_format`.

        Returns:
            An LLMResponse.

        Raises:
            ModelError: The model failed.
        """
        question = Question(
            messages=[to_engine(message) for message in messages],
            tools=True,
            offered=None if tools is None else read_tools(tools),
            whole=True,
            temperature=temperature,
            max_tokens=max_tokens,
            options=options,
        )
        return self._ask(question, to_response)

    def run_with_tools(
        self,
        system_prompt: str,
        user_message: Any,
        *,
        max_iterations: int = 10,
        temperature: float | None = 0.7,
        tools: Sequence[Any] = (),
    ) -> Any:
        """Ask until the model answers without calling tools. The model reads the errors of tools.

        Args:
            system_prompt: The instruction for the model.
            user_message: The input of the model; any other value than text is sent as its text.
            max_iterations: The most replies.
            temperature: Sampling temperature.
            tools: Functions that it may call beside the tools of the state.

        Returns:
            The text of the last reply.

        Raises:
            RuntimeError: It still called tools in its last reply.
            ExecutionBreak: It called a tool that ends the run. Do not catch it.
            ModelError: The model failed.
        """
        question = Question(
            messages=[
                LLMMessage("system", str(system_prompt)),
                LLMMessage("user", str(user_message)),
            ],
            tools=True,
            functions=[read_tool(tool) for tool in tools],
            rounds=max_iterations,
            temperature=temperature,
        )
        return self._ask(question, _text)

    def _ask(self, question: Question, read: Callable[[ModelReply], Any]) -> Any:
        llm = self._llm
        if not isinstance(llm, BoundModel | SyncModel):
            return read(ask_alone(self.adapter, [read_tool(tool) for tool in llm], question))
        if isinstance(llm, BoundModel):
            return self._waited(llm, question, read)
        try:
            return read(llm.ask(question))
        except Break as stop:
            raise _broken(stop, self._state) from stop

    async def _waited(
        self, llm: BoundModel, question: Question, read: Callable[[ModelReply], Any]
    ) -> Any:
        try:
            return read(await llm.ask(question))
        except Break as stop:
            raise _broken(stop, self._state) from stop


def _broken(stop: Break, state: str) -> ExecutionBreak:
    return ExecutionBreak.of(str(stop.asked.get("what", "")), stop.asked.get("call"), state)


def _text(reply: ModelReply) -> str:
    return reply.text
