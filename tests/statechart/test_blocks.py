"""Every block of code that the class-based door was specified by runs, and does what is said of it."""

from __future__ import annotations

import asyncio
import re
import sys
from types import ModuleType

import mongomock
import pytest
from statemachine import State

import llm_fsm
from code_blocks import Blocks
from llm_fsm import (
    ExecutionBreak,
    LLMStateMachine,
    PersistentMemory,
    ToolRegistry,
    ToolType,
    register_tool,
)
from llm_fsm.llm.clients.sdks import LiteLLMClient, OpenAIClient
from llm_fsm.statechart import Message, tools
from llm_fsm.testing import ScriptedLLM, calls, serve_scripted
from paths import TESTS

BLOCKS = Blocks(TESTS / "data" / "front_doors" / "classes.md")
ELSEWHERE = {"client of smolagents", "agents of adk"}  # tests/optional
SUMMARY = {"summary": "it went well", "todo_list": ["next"]}


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    own = ToolRegistry()
    monkeypatch.setattr(tools, "_registry", own)
    return own


def names(**more):
    return {
        "State": State,
        "LLMStateMachine": LLMStateMachine,
        "Message": Message,
        "ExecutionBreak": ExecutionBreak,
        "PersistentMemory": PersistentMemory,
        "register_tool": register_tool,
        "ToolType": ToolType,
        **more,
    }


def machine_of(**attributes):
    """A class with one state for each body, each leading to the next."""
    states = [name.removeprefix("on_enter_") for name in attributes if name.startswith("on_enter_")]
    made = {name: State(initial=number == 0) for number, name in enumerate(states)}
    made["closing"] = State(final=True)
    for name, following in zip(states, [*states[1:], "closing"], strict=True):
        attributes[f"go_to_{following}"] = made[name].to(made[following])
    return type(LLMStateMachine)("Whole", (LLMStateMachine,), {**made, **attributes})


def test_the_quick_start_runs_as_written(monkeypatch) -> None:
    with serve_scripted(
        [calls(("search", {"query": "AI Safety"})), "AI safety matters.", SUMMARY]
    ) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        found = BLOCKS.run("quick start", {})
    assert found["result"] == "AI safety matters."
    assert isinstance(found["llm_client"], OpenAIClient)
    workflow = found["workflow"]
    assert list(workflow.configuration_values) == ["research"]
    first, second, _ = (request.body for request in server.requests)
    assert first["model"] == "gpt-4"
    assert "Research topic: AI Safety" in first["messages"][0]["content"]
    assert first["messages"][1] == {"role": "user", "content": "Begin research"}
    assert "search" in [tool["function"]["name"] for tool in first["tools"]]
    assert {"set_memory", "append_memory", "get_memory", "clear_memory", "view_all_memory"} <= {
        tool["function"]["name"] for tool in first["tools"]
    }
    assert "Search results for: AI Safety" in second["messages"][-1]["content"]
    assert [entry["state"] for entry in workflow.memory.history.entries] == ["research"]
    assert workflow.memory.background.todo_list == "next"
    workflow.research_loop()
    workflow.write()
    workflow.finish()
    assert list(workflow.configuration_values) == ["done"]


def test_states_and_transitions() -> None:
    workflow = BLOCKS.run("states and transitions", names())["MyWorkflow"](None)
    workflow.transition1()
    workflow.loop()
    assert list(workflow.configuration_values) == ["state2"]
    workflow.transition2()
    assert list(workflow.configuration_values) == ["state3"]


def test_code_and_model_use_the_ten_buckets_which_stand_in_the_context() -> None:
    def on_enter_work(self, state_input=None):
        BLOCKS.run("working memory", {"self": self})
        return self.run_llm_with_tools(self.memory.to_context(), "go", "work")

    asked = calls(
        ("set_memory", {"bucket_index": 2, "content": "two"}),
        ("append_memory", {"bucket_index": 2, "content": "more"}),
        ("get_memory", {"bucket_index": 0}),
        ("clear_memory", {"bucket_index": 1}),
        ("view_all_memory", {}),
    )
    model = ScriptedLLM([asked, "done"])
    workflow = machine_of(on_enter_work=on_enter_work)(model, enable_summarization=False)
    workflow.execute_state("work")
    shown = model.requests[0].messages[0].content
    assert "Important information" in shown
    assert "Additional context" in shown
    assert "[Bucket 2]" not in shown
    assert workflow.memory.working_memory.get_non_empty() == {
        0: "Important information",
        2: "two\nmore",
    }
    told = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert told[2] == '"Important information"'
    assert "two" in told[4]


