"""Providers that are asked directly: their names, keys, prices, and requests to a server on the
loopback address.
"""

from __future__ import annotations

import pytest

from doc_tables import rows
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import form_of
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.prices import cost_of
from llm_fsm.llm.providers import ALIASES, PROVIDERS, Provider, direct, key_of
from llm_fsm.llm.registry import resolve, resolve_all
from llm_fsm.llm.router import Router
from llm_fsm.testing import ScriptedLLM, serve_scripted
from llm_fsm.testing.server.http import HttpReply
from llm_requests import SCHEMA, Slept, request

pytestmark = pytest.mark.anyio


async def seen_by_server(model: str, provider: str, *, asked=None, replies=("hi",), key="k"):
    async with serve_scripted(list(replies)) as server:
        llm = CompatLLM(
            model, base_url=server.base_url, api_key=key, provider=provider, pacing=Slept().pacing
        )
        try:
            return await llm.complete(asked or request()), server.requests
        finally:
            await llm.aclose()


@pytest.mark.parametrize("name", [*PROVIDERS, *ALIASES])
async def test_every_provider_answers_directly(name):
    provider = ALIASES.get(name, name)
    reply, requests = await seen_by_server(
        f"{name}/some-model", provider, asked=request(schema=SCHEMA)
    )
    assert reply.text == "hi"
    assert requests[0].body["model"] == "some-model"
    form = "tools" if PROVIDERS[provider].first_mode == "tool" else "response_format"
    assert form in requests[0].body


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if provider.keys])
def test_a_missing_key_names_the_variable(name):
    with pytest.raises(ConfigurationError, match=PROVIDERS[name].keys[0]):
        resolve(f"{name}/m", environ={})


async def test_a_refused_key_names_the_provider_s_variable():
    with pytest.raises(ModelError, match="set GROQ_API_KEY"):
        await seen_by_server(
            "groq/m",
            "groq",
            replies=[HttpReply(status=401, body={"error": {"message": "bad key"}})],
        )


def test_the_first_variable_that_is_set_has_the_key():
    gemini = direct("gemini")
    assert gemini is not None
    assert key_of(gemini, {"GOOGLE_API_KEY": "b", "GEMINI_API_KEY": ""}) == "b"


def test_a_price_counts_cached_tokens_apart():
    fresh = cost_of("openai", "gpt-4o-mini", 1000, 100, 0)
    assert 0 < cost_of("openai", "gpt-4o-mini", 1000, 100, 600) < fresh
    assert cost_of("openai", "gpt-4o-mini-2024-07-18", 1000, 100, 0) == fresh
    assert cost_of("openai", "no-such-model", 1000, 100, 0) == 0


async def test_a_reply_is_priced_by_the_list_where_the_provider_says_no_cost():
    reply, _ = await seen_by_server("openai/gpt-4o-mini", "openai")
    assert (
        reply.cost
        == cost_of("openai", "gpt-4o-mini", reply.input_tokens, reply.output_tokens, 0)
        > 0
    )


def routed(made: list[str]) -> Router:
    def make(name: str) -> ScriptedLLM:
        made.append(name)
        if name.startswith("closed/"):
            raise ConfigurationError("no key for closed")
        return ScriptedLLM([f"from {name}"] * 3)

    return Router(
        "a/one", owner=lambda name: name.partition("/")[0] if "/" in name else "", make=make
    )


async def test_a_state_s_model_goes_to_its_own_provider():
    made: list[str] = []
    router = routed(made)
    asked = [None, "a/two", "plain", "b/three", "b/four"]
    answers = [(await router.complete(request(model=name))).text for name in asked]
    assert answers == ["from a/one"] * 3 + ["from b/three"] * 2
    assert made == ["a/one", "b/three"]


async def test_a_state_s_model_without_a_key_is_an_error_of_the_model():
    with pytest.raises(ModelError, match="no key for closed"):
        await routed([]).complete(request(model="closed/x"))


@pytest.mark.parametrize("name", [*PROVIDERS, *ALIASES, "anthropic"])
def test_a_reply_takes_the_form_that_the_provider_s_schemas_take(name):
    provider = direct(name)
    expected = "list" if provider is None else provider.reply_form
    models = [
        resolve(f"{name}/m", api_key="k", environ={}),
        resolve(f"litellm:{name}/m", api_key="k", environ={}),
    ]
    assert {form_of(model, None) for model in models} == {expected}


def test_an_address_that_nobody_knows_gets_the_form_that_every_strict_schema_takes():
    assert (
        form_of(resolve("m", base_url="https://models.example.org/v1", environ={}), None) == "list"
    )


NEAR = ["http://127.0.0.1:1/v1", "http://localhost:8000/v1", "http://10.0.0.3/v1", "http://gpu/v1"]


@pytest.mark.parametrize("address", NEAR)
def test_a_server_of_the_own_network_takes_either_form(address):
    assert form_of(resolve("m", base_url=address, environ={}), None) == "either"
    assert form_of(object(), None) == "list"


def test_a_state_s_model_and_fallbacks_say_their_own_form():
    environ = {"MISTRAL_API_KEY": "k", "OPENAI_API_KEY": "k"}
    home = resolve("mistral/a", environ=environ)
    assert [form_of(home, name) for name in (None, "openai/b", "mistral/c", "groq/no-key")] == [
        "object", "list", "object", "list"
    ]  # fmt: skip
    both = resolve_all(["mistral/a", "openai/b"], environ=environ)
    assert form_of(both, None) == "list"
    assert (
        form_of(resolve_all(["mistral/a", "xai/b"], environ={**environ, "XAI_API_KEY": "k"}), None)
        == "object"
    )


def test_the_page_of_models_lists_every_provider_as_it_is():
    header = "| name | other name | address | key variable | reply form | keys of a strict schema | price list |"
    shown = {row[0].removesuffix("/…"): row for row in rows("docs/models.md", header)}
    assert set(shown) | {"ollama_chat"} == set(PROVIDERS)
    for name, (_, _, address, key, form, keys, _) in shown.items():
        provider = PROVIDERS[name]
        assert (address, key) == (provider.base_url, provider.keys[0] if provider.keys else "none")
        assert (form.partition(",")[0], keys == "optional") == (
            provider.first_mode,
            provider.optional_keys,
        )


@pytest.mark.parametrize(
    ("provider", "form"),
    [
        (Provider(optional_keys=True), "object"),
        (Provider(optional_keys=True, narrow=True), "either"),
        (Provider(narrow=True), "list"),
        (Provider(), "list"),
    ],
)
def test_a_provider_whose_schemas_demand_every_key_takes_a_list(provider, form):
    assert provider.reply_form == form
