"""Every block of code that the primitives were specified by runs, and does what is said of it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from code_blocks import Blocks
from llm_fsm import ToolRegistry, generate_orchestrator_guide, tools_to_google_ai_schema
from paths import TESTS

BLOCKS = Blocks(TESTS / "data" / "front_doors" / "primitives.md")


class Parts(SimpleNamespace):
    """Stands in for the types of google-genai: what it is made of are its attributes."""

    @classmethod
    def from_function_response(cls, name: str, response: dict[str, Any]) -> Parts:
        return cls(name=name, response=response)


@pytest.fixture
def google(monkeypatch):
    """Stands in for google-genai: it gives replies of a list and keeps what it was asked."""
    asked: list[dict[str, Any]] = []
    replies: list[Any] = []

    class Client:
        def __init__(self, api_key: str | None) -> None:
            self.models = self

        def generate_content(self, **request: Any) -> Any:
            asked.append({**request, "contents": list(request["contents"])})
            name, arguments = replies.pop(0)
            call = None if name is None else SimpleNamespace(name=name, args=arguments)
            content = SimpleNamespace(parts=[SimpleNamespace(function_call=call)])
            return SimpleNamespace(candidates=[SimpleNamespace(content=content)])

    types = ModuleType("google.genai.types")
    types.Content = types.Part = types.GenerateContentConfig = Parts
    genai = ModuleType("google.genai")
    genai.Client, genai.types = Client, types
    package = ModuleType("google")
    package.genai = genai
    for name, module in {
        "google": package,
        "google.genai": genai,
        "google.genai.types": types,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(asked=asked, replies=replies)


def test_the_map_moves_and_validates() -> None:
    fsm = BLOCKS.run("the map", {})["fsm"]
    assert fsm.current_state == "researching"
    assert fsm.get_next_states() == ["writing"]
    assert not fsm.is_terminal()
    with pytest.raises(ValueError, match="allowed: writing"):
        fsm.transition("end")


def test_the_toolbox_registers_executes_and_has_schemas() -> None:
    tools = BLOCKS.run("the toolbox", {})["tools"]
    assert tools.execute("research_web", topic="AI") == "Research completed: AI"
    [first, second] = tools.get_tool_schemas()
    assert first["function"]["description"] == "Conduct web research on the specified topic"
    assert second["function"]["parameters"]["properties"]["content"]["type"] == "string"
    assert [one["name"] for one in tools.get_tool_schemas("anthropic")] == [
        "research_web",
        "write_article",
    ]
    assert [function.__name__ for function in tools.get_tools()] == [
        "research_web",
        "write_article",
    ]


def test_the_helpers() -> None:
    names = {
        **BLOCKS.run("the toolbox", {}),
        **BLOCKS.run("the map", {}),
        "tools_to_google_ai_schema": tools_to_google_ai_schema,
        "generate_orchestrator_guide": generate_orchestrator_guide,
    }
    BLOCKS.run("helpers", {**names, "tool_registry": names["tools"]})


def test_the_loop_of_the_document_walks_to_its_end(google, capsys) -> None:
    names = BLOCKS.run("define", {})
    BLOCKS.run("orchestrator", names)
    article = "An article of more than fifty characters, which is what a review wants."
    google.replies += [
        ("transition_state", {"next_state": "researching"}),
        ("research_web", {"topic": "AI"}),
        ("transition_state", {"next_state": "writing", "reason": "enough is known"}),
        (None, {}),
        ("transition_state", {"next_state": "reviewing"}),
        ("review_article", {"article": "short"}),
        ("transition_state", {"next_state": "writing"}),
        ("transition_state", {"next_state": "reviewing"}),
        ("review_article", {"article": article}),
        ("transition_state", {"next_state": "end"}),
    ]
    BLOCKS.run("main loop", names)
    assert capsys.readouterr().out == "Workflow completed!\n"
    assert google.replies == []
    first = google.asked[0]
    assert "Current State: start" in first["config"].system_instruction
    assert "Available Next States: researching" in first["config"].system_instruction
    declared = [one["name"] for one in first["config"].tools[0]["function_declarations"]]
    assert declared == ["research_web", "write_article", "review_article", "transition_state"]
    parts = [part for content in google.asked[-1]["contents"][1:] for part in content.parts]
    results = [part.response["result"] for part in parts if hasattr(part, "response")]
    assert "Transitioned to: researching" in results
    assert "REJECTED: Too short" in results
    assert "APPROVED" in results


def test_large_data_stays_behind_the_tools() -> None:
    done = []
    names = {
        "tools": ToolRegistry(),
        "generate_huge_data": lambda: "x" * 100_000,
        "process": done.append,
    }
    BLOCKS.run("hidden context", names)
    assert names["tools"].execute("heavy_task") == "Data generated and stored in context."
    assert names["tools"].execute("next_task") == "Processed data from context."
    assert len(done[0]) == 100_000


def test_every_block_has_its_test() -> None:
    source = (TESTS / "test_primitives_blocks.py").read_text(encoding="utf-8")
    assert [name for name in BLOCKS.code if f'BLOCKS.run("{name}"' not in source] == []
