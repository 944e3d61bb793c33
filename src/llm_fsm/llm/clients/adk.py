"""Agents of Google's Agent Development Kit as chat clients, and inside states of a machine.

An agent has its own tools and its own loop. The records hold its questions and answers, but not its
calls. Needs the extra `adk`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

from llm_fsm._json import JsonDict
from llm_fsm.errors import LLMFSMError, ModelError, told
from llm_fsm.llm.clients.base import BaseLLMClient, needs
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse, Message, to_openai

T = TypeVar("T")

_APP = "llm_fsm"


class ADKClient(BaseLLMClient):
    """A chat client that asks an agent of ADK.

    Args:
        agent: The agent.
        session_id: The session of ADK that all questions share; None gives each question its own
            session.

    Raises:
        ConfigurationError: ADK is not installed.
    """

    def __init__(self, agent: Any, session_id: str | None = None) -> None:
        self.agent = agent
        self.session_id = session_id
        self._types = _adk("google.genai.types")
        self._runner = _adk("google.adk.runners").InMemoryRunner(agent, app_name=_APP)

    def chat(
        self,
        messages: Sequence[AnyMessage],
        tools: list[JsonDict] | None = None,  # noqa: ARG002 - an agent has its own
        temperature: float | None = None,  # noqa: ARG002 - an agent has its own
        max_tokens: int | None = None,  # noqa: ARG002 - an agent has its own
        **kwargs: Any,
    ) -> LLMResponse:
        """Ask the agent.

        Args:
            messages: The messages. The agent receives the system messages and the last message.
            tools: Ignored, because an agent has its own tools and settings.
            temperature: Ignored.
            max_tokens: Ignored.
            kwargs: `session_id`, instead of the client's.

        Returns:
            The answer.

        Raises:
            ModelError: The agent failed.
        """
        return _waited(self.async_chat(messages, **kwargs))

    async def async_chat(
        self, messages: Sequence[AnyMessage], *, session_id: str | None = None, **_: Any
    ) -> LLMResponse:
        """Ask the agent, in an event loop.

        Args:
            messages: The messages. The agent receives the system messages and the last message.
            session_id: The session of ADK; None: the client's.

        Returns:
            The answer.

        Raises:
            ModelError: The agent failed.
        """
        session = session_id or self.session_id or uuid.uuid4().hex
        content = self._types.Content(role="user", parts=[self._types.Part(text=_text(messages))])
        said = []
        try:
            service = self._runner.session_service
            place = {"app_name": _APP, "user_id": _APP, "session_id": session}
            if await service.get_session(**place) is None:
                await service.create_session(**place)
            async for event in self._runner.run_async(
                user_id=_APP, session_id=session, new_message=content
            ):
                if event.error_code:
                    raise ModelError(f"ADK: {event.error_code}: {event.error_message}")  # noqa: TRY301
                if event.is_final_response() and event.content is not None:
                    said += [part.text for part in event.content.parts or () if part.text]
        except LLMFSMError:
            raise
        except Exception as error:
            raise ModelError(f"ADK: {told(error)}") from error
        return LLMResponse("".join(said))

    def reset_session(self) -> None:
        """Begin another session."""
        self.session_id = None if self.session_id is None else uuid.uuid4().hex


def create_adk_agent_with_tools(
    model: Any = "gemini-2.0-flash",
    name: str = "agent",
    instruction: str = "",
    tools: Sequence[Any] | None = None,
    **kwargs: Any,
) -> ADKClient:
    """Make an agent of ADK, and the client that asks it.

    Args:
        model: The name of a Gemini model, or a model of ADK such as `LiteLlm`.
        name: The agent's name, a Python identifier.
        instruction: The instruction of the agent.
        tools: Python functions that it may call. It reads their docstrings.
        kwargs: Further arguments of the agent.

    Returns:
        The client.

    Raises:
        ConfigurationError: ADK is not installed.
    """
    agent = _adk("google.adk.agents").Agent
    return ADKClient(
        agent(model=model, name=name, instruction=instruction, tools=list(tools or ()), **kwargs)
    )


def adk_client(
    agent: Any = None, session_id: str | None = None, api_key: str | None = None, **options: Any
) -> ADKClient:
    """Make the client of `create_llm_client("adk", …)`.

    Args:
        agent: The agent; None makes one from `options`.
        session_id: The session of ADK that all questions share; None gives each question its own
            session.
        api_key: Must be None, because ADK reads GOOGLE_API_KEY.
        options: Arguments of `create_adk_agent_with_tools`.

    Returns:
        The client.

    Raises:
        ValueError: A key is given.
        ConfigurationError: ADK is not installed.
    """
    if api_key is not None:
        raise ValueError("ADK takes its key from the environment: set GOOGLE_API_KEY")
    client = create_adk_agent_with_tools(**options) if agent is None else ADKClient(agent)
    client.session_id = session_id
    return client


class ADKStateMixin:
    """Lets states of a machine ask an agent directly: `class Mine(LLMStateMachine, ADKStateMixin)`."""

    def run_with_adk(
        self, query: str, state_name: str, session_id: str | None = None, **kwargs: Any
    ) -> Any:
        """Ask the agent inside the body of a state, with the machine's memory.

        Args:
            query: The question.
            state_name: The state whose body this is.
            session_id: The session of ADK; None: the client's.
            kwargs: Further arguments of `ADKClient.chat`.

        Returns:
            The answer; in an async body an awaitable of it.

        Raises:
            TypeError: The machine's client is no `ADKClient`.
            ModelError: The agent failed.
        """
        machine: Any = self
        if not isinstance(machine._client, ADKClient):
            raise TypeError(
                "run_with_adk asks an agent: give llm_client=create_adk_agent_with_tools(…)"
            )
        known = machine.memory.to_context()
        asked = (
            f"{known}\n\nState: {state_name}\n\n{query}"
            if known
            else f"State: {state_name}\n\n{query}"
        )
        more = {**kwargs, **({} if session_id is None else {"session_id": session_id})}
        answer = machine.llm_client.chat([Message("user", asked)], **more)
        return _content(answer) if hasattr(answer, "__await__") else answer.content


async def _content(answer: Any) -> Any:
    return (await answer).content


def _text(messages: Sequence[AnyMessage]) -> str:
    plain = [to_openai(message) for message in messages]
    system = [one["content"] for one in plain[:-1] if one["role"] == "system"]
    return "\n\n".join([*system, *(one["content"] for one in plain[-1:])]) or "Go on."


def _adk(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise needs("adk", "google-adk") from error


def _waited(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own event loop, and in another thread if this one has a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()
