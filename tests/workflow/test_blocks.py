"""Every block of code and every pattern that workflows were specified by runs, and does what is
said of it.
"""

from __future__ import annotations

import json
import re

import pytest

from code_blocks import Blocks
from doc_tables import rows
from llm_fsm import workflow
from llm_fsm.testing import ScriptedLLM, calls, serve_scripted
from llm_fsm.workflow import MaxRetriesExceeded, Message, StateSpec, Workflow, WorkflowContext
from paths import ROOT, TESTS

FILE = TESTS / "data" / "front_doors" / "workflows.md"
BLOCKS = Blocks(FILE)
FOUND = "Lamps. " * 40
REPORT = "# One\n# Two"


def quick_start(monkeypatch, replies, **names):
    with serve_scripted(replies) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
        found = BLOCKS.run(
            "quick start", {"your_search_api": lambda query: f"found {query}", **names}
        )
    return found, [request.body for request in server.requests]


def test_the_quick_start_runs_as_written(monkeypatch, capsys) -> None:
    searching = calls(("search", {"query": "quantum computing"}))
    found, bodies = quick_start(monkeypatch, [searching, FOUND, {"sourced": True}, REPORT])
    assert capsys.readouterr().out == f"{REPORT}\n"
    assert [one.state_name for one in found["result"].history] == ["research", "writing"]
    assert found["result"].history[0].key_results_met == {"length": True, "sourced": True}
    assert bodies[0]["model"] == "gpt-4o"
    schema = bodies[0]["tools"][0]["function"]
    assert (schema["name"], schema["description"]) == ("search", "Search the web for information.")
    assert schema["parameters"]["required"] == ["query"]
    assert "found quantum computing" in bodies[1]["messages"][-1]["content"]
    assert bodies[3]["messages"][-1]["content"] == FOUND
    assert "tools" not in bodies[3]


def test_a_state_that_fails_runs_again_and_is_capped(monkeypatch) -> None:
    with pytest.raises(MaxRetriesExceeded) as raised:
        quick_start(monkeypatch, ["short", FOUND, {"sourced": "false"}, FOUND, {"sourced": False}])
    assert (raised.value.state_name, raised.value.max_retries) == ("research", 2)


def test_a_workflow_goes_back_and_forth() -> None:
    given = BLOCKS.run("transitions", {})
    asked = iter(["wrong_city", "Berlin"])

    def fetch(ctx):
        city = next(asked)
        if city != "wrong_city":
            ctx.shared.set("weather", "sunny")
        return city

    states = [
        StateSpec("check", execute=given["check"]),
        StateSpec("fetch", execute=fetch),
        StateSpec("respond", execute=lambda ctx: ctx.input["answer"]),
    ]
    result = Workflow("Weather", states, given["transitions"], ScriptedLLM([])).run()
    assert [one.state_name for one in result.history] == [
        "check",
        "fetch",
        "fetch",
        "check",
        "respond",
    ]
    assert result.history[-1].output == "Sunny!"


def test_the_patterns_run_as_they_stand_in_the_table() -> None:
    patterns = dict(rows(str(FILE.relative_to(ROOT)), "| pattern | code |"))
    cycle = ["o", "o", "d", calls(("tool", {"x": "1"})), "TASK COMPLETE: yes"]
    model = ScriptedLLM([calls(("tool", {"x": "0"})), "looped", "single", *cycle])
    called = []

    def tool(x: str) -> str:
        """Do it."""
        called.append(x)
        return x

    def execute(ctx):
        if ctx.retry_count == 0:
            return "first"
        names = {
            "ctx": ctx,
            "system": "s",
            "user_msg": "u",
            "val": [1],
            "tool": tool,
            "Message": Message,
        }
        names["run_ooda"] = workflow.run_ooda
        said = [eval(patterns[name], names) for name in ("LLM + tools loop", "Single LLM call")]
        eval(patterns["Share data"], names)
        read, done, feedback, route = (
            eval(patterns[name], names)
            for name in (
                "Read shared data",
                "Nested OODA agent",
                "Retry feedback",
                "Conditional route",
            )
        )
        return {
            **route,
            "said": [said[0], said[1].content],
            "read": read,
            "done": done,
            "feedback": feedback,
        }

    again = workflow.KeyResult("again", "Twice", check=lambda output: output != "first")
    states = [
        StateSpec("a", execute=execute, tools=[tool], key_results=[again]),
        StateSpec("b", execute=lambda ctx: ctx.shared.get("key"), is_final=True),
    ]
    wf = Workflow("Patterns", states, {"a": {"branch_name": "b"}}, model)
    history = wf.run().history
    assert history[0].output == {
        "_transition": "branch_name",
        "more": 1,
        "said": ["looped", "single"],
        "read": [1],
        "done": "TASK COMPLETE: yes",
        "feedback": "again: Twice",
    }
    assert history[1].output == [1]
    assert called == ["0", "1"]
    names = {"wf": wf, "WorkflowContext": WorkflowContext}
    names["d"] = json.loads(json.dumps(eval(patterns["Save workflow state"], names)))
    assert eval(patterns["Load workflow state"], names).history[-1].output == [1]


def test_the_patterns_of_json_and_python() -> None:
    patterns = dict(rows(str(FILE.relative_to(ROOT)), "| pattern | code |"))
    states = [StateSpec("a", "Ask", execute=workflow.run_objective, is_final=True)]
    names = {name: getattr(workflow, name) for name in workflow.__all__}
    names |= {"wf": Workflow("One", states, {}, None), "llm": ScriptedLLM(["said"])}
    names["data"] = names["json_data"] = eval(patterns["JSON out"], names)
    assert eval(patterns["JSON in"], names).run("x").history[-1].output == "said"
    assert re.search("^STATES = ", eval(patterns["Generate Python"], names), re.MULTILINE)
