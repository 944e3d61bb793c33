"""The class of chat clients, and the factory that makes one by the name of its provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from llm_fsm._json import JsonDict, without_none
from llm_fsm._text import estimate, suggestion
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse

MakeClient = Callable[..., "BaseLLMClient"]

_SHIPPED = {
    "openai": "llm_fsm.llm.clients.sdks:OpenAIClient",
    "litellm": "llm_fsm.llm.clients.sdks:LiteLLMClient",
    "smolagents": "llm_fsm.llm.clients.sdks:SmolAgentsClient",
    "adk": "llm_fsm.llm.clients.adk:adk_client",
}
_registered: dict[str, MakeClient] = {}


class BaseLLMClient(ABC):
    """A model behind `chat`. Subclass it for your own model.

    It raises every failure, as `ModelError` if a retry may help. It never returns a failure as
    text.
    """

    @abstractmethod
    def chat(
        self,
        messages: Sequence[AnyMessage],
        tools: list[JsonDict] | None = None,
        temperature: float = 0.7,
        max_tokens: int | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Ask the model.

        Args:
            messages: The conversation so far, oldest first.
            tools: The tools that it may call, in the form of chat completions.
            temperature: Sampling temperature.
            max_tokens: The most tokens of the reply.
            kwargs: Further settings of the provider.

        Returns:
            The reply, with its text and tool calls.
        """

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens of a text.

        Args:
            text: The text.

        Returns:
            The number of tokens.
        """
        return estimate(text)


def register_llm_client(name: str, make: MakeClient) -> None:
    """Register another provider for `create_llm_client`.

    Args:
        name: The name of the provider.
        make: A function that takes the factory's arguments and returns a client.

    Raises:
        ValueError: Another function has the name.
    """
    if name in _SHIPPED or _registered.get(name, make) is not make:
        raise ValueError(f"there is a client {name!r} already; give yours another name")
    _registered[name] = make


def create_llm_client(
    provider: str = "openai", model: str | None = None, api_key: str | None = None, **options: Any
) -> BaseLLMClient:
    """Make a client.

    Args:
        provider: `openai`, `litellm`, `smolagents`, `adk`, or a name given to
            `register_llm_client`.
        model: The name of the model.
        api_key: The provider's key.
        options: Further arguments of the client, such as `base_url` or `agent_or_model`.

    Returns:
        The client.

    Raises:
        ValueError: There is no such provider, or an argument is missing.
        ConfigurationError: The provider's package is not installed. The message has its `pip
            install` line.
    """
    make = _registered.get(provider)
    if make is None:
        place = _SHIPPED.get(provider)
        if place is None:
            hint = suggestion(str(provider), (*_SHIPPED, *_registered))
            raise ValueError(f"unknown LLM provider {provider!r}; {hint}")
        module, _, name = place.partition(":")
        make = getattr(import_module(module), name)
    given = {"model": model, "api_key": api_key}
    return make(**without_none(given), **options)


def needs(extra: str, package: str) -> ConfigurationError:
    """Return the error that names the missing extra.

    Args:
        extra: The extra.
        package: The package that it installs.

    Returns:
        The error.
    """
    return ConfigurationError(
        f"the package {package} is not installed: pip install 'llm-fsm-runtime[{extra}]'"
    )