def test_the_three_kinds_of_tools(registry) -> None:
    async def some_async_call():
        await asyncio.sleep(0)

    found = BLOCKS.run(
        "kinds of tools", {"some_async_call": some_async_call, "result": "async result"}
    )
    assert found["calculate"]("1 + 1") == 2  # the decorator gives the function back
    assert [tool.name for tool in registry] == ["calculate", "wait_for_human", "async_operation"]

    def on_enter_processing(self, state_input=None):
        return self.run_llm_with_tools("s", "u", "processing")

    def on_enter_other(self, state_input=None):
        return self.run_llm_with_tools("s", "u", "other")

    both = calls(("calculate", {"expr": "6 * 7"}), ("async_operation", {"data": "x"}))
    stopping = calls(("wait_for_human", {"prompt": "ok?"}), ("calculate", {"expr": "1"}))
    model = ScriptedLLM([both, stopping, calls(("calculate", {"expr": "1"})), "done"])
    cls = machine_of(on_enter_processing=on_enter_processing, on_enter_other=on_enter_other)
    workflow = cls(model, enable_summarization=False)
    with pytest.raises(ExecutionBreak) as raised:
        workflow.execute_state("processing")
    assert raised.value.result == "[WAITING]: ok?"
    told = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert told == ["42", '"async result"']
    returned = [
        event.name for event in workflow.last_turn.events if type(event).__name__ == "ToolReturned"
    ]
    # all of the batch
    assert returned == ["calculate", "async_operation", "wait_for_human", "calculate"]
    workflow.execute_state("other")
    assert "cannot be called in this state" in model.requests[3].messages[-1].content


def test_refinement_in_a_body() -> None:
    body = BLOCKS.run("refinement", names())["on_enter_my_state"]
    replies = ["poor", {"valid": False, "advice": "add Y"}, "good", {"valid": True}]
    model = ScriptedLLM(replies)
    result = machine_of(on_enter_my_state=body)(model, enable_summarization=False).execute_state(
        "my_state"
    )
    assert result.content == "good"
    assert "add Y" in model.requests[2].messages[0].content
    poor = [
        reply
        for number in range(4)
        for reply in (f"try {number}", {"valid": False, "advice": "no"})
    ]
    result = machine_of(on_enter_my_state=body)(
        ScriptedLLM(poor), enable_summarization=False
    ).execute_state("my_state")
    assert result.content.startswith("try")  # three retries, and no exception


def test_summaries_switched_off_and_in_words_of_your_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_prompt.txt").write_text("Tell {me} all.", encoding="utf-8")

    def on_enter_state_name(self, state_input=None):
        return "worked"

    model = ScriptedLLM([SUMMARY])
    cls = machine_of(on_enter_state_name=on_enter_state_name)
    found = BLOCKS.run("summaries", {"MyWorkflow": cls, "llm_client": model})
    workflow = found["workflow"]
    assert model.requests == []  # that run was raw
    workflow.execute_state("state_name")
    assert model.requests[0].messages[0].content == "Tell {me} all."
    assert workflow.memory.background.todo_list == "next"


