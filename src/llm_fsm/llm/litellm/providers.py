"""Facts about the providers behind litellm, known without importing it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llm_fsm.llm.providers import ALIASES, PROVIDERS
from llm_fsm.llm.structured_output import Mode

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    **{name: provider.keys for name, provider in PROVIDERS.items() if provider.keys},
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
}
"""The environment variables that may hold a provider's key; one of them is enough."""

OTHERS = frozenset(
    {
        *(name for name, provider in PROVIDERS.items() if not provider.keys),
        *("azure", "azure_ai", "bedrock", "github", "huggingface", "perplexity", "sagemaker", "vertex_ai"),
    }
)
"""Further providers: they need no key, several settings, or any one of many variables."""

FIRST_MODES: Mapping[str, Mode] = {"deepseek": "tool"}
"""The reply form to begin with, where it is known that a JSON Schema is not accepted."""

SCHEMA_BESIDE_TOOLS = frozenset({"azure", "openai"})
"""Providers that hold a reply to its schema and still let the model call tools instead."""

_HISTORY_END = "]\n</conversation_history>\n"
_EXCHANGE = re.compile(r'(?<="})(?=,{"user":")')
"""Between two exchanges of the history: no JSON string has an unescaped quote after a brace."""
_FAMILIES = ((r"(gpt-|chatgpt-|o\d|ft:)", "openai"), (r"claude-", "anthropic"))


def provider_of(model: str) -> str:
    """Return the provider that a model's name says or is known by; "" where only litellm can tell."""
    if "/" in model:
        name = model.split("/", 1)[0].lower()
        return ALIASES.get(name, name)
    return next((provider for pattern, provider in _FAMILIES if re.match(pattern, model)), "")


def owner_of(model: str) -> str:
    """Whose key a model of this name takes: its provider's; where only litellm can tell that, its own alone."""
    return provider_of(model) or model


def is_known(provider: str) -> bool:
    """Return true if `provider` names one of the providers listed here."""
    return provider in KEY_VARIABLES or provider in OTHERS


def has_key(provider: str, environ: Mapping[str, str]) -> bool:
    """Return true if a key for `provider` is set, or if it is not known where it should be."""
    variables = KEY_VARIABLES.get(provider)
    return variables is None or any(environ.get(variable) for variable in variables)


def missing_key(provider: str) -> str:
    """Return the advice for someone whose key for `provider` is missing or refused."""
    variables = KEY_VARIABLES.get(provider)
    setting = f"set {variables[0]}" if variables else "set the provider's key variable"
    return f"{setting}, or give api_key= in Python; the model `offline` needs no key"


def takes_marks(model: str) -> bool:
    """Return true if the provider caches only the marked parts of a prompt, as every provider of Claude does."""
    return "claude" in model.lower()


def marked(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the mark by which Claude's providers cache a prompt.

    The mark is after the system message, and after the last exchange of the history. What is cached ends where a part
    ends, so each exchange is a part. The next prompt begins with the same parts.
    """
    text = message["content"]
    if not isinstance(text, str):
        return message
    if message["role"] == "system":
        known, rest = [text], ""
    else:
        history, end, rest = text.partition(_HISTORY_END)
        if not end:
            return message
        known, rest = _EXCHANGE.split(history), end + rest
    parts: list[dict[str, Any]] = [{"type": "text", "text": part} for part in known]
    parts[-1]["cache_control"] = {"type": "ephemeral"}
    if rest:
        parts.append({"type": "text", "text": rest})
    return {**message, "content": parts}
