"""Find the adapter for a model's name.

    offline                      no model at all
    scripted:FILE, replay:FILE   replies from a file
    any name with a base_url     an OpenAI-compatible server, directly
    NAME:…, NAME/…               an adapter of another package
    provider/model, model        a provider: directly where `llm_fsm.llm.providers` has its address,
    else litellm litellm:provider/model       a provider, through litellm

Another package adds an adapter by the entry point group `llm_fsm.llms`. The entry point's name is
the part of the model's name before the first ":" or "/". It refers to a callable `(model, *,
api_key, environ) -> LLM`.

An adapter's module is imported only when it is chosen, because aiohttp and litellm are slow to
import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from llm_fsm._json import TextMap
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.fallbacks import Fallbacks
from llm_fsm.llm.providers import (
    BEHIND_LITELLM,
    PROVIDERS,
    direct,
    gateway_of,
    has_key,
    key_of,
    known_provider,
    local_provider_of,
    missing_key,
    owner_of,
    provider_of,
)
from llm_fsm.llm.router import Router

WITH_FILE = {
    "scripted": "llm_fsm.llm.scripted:ScriptedLLM.from_file",
    "replay": "llm_fsm.llm.cassette:ReplayLLM.from_file",
}
_BY_LITELLM = "litellm:"
OFFLINE = "llm_fsm.llm.offline.model:OfflineLLM"
COMPAT = "llm_fsm.llm.openai.client:CompatLLM"
LITELLM = "llm_fsm.llm.litellm.adapter:LiteLLM"
ENTRY_POINTS = "llm_fsm.llms"


def resolve(
    model: str | LLM | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: TextMap,
) -> LLM:
    """Return the adapter for a model.

    Args:
        model: A name as above, or an object with `complete`, which is returned. None takes
            `LLM_FSM_MODEL`.
        base_url: The URL of an OpenAI-compatible server. None takes `LLM_FSM_BASE_URL`.
        api_key: The key for it. With a URL, None takes `LLM_FSM_API_KEY`.
        environ: The environment variables.

    Raises:
        ConfigurationError: There is no model, no such adapter, or no key for it.
    """
    if not isinstance(model, str | None):
        return _checked(model, "the model")
    name = (model if model is not None else environ.get("LLM_FSM_MODEL", "")).strip()
    if not name:
        raise ConfigurationError(
            "no model is chosen: set LLM_FSM_MODEL, or give model= (--model on the command line), e.g. "
            "openai/gpt-4o-mini. The model `offline` talks without a language model and needs no key"
        )
    local = _local(name)
    if local is not None:
        return local
    address = (base_url if base_url is not None else environ.get("LLM_FSM_BASE_URL", "")).strip()
    if address:
        key = api_key or environ.get("LLM_FSM_API_KEY") or None
        return _load(COMPAT)(name, base_url=address, api_key=key, provider=local_provider_of(name))
    if name.startswith(_BY_LITELLM):
        return _by_litellm(name.removeprefix(_BY_LITELLM), api_key, environ)
    installed = _installed(name)
    if installed is not None:
        return _checked(installed(name, api_key=api_key, environ=environ), name)
    _check_name(name)

    def make(model: str) -> LLM:
        return _hosted(model, api_key if _owner(model) == _owner(name) else None, environ)

    return Router(name, owner=provider_of, make=make)


def models_of(
    model: str | None, human: str | None, base_url: str | None, environ: TextMap
) -> tuple[LLM, LLM]:
    """Return the model of a machine, and that of its simulated users; None: the same one.

    Raises:
        ConfigurationError: A model cannot be used.
    """
    bot = resolve(model, base_url=base_url, environ=environ)
    return bot, bot if human is None else resolve(human, base_url=base_url, environ=environ)


def resolve_all(
    models: Sequence[str | LLM | None],
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: TextMap,
) -> LLM:
    """Return one adapter for several models. Each is asked if those before it fail for good.

    Args:
        models: As for `resolve`.
        base_url: As for `resolve`.
        api_key: Without a URL, the key is only for the provider of the first named model.
        environ: The environment variables.
    """
    named = [environ.get("LLM_FSM_MODEL", "") if model is None else model for model in models]
    owner = next((_owner(name) for name in named if isinstance(name, str)), "")
    if (base_url if base_url is not None else environ.get("LLM_FSM_BASE_URL", "")).strip():
        keys = [api_key] * len(named)
    else:
        keys = [
            api_key if isinstance(name, str) and _owner(name) == owner else None for name in named
        ]
    found = [
        resolve(model, base_url=base_url, api_key=key, environ=environ)
        for model, key in zip(models, keys, strict=True)
    ]
    return found[0] if len(found) == 1 else Fallbacks(found)


def _hosted(name: str, api_key: str | None, environ: TextMap) -> LLM:
    """Return the adapter of a provider: direct if it has OpenAI's API, else through litellm."""
    provider = direct(provider_of(name))
    if provider is None:
        return _by_litellm(name, api_key, environ)
    gateway = gateway_of(provider, environ)
    if not gateway:  # a gateway may have the key itself
        _check_key(name, api_key, environ)
    key = api_key or key_of(provider, environ)
    address = gateway or provider.base_url
    return _load(COMPAT)(name, base_url=address, api_key=key, provider=provider_of(name))


