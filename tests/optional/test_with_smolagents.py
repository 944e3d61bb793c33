from __future__ import annotations

import runpy
import warnings

import pytest
import smolagents

from code_blocks import Blocks
from llm_fsm import ModelError, create_llm_client
from llm_fsm.statechart import Message
from llm_fsm.testing import HttpReply, calls, serve_scripted
from paths import ROOT, TESTS

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {}},
    },
}


def model(server):
    return smolagents.OpenAIModel(model_id="any", api_base=server.base_url, api_key="sk-any")


def test_a_model_of_smolagents_is_asked_with_messages_and_tools() -> None:
    with serve_scripted([calls(("look", {"at": "sea"})), "wet"]) as server:
        client = create_llm_client("smolagents", agent_or_model=model(server))
        first = client.chat(
            [Message("system", "Be short."), Message("user", "Well?")],
            tools=[TOOL],
            temperature=0.2,
        )
        [call] = first.tool_calls
        answered = [Message("assistant", "", [call]), Message("tool", "wet", tool_call_id=call.id)]
        second = client.chat([Message("user", "Well?"), *answered])
    assert (call.name, call.arguments) == ("look", {"at": "sea"})
    assert second.content == "wet"
    body = server.requests[0].body
    assert (body["temperature"], body["tools"][0]["function"]["name"]) == (0.2, "look")
    assert "Result of the call" in str(server.requests[1].body["messages"][-1]["content"])


def test_the_model_of_an_agent_is_asked_and_errors_raise() -> None:
    with serve_scripted(
        [HttpReply(status=400, body={"error": {"message": "no such model"}})]
    ) as server:
        agent = smolagents.ToolCallingAgent(tools=[], model=model(server))
        client = create_llm_client("smolagents", agent_or_model=agent)
        assert client.model is agent.model
        with pytest.raises(ModelError, match="no such model"):
            client.chat([Message("user", "x")])


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match="InferenceClientModel"):
        create_llm_client("smolagents", agent_or_model="gpt-4")
    assert not hasattr(smolagents, "HfApiModel")
    assert hasattr(smolagents, "InferenceClientModel")


def test_the_research_example_runs(capsys) -> None:
    replies = [
        calls(("demo_search", {"query": "lighthouses"})),
        "They are old.",
        "An article.",
        {"valid": True},
    ]
    with serve_scripted(replies) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = runpy.run_path(str(ROOT / "examples" / "classes" / "smolagents_research.py"))
        example["main"](model(server), "lighthouses")
    assert capsys.readouterr().out == "They are old.\nAn article.\n"
    assert server.remaining == 0


def test_the_block_of_the_document_runs_with_the_name_of_today() -> None:
    blocks = Blocks(TESTS / "data" / "front_doors" / "classes.md")
    given = {"create_llm_client": create_llm_client}
    names = blocks.run("client of smolagents", given, HfApiModel="InferenceClientModel")
    assert isinstance(names["llm_client"].model, smolagents.LiteLLMModel)
    assert issubclass(names["InferenceClientModel"], smolagents.Model)