def test_breaking_and_going_on_with_the_file_alone(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    ran = []

    @register_tool("Ask", ToolType.BREAKING)
    def ask_human(question: str) -> str:
        ran.append(question)
        return "asked"

    def on_enter_review(self, state_input=None):
        return self.run_llm_with_tools("Review", f"Review {state_input}", "review")

    cls = machine_of(on_enter_review=on_enter_review)
    model = ScriptedLLM([calls(("ask_human", {"question": "ok?"})), "approved"])
    given = {
        **names(MyWorkflow=cls, llm_client=model),
        "workflow": cls(model, enable_summarization=False),
        "data": "the draft",
        "updated_data": {"approved": True},
    }
    given["MyWorkflow"] = lambda **options: cls(enable_summarization=False, **options)
    BLOCKS.run("break and resume", given)
    assert capsys.readouterr().out == "Paused, waiting for human...\n"
    assert ran == ["ok?"]
    assert '"approved":true' in model.requests[1].messages[-1].content
    assert given["workflow"].memory.history.entries[-1]["output"] == "approved"


def test_persistent_memory_in_files_and_mongodb(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    collection = mongomock.MongoClient()["db"]["states"]
    memory = BLOCKS.run("persistent memory", names(collection=collection))["memory"]
    assert memory.working_memory.get(0) == "content"
    assert memory.background.custom_fields == {"key": "value"}
    assert memory.history.entries[0]["input"] == {"topic": "AI"}
    assert PersistentMemory.load_from_file("state.json").to_dict() == memory.to_dict()


@pytest.mark.usefixtures("thread_loop")
def test_clients_of_openai_and_litellm(monkeypatch) -> None:
    assert isinstance(BLOCKS.run("client of openai", {})["llm_client"], OpenAIClient)
    client = BLOCKS.run("client of litellm", {"create_llm_client": llm_fsm.create_llm_client})[
        "llm_client"
    ]
    assert isinstance(client, LiteLLMClient)
    with serve_scripted(["hello"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert client.chat([Message("user", "hi")]).content == "hello"


def test_another_framework_inside_a_state(monkeypatch) -> None:
    module = ModuleType("sglang")
    module.gen = lambda prompt, context: f"{prompt} / {context}"
    monkeypatch.setitem(sys.modules, "sglang", module)
    found = BLOCKS.run("another framework", names())["MyWorkflow"]
    whole = type(LLMStateMachine)("Whole", (found,), {"my_state": State(initial=True)})
    workflow = whole(None, enable_summarization=False)
    workflow.memory.working_memory.set(0, "known")
    assert workflow.execute_state("my_state").startswith("your prompt / ## Working memory")


def test_conditional_transitions() -> None:
    cls = BLOCKS.run("conditional transitions", names())["MyWorkflow"]
    for wanted, event in ((True, "go_to_state2"), (False, "go_to_state3")):
        workflow = cls(None)
        workflow._some_condition = wanted
        with pytest.raises(workflow.TransitionNotAllowed):
            workflow.send("go_to_state3" if wanted else "go_to_state2")
        workflow.send(event)
        assert list(workflow.configuration_values) == [event.removeprefix("go_to_")]


def test_validation_of_your_own() -> None:
    cls = BLOCKS.run(
        "own validation", names(custom_validation_logic=lambda output: output == "good")
    )["MyWorkflow"]
    advised = []

    def attempt(refinement_advice=None):
        advised.append(refinement_advice)
        return "good" if refinement_advice else "bad"

    whole = type(LLMStateMachine)("Whole", (cls,), {"work": State(initial=True)})(None)
    assert whole.run_with_refinement("work", "be good", attempt) == "good"
    assert advised == [None, "Needs improvement in X"]


def test_tools_for_some_states_and_for_all() -> None:
    given = names(do_research=str.upper, enhance_writing=str.title, process=str.lower)
    BLOCKS.run("scoped tools", given)

    def on_enter_research(self, state_input=None):
        return self.run_llm_with_tools("s", "u", "research")

    def on_enter_writing(self, state_input=None):
        return self.run_llm_with_tools("s", "u", "writing")

    model = ScriptedLLM(["r", "w"])
    cls = machine_of(on_enter_research=on_enter_research, on_enter_writing=on_enter_writing)
    workflow = cls(model, enable_summarization=False)
    workflow.execute_state("research")
    workflow.execute_state("writing")
    offered = [
        [tool.name for tool in request.tools if not tool.name.endswith("_memory")]
        for request in model.requests
    ]
    assert offered == [["research_tool", "general_tool"], ["writing_tool", "general_tool"]]


def test_what_is_in_memory_goes_to_another_process_and_what_is_an_attribute_does_not() -> None:
    found = BLOCKS.run("memory instead of attributes", names())

    def whole(name):
        attributes = {
            "state1": State(initial=True),
            "state2": State(final=True),
            "process": lambda self: "ok",
        }
        attributes["go"] = attributes["state1"].to(attributes["state2"])
        return type(LLMStateMachine)(name, (found[name],), attributes)

    good = whole("GoodWorkflow")(None, enable_summarization=False)
    assert good.execute_state("state1") == "ok"
    elsewhere = whole("GoodWorkflow")(
        None, PersistentMemory.from_dict(good.memory.to_dict()), enable_summarization=False
    )
    assert elsewhere.execute_state("state2") == "something"
    bad = whole("BadWorkflow")(None, enable_summarization=False)
    bad.execute_state("state1")
    with pytest.raises(AttributeError):
        whole("BadWorkflow")(None, enable_summarization=False).execute_state("state2")


def test_memory_that_is_set_before_a_break_is_saved_with_it() -> None:
    @register_tool("Ask", ToolType.BREAKING)
    def request_feedback(question: str) -> str:
        return "asked"

    body = BLOCKS.run("before a break", names(doc_id=7))["on_enter_review"]
    model = ScriptedLLM([calls(("request_feedback", {"question": "ok?"})), "done"])
    workflow = machine_of(on_enter_review=body)(model, enable_summarization=False)
    with pytest.raises(ExecutionBreak):
        workflow.execute_state("review")
    assert workflow.memory.working_memory.get_non_empty() == {
        5: "Reviewing document: 7",
        6: "Waiting for approval",
    }


def test_the_pattern_of_a_state() -> None:
    filled = {
        "# 1. Update memory with context": "self.memory.working_memory.set(0, str(state_input))",
        "# 2. Build prompt with memory.to_context()": "prompt = self.memory.to_context()",
        "# 3. Execute with LLM/tools": "said = self.run_llm_with_tools(prompt, 'go', 'research')",
        "# 4. Return output": "return said",
    }
    body = BLOCKS.run("pattern: a state", names(), state="research", **filled)["on_enter_research"]
    model = ScriptedLLM(["done"])
    workflow = machine_of(on_enter_research=body)(model, enable_summarization=False)
    assert workflow.execute_state("research", "AI") == "done"
    assert '[Bucket 0]: "AI"' in model.requests[0].messages[0].content


def test_the_pattern_of_tools() -> None:
    code = {"on_enter_<state>": "on_enter_work", "=<state>": '="work"', "dots": '"text"'}
    body = BLOCKS.run("pattern: tools", names(), **code)["on_enter_work"]
    model = ScriptedLLM(["done"])
    machine_of(on_enter_work=body)(model, enable_summarization=False).execute_state("work")
    assert [message.content for message in model.requests[0].messages] == ["text", "text"]


def test_the_pattern_of_refinement() -> None:
    seen = []

    def on_enter_work(self, state_input=None):
        found = BLOCKS.run("pattern: refinement", {"self": self}, dots='"work"')
        seen.append(found["result"])

    model = ScriptedLLM([{"valid": True}])
    machine_of(on_enter_work=on_enter_work)(model, enable_summarization=False).execute_state("work")
    assert seen == [None]  # what the pattern's function returns


def test_the_pattern_of_breaking(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    @register_tool("Ask", ToolType.BREAKING)
    def ask_human(question: str) -> str:
        return "asked"

    def on_enter_state(self, state_input=None):
        return self.run_llm_with_tools("s", str(state_input), "state")

    cls = machine_of(on_enter_state=on_enter_state)
    model = ScriptedLLM([calls(("ask_human", {"question": "ok?"})), "done"])
    given = names(
        client=model,
        input_data="first",
        new_input="second",
        workflow=cls(model, enable_summarization=False),
    )
    given["Workflow"] = lambda **options: cls(enable_summarization=False, **options)
    BLOCKS.run("pattern: break and resume", given)
    assert given["workflow"].memory.history.entries[-1]["output"] == "done"


def test_every_block_has_its_test() -> None:
    source = (TESTS / "statechart" / "test_blocks.py").read_text(encoding="utf-8")
    run = set(re.findall(r'BLOCKS\.run\(\s*"([^"]+)"', source))
    left = [name for name in BLOCKS.code if name not in ELSEWHERE and name not in run]
    assert left == []