def _by_litellm(name: str, api_key: str | None, environ: TextMap) -> LLM:
    _check_name(name)
    _check_key(name, api_key, environ)
    return _load(LITELLM)(name, api_key=api_key)


def _owner(name: str) -> str:
    """Return the owner of the key for a model."""
    scheme, separator = _scheme(name.strip())
    return scheme if separator == ":" and not provider_of(f"{scheme}:") else owner_of(name.strip())


def _local(name: str) -> LLM | None:
    scheme, _, rest = name.partition(":")
    if scheme == "offline":
        if rest:
            raise ConfigurationError(f"unknown model {name!r}: nothing may follow `offline`")
        return _load(OFFLINE)()
    if scheme not in WITH_FILE:
        return None
    if not rest:
        raise ConfigurationError(f"model {name!r} needs a file, for example {scheme}:replies.json")
    return _load(WITH_FILE[scheme])(rest)


def _scheme(name: str) -> tuple[str, str]:
    """Return the part before the first ":" or "/", and that character; the name and "" for neither."""
    match = re.search("[:/]", name)
    return (name[: match.start()], match.group()) if match else (name, "")


def _installed(name: str) -> Callable[..., Any] | None:
    scheme, separator = _scheme(name)
    if not scheme or (separator != ":" and (known_provider(scheme) or provider_of(scheme))):
        return None
    found = next(iter(entry_points(group=ENTRY_POINTS, name=scheme)), None)
    if found is None:
        return None
    adapter: Callable[..., Any] = found.load()
    return adapter


def _check_name(name: str) -> None:
    """Refuse names that cannot be a model's, without importing litellm."""
    if re.match(r"[A-Za-z][\w+.-]*://", name):
        raise ConfigurationError(
            f"unknown model {name!r}: an address goes into base_url= (--base-url, LLM_FSM_BASE_URL)"
        )
    scheme, separator = _scheme(name)
    if separator == "/" or provider_of(name):
        return
    if separator == ":" and known_provider(scheme):
        raise ConfigurationError(
            f"unknown model {name!r}; did you mean {name.replace(':', '/', 1)!r}?"
        )
    known = [
        "offline",
        *WITH_FILE,
        *PROVIDERS,
        *BEHIND_LITELLM,
        *entry_points(group=ENTRY_POINTS).names,
    ]
    for near in get_close_matches(scheme.lower(), known, n=1, cutoff=0.75):
        raise ConfigurationError(
            f"unknown model {name!r}; did you mean {near + name[len(scheme) :]!r}?"
        )
    if separator == ":":
        raise ConfigurationError(
            f"unknown model {name!r}: there is no adapter {scheme!r}. Known are offline, scripted:FILE, "
            "replay:FILE, provider/model, and any name together with base_url= (--base-url)"
        )


def _check_key(name: str, api_key: str | None, environ: TextMap) -> None:
    provider = provider_of(name)
    if not api_key and not has_key(provider, environ):
        raise ConfigurationError(f"no key for model {name!r}: {missing_key(provider)}")


def _load(reference: str) -> Callable[..., LLM]:
    module, _, attribute = reference.partition(":")
    found: Callable[..., LLM] = attrgetter(attribute)(import_module(module))
    return found


def _checked(made: Any, name: str) -> LLM:
    if isinstance(made, LLM) and not isinstance(made, type):
        return made
    kind = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
    raise ConfigurationError(
        f"{name} is {kind}. A model is a name such as openai/gpt-4o-mini or offline, or an object with an "
        "async method `complete`"
    )
