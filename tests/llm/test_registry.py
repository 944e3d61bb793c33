from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from llm_fsm.errors import ConfigurationError
from llm_fsm.llm import registry
from llm_fsm.llm.registry import resolve, resolve_all
from llm_fsm.llm.router import Router
from llm_fsm.llm.scripted import ScriptedLLM


class Echo:
    """An adapter as another package would bring it."""

    def __init__(self, model: str, *, api_key=None, environ=None) -> None:
        self.model, self.api_key = model, api_key

    async def complete(self, request):
        raise NotImplementedError


def kind_of(llm) -> str:
    """The class that answers: a provider's name gives a router, which asks the adapter of that
    provider.
    """
    return type(llm.default if isinstance(llm, Router) else llm).__name__


@pytest.fixture
def echo_installed(monkeypatch):
    point = EntryPoint(name="echo", value=f"{__name__}:Echo", group=registry.ENTRY_POINTS)
    monkeypatch.setattr(
        registry, "entry_points", lambda **chosen: EntryPoints([point]).select(**chosen)
    )


@pytest.mark.parametrize(
    ("model", "environ", "base_url", "kind"),
    [
        ("offline", {}, None, "OfflineLLM"),
        (" offline ", {}, None, "OfflineLLM"),
        (None, {"LLM_FSM_MODEL": "offline"}, None, "OfflineLLM"),
        ("offline", {"LLM_FSM_BASE_URL": "http://localhost:1/v1"}, None, "OfflineLLM"),
        ("llama3:8b", {}, "http://localhost:11434/v1", "CompatLLM"),
        ("llama3", {"LLM_FSM_BASE_URL": "http://localhost:1/v1"}, None, "CompatLLM"),
        ("openai/gpt-4o-mini", {"OPENAI_API_KEY": "k"}, "http://localhost:1/v1", "CompatLLM"),
        ("openai/gpt-4o-mini", {"OPENAI_API_KEY": "k"}, None, "CompatLLM"),
        ("litellm:openai/gpt-4o-mini", {"OPENAI_API_KEY": "k"}, None, "LiteLLM"),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k"}, None, "LiteLLM"),
        ("groq/openai/gpt-oss-120b", {"GROQ_API_KEY": "k"}, None, "CompatLLM"),
        ("together/some-model", {"TOGETHER_API_KEY": "k"}, None, "CompatLLM"),
        ("gpt-4o-mini", {"OPENAI_API_KEY": "k"}, None, "CompatLLM"),
        ("ft:gpt-4o-mini:org::id", {"OPENAI_API_KEY": "k"}, None, "CompatLLM"),
        ("gemini/gemini-2.5-flash", {"GOOGLE_API_KEY": "k"}, None, "CompatLLM"),
        ("ollama/llama3:8b", {}, None, "CompatLLM"),
        ("somebody/new-model", {}, None, "LiteLLM"),
        ("new-model", {}, None, "LiteLLM"),
    ],
)
def test_a_name_chooses_its_adapter(model, environ, base_url, kind):
    assert kind_of(resolve(model, environ=environ, base_url=base_url)) == kind


def test_an_object_with_complete_passes_through():
    llm = ScriptedLLM([])
    assert resolve(llm, environ={}) is llm


def test_replies_are_read_from_the_file_that_is_named(tmp_path):
    path = tmp_path / "a:b.json"
    path.write_text(json.dumps(["x", "y"]))
    llm = resolve(f"scripted:{path}", environ={})
    assert isinstance(llm, ScriptedLLM)
    assert llm.remaining == 2


@pytest.mark.parametrize(
    ("model", "environ", "says"),
    [
        (None, {}, r"LLM_FSM_MODEL.*--model.*`offline`"),
        (None, {"LLM_FSM_MODEL": ""}, r"LLM_FSM_MODEL.*--model.*`offline`"),
        ("", {}, "no model is chosen"),
        (7, {}, "the model is a int"),
        (ScriptedLLM, {}, "the class ScriptedLLM"),
        ("scripted", {}, "scripted:replies.json"),
        ("replay:", {}, "needs a file"),
        ("offline:fast", {}, "nothing may follow"),
        ("ofline", {}, "did you mean 'offline'"),
        ("Offline", {}, "did you mean 'offline'"),
        ("script:r.json", {}, "did you mean 'scripted:r.json'"),
        ("openai:gpt-4o", {}, "did you mean 'openai/gpt-4o'"),
        ("opnai:gpt-4o", {}, "did you mean 'openai:gpt-4o'"),
        ("sqlite:///x.db", {}, "base_url"),
        ("http://localhost:1/v1", {}, "base_url"),
        ("zebra:x", {}, "no adapter 'zebra'"),
        ("openai/gpt-4o", {}, "OPENAI_API_KEY.*`offline`"),
        ("openai/gpt-4o", {"OPENAI_API_KEY": "", "LLM_FSM_API_KEY": "k"}, "OPENAI_API_KEY"),
        ("claude-sonnet-4-5", {}, "ANTHROPIC_API_KEY.*`offline`"),
    ],
)
def test_what_cannot_be_resolved_is_one_clear_error(model, environ, says):
    with pytest.raises(ConfigurationError, match=says):
        resolve(model, environ=environ)


def test_a_given_key_is_enough():
    assert kind_of(resolve("openai/gpt-4o", environ={}, api_key="k")) == "CompatLLM"


@pytest.mark.parametrize("first", ["openai/gpt-4o", "gpt-4o", "ft:gpt-4o-mini:org::id", None])
def test_a_given_key_is_for_fallbacks_of_the_same_provider_alone(first):
    environ = {"LLM_FSM_MODEL": "openai/gpt-4o"}
    for second in ("openai/gpt-4o-mini", "ft:gpt-4o-mini:org::id"):
        assert resolve_all([first, second], environ=environ, api_key="k")
    with pytest.raises(
        ConfigurationError, match=r"no key for model 'anthropic/claude'.*ANTHROPIC_API_KEY"
    ):
        resolve_all([first, "anthropic/claude"], environ=environ, api_key="k")
    assert resolve_all(
        [first, "anthropic/claude"], environ={**environ, "ANTHROPIC_API_KEY": "a"}, api_key="k"
    )


@pytest.mark.usefixtures("echo_installed")
@pytest.mark.parametrize("model", ["echo:loud", "echo/loud", "echo"])
def test_another_package_can_bring_an_adapter(model):
    llm = resolve(model, environ={}, api_key="k")
    assert isinstance(llm, Echo)
    assert (llm.model, llm.api_key) == (model, "k")


@pytest.mark.usefixtures("echo_installed")
def test_an_installed_adapter_is_suggested():
    with pytest.raises(ConfigurationError, match="did you mean 'echo:loud'"):
        resolve("ecco:loud", environ={})


@pytest.mark.parametrize(
    ("model", "options", "absent"),
    [
        ("offline", "{}", ("aiohttp", "litellm")),
        ("openai/gpt-4o", "{'OPENAI_API_KEY': 'k'}", ("litellm",)),
        ("m", "{'LLM_FSM_BASE_URL': 'http://localhost:1'}", ("litellm",)),
    ],
)
def test_only_the_chosen_adapter_is_imported(model, options, absent):
    code = (
        "import sys; from llm_fsm.llm.registry import resolve; before = dict(sys.modules); "
        f"resolve({model!r}, environ={options}); print([m for m in {absent!r} if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")
