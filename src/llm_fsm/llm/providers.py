"""Providers of models: their addresses, keys and habits, known without importing litellm.

`provider/model` goes straight to `base_url` if the provider speaks OpenAI's chat completions, and
through litellm otherwise. Anthropic is asked through litellm: its compatible address takes neither
a schema nor cached prompts. The addresses are those of each provider's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from llm_fsm._json import TextMap
from llm_fsm.llm.structured_output import Mode
from llm_fsm.session.messages import TakenForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider: its URL, the place of its key, and its features.

    Args:
        base_url: The address before `/chat/completions`; "" if only litellm can ask it.
        keys: Environment variables that may hold the key, in order. There are none for a local
            server, or if the provider needs several settings or any one of many variables.
        gateways: Environment variables that may hold another address, as its own SDK reads them.
        prices: The provider's name in the list of prices.
        first_mode: The reply form to begin with.
        optional_keys: True if a strict schema may have optional properties.
        schema_beside_tools: True if a schema is also enforced when tools are offered.
        narrow: True if each request gets a schema of what it can pick. Providers that cache schemas
            get one for all.
        list_limits: True if a strict schema may have `maxItems`, by the provider's documentation.
    """

    base_url: str = ""
    keys: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    prices: str = ""
    first_mode: Mode = "schema"
    optional_keys: bool = False
    schema_beside_tools: bool = False
    narrow: bool = False
    list_limits: bool = False

    @property
    def reply_form(self) -> TakenForm:
        """The form of a reply that its schemas take. Where each request gets a schema of its own,
        both are as good.
        """
        if not self.optional_keys:
            return "list"
        return "either" if self.narrow else "object"


UNKNOWN: Final = Provider(narrow=True)
"""The habits of a server with an unknown address."""
LOCAL: Final = Provider(optional_keys=True, narrow=True)
"""The habits of a server on this machine or in this network: a grammar holds the model to the
schema.
"""

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "openai": Provider(
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            gateways=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            prices="openai",
            schema_beside_tools=True,
            list_limits=True,
        ),
        "mistral": Provider(
            base_url="https://api.mistral.ai/v1",
            keys=("MISTRAL_API_KEY",),
            prices="mistral",
            optional_keys=True,
        ),
        "groq": Provider(
            base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",), prices="groq"
        ),
        "deepseek": Provider(
            base_url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            prices="deepseek",
            first_mode="tool",
            optional_keys=True,
        ),
        "xai": Provider(
            base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",), prices="xai", optional_keys=True
        ),
        "openrouter": Provider(
            base_url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY", "OR_API_KEY"),
            prices="openrouter",
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
        "cerebras": Provider(
            base_url="https://api.cerebras.ai/v1", keys=("CEREBRAS_API_KEY",), prices="cerebras"
        ),
        "gemini": Provider(
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            prices="gemini",
            optional_keys=True,
            list_limits=True,
        ),
        "ollama": Provider(base_url="http://localhost:11434/v1", optional_keys=True, narrow=True),
        "ollama_chat": Provider(
            base_url="http://localhost:11434/v1", optional_keys=True, narrow=True
        ),
        "hosted_vllm": Provider(
            base_url="http://localhost:8000/v1", optional_keys=True, narrow=True
        ),
        "lm_studio": Provider(base_url="http://localhost:1234/v1", optional_keys=True, narrow=True),
    }
)
"""Name before the slash to provider, for those that are asked directly."""

BEHIND_LITELLM: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "anthropic": Provider(keys=("ANTHROPIC_API_KEY",)),
        "azure": Provider(schema_beside_tools=True),
        "azure_ai": Provider(),
        "bedrock": Provider(),
        "cohere": Provider(keys=("COHERE_API_KEY", "CO_API_KEY")),
        "github": Provider(),
        "huggingface": Provider(),
        "perplexity": Provider(),
        "sagemaker": Provider(),
        "vertex_ai": Provider(),
    }
)
"""The best-known providers that litellm asks. It knows more."""

ALIASES: Final[TextMap] = MappingProxyType(
    {
        "together": "together_ai",
        "fireworks": "fireworks_ai",
        "vllm": "hosted_vllm",
        "lmstudio": "lm_studio",
    }
)
"""Other names of the same providers."""


_FAMILIES = ((r"(gpt-|chatgpt-|o\d|ft:)", "openai"), (r"claude-", "anthropic"))


def direct(name: str) -> Provider | None:
    """Return the provider of this name, or None if litellm has to serve it."""
    return PROVIDERS.get(ALIASES.get(name, name))


def is_local(host: str) -> bool:
    """Return true for a host on this machine or in a private network."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host


def known_provider(name: str) -> Provider | None:
    """Return the provider of this name; None if it is not listed here."""
    return PROVIDERS.get(name) or BEHIND_LITELLM.get(name)


def provider_of(model: str) -> str:
    """Return the provider of a model by its name; "" if only litellm knows it."""
    if "/" in model:
        name = model.split("/", 1)[0].lower()
        return ALIASES.get(name, name)
    return next((provider for pattern, provider in _FAMILIES if re.match(pattern, model)), "")


def owner_of(model: str) -> str:
    """Return the owner of a model's key: its provider, or the model itself if only litellm knows
    the provider.
    """
    return provider_of(model) or model


def keys_of(provider: str) -> tuple[str, ...]:
    """Return the environment variables that may hold a provider's key; one of them is enough."""
    found = known_provider(provider)
    return () if found is None else found.keys


def has_key(provider: str, environ: TextMap) -> bool:
    """Return true if a key for `provider` is set, or if its variable is unknown."""
    return not keys_of(provider) or any(environ.get(variable) for variable in keys_of(provider))


def key_of(provider: Provider, environ: TextMap) -> str | None:
    """Return the first key that the environment holds for a provider."""
    return next((environ[name] for name in provider.keys if environ.get(name)), None)


def gateway_of(provider: Provider, environ: TextMap) -> str:
    """Return the address that the environment gives for a provider; "" for its own."""
    found = (environ.get(name, "").strip() for name in provider.gateways)
    return next(filter(None, found), "")


def local_provider_of(model: str) -> str:
    """Return the provider of a model whose name begins with one that runs on the user's own
    machine; else "".
    """
    name = provider_of(model)
    provider = direct(name)
    return name if provider is not None and "/" in model and provider.narrow else ""


def missing_key(provider: str) -> str:
    """Return the advice for a missing or refused key of `provider`."""
    variables = keys_of(provider)
    setting = f"set {variables[0]}" if variables else "set the provider's key variable"
    return f"{setting}, or give api_key= in Python; the model `offline` needs no key"
