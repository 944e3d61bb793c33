"""Providers that speak OpenAI's chat completions, with their addresses and habits.

`provider/model` of one of these goes straight to `base_url`, without litellm. Anthropic is not among them: its
compatible address takes neither a schema nor cached prompts. The addresses are those of each provider's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from llm_fsm.llm.structured_output import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider: where it is, where its key is, and what it takes.

    Args:
        base_url: The address before `/chat/completions`.
        keys: Environment variables that may hold the key, in order; none for a local server.
        prices: The provider's name in the list of prices.
        first_mode: The reply form to begin with.
        optional_keys: True where a strict schema may have optional properties.
        schema_beside_tools: True where a schema holds although tools are offered, too.
    """

    base_url: str
    keys: tuple[str, ...] = ()
    prices: str = ""
    first_mode: Mode = "schema"
    optional_keys: bool = False
    schema_beside_tools: bool = False


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "openai": Provider(
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            prices="openai",
            schema_beside_tools=True,
        ),
        "mistral": Provider(
            base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",), prices="mistral", optional_keys=True
        ),
        "groq": Provider(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",), prices="groq"),
        "deepseek": Provider(
            base_url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            prices="deepseek",
            first_mode="tool",
            optional_keys=True,
        ),
        "xai": Provider(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",), prices="xai", optional_keys=True),
        "openrouter": Provider(
            base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY", "OR_API_KEY"), prices="openrouter"
        ),
        "together_ai": Provider(
            base_url="https://api.together.xyz/v1",
            keys=("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
            prices="together_ai",
            optional_keys=True,
        ),
        "fireworks_ai": Provider(
            base_url="https://api.fireworks.ai/inference/v1",
            keys=("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
            prices="fireworks_ai",
            optional_keys=True,
        ),
        "cerebras": Provider(base_url="https://api.cerebras.ai/v1", keys=("CEREBRAS_API_KEY",), prices="cerebras"),
        "gemini": Provider(
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            prices="gemini",
            optional_keys=True,
        ),
        "ollama": Provider(base_url="http://localhost:11434/v1", optional_keys=True),
        "ollama_chat": Provider(base_url="http://localhost:11434/v1", optional_keys=True),
        "hosted_vllm": Provider(base_url="http://localhost:8000/v1", optional_keys=True),
        "lm_studio": Provider(base_url="http://localhost:1234/v1", optional_keys=True),
    }
)
"""Name before the slash to provider."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"together": "together_ai", "fireworks": "fireworks_ai", "vllm": "hosted_vllm", "lmstudio": "lm_studio"}
)
"""Other names of the same providers."""


def direct(name: str) -> Provider | None:
    """Return the provider of this name, or None where litellm has to serve it."""
    return PROVIDERS.get(ALIASES.get(name, name))


def key_of(provider: Provider, environ: Mapping[str, str]) -> str | None:
    """Return the first key that the environment holds for a provider."""
    return next((environ[name] for name in provider.keys if environ.get(name)), None)
