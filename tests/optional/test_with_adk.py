from __future__ import annotations

import asyncio
import runpy

import pytest
from google.adk.models.lite_llm import LiteLlm
from statemachine import State

from code_blocks import Blocks
from llm_fsm import LLMStateMachine, ModelError, create_llm_client
from llm_fsm.adk_client import ADKStateMixin, create_adk_agent_with_tools
from llm_fsm.session import events as ev
from llm_fsm.statechart import Message
from llm_fsm.testing import HttpReply, calls, serve_scripted
from paths import ROOT, TESTS

pytestmark = pytest.mark.filterwarnings("ignore")


def my_tool(param: str) -> str:
    """Look something up."""
    return f"Result: {param}"


def model(server):
    return LiteLlm(model="openai/any", api_base=server.base_url, api_key="sk-any")


def client(server, **options):
    return create_adk_agent_with_tools(
        model=model(server), name="my_agent", instruction="Be short.", tools=[my_tool], **options
    )


class Asks(LLMStateMachine, ADKStateMixin):
    idle = State(initial=True)
    work = State()
    done = State(final=True)
    start = idle.to(work)
    finish = work.to(done)

    def on_enter_work(self, state_input=None):
        return self.run_with_adk(query=f"Look up {state_input}", state_name="work")


def test_an_agent_calls_its_tools_and_its_answer_is_on_record() -> None:
    with serve_scripted([calls(("my_tool", {"param": "x"})), "It is x."]) as server:
        workflow = Asks(client(server), enable_summarization=False)
        workflow.memory.working_memory.set(0, "remember me")
        assert workflow.start(state_input="x") == "It is x."
    first, second = (request.body["messages"] for request in server.requests)
    assert "Be short." in str(first[0])
    assert "remember me" in str(first[-1])
    assert "Result: x" in str(second[-1])
    said = [event.text for event in workflow.last_turn.events if isinstance(event, ev.ModelReplied)]
    assert said == ["It is x."]


def test_a_session_is_remembered_and_others_are_not() -> None:
    with serve_scripted(["one", "two", "three"]) as server:
        asked = create_llm_client("adk", agent=client(server).agent, session_id="s")
        for text in ("first", "second"):
            asked.chat([Message("system", "Rules."), Message("user", text)])
        asked.chat([Message("user", "third")], session_id="other")
    bodies = [str(request.body["messages"]) for request in server.requests]
    assert "first" in bodies[1]
    assert "second" in bodies[1]
    assert "first" not in bodies[2]


def test_a_client_is_asked_in_an_event_loop_too() -> None:
    async def ask(server):
        asked = client(server)
        return [
            (await asked.async_chat([Message("user", "x")])).content,
            asked.chat([Message("user", "y")]).content,
        ]

    with serve_scripted(["one", "two"]) as server:
        assert asyncio.run(ask(server)) == ["one", "two"]


def test_errors_raise_and_never_come_back_as_text() -> None:
    refused = [HttpReply(status=401, body={"error": {"message": "bad key"}})] * 9
    with serve_scripted(refused) as server, pytest.raises(ModelError, match="ADK"):
        client(server).chat([Message("user", "x")])


def test_another_client_cannot_run_with_adk() -> None:
    with pytest.raises(TypeError, match="create_adk_agent_with_tools"):
        Asks(None, enable_summarization=False).start(state_input="x")
    with pytest.raises(ValueError, match="GOOGLE_API_KEY"):
        create_llm_client("adk", api_key="k")


def test_the_agent_example_runs(capsys) -> None:
    with serve_scripted(
        [calls(("order_status", {"order_id": "7"})), "It is on its way."]
    ) as server:
        example = runpy.run_path(str(ROOT / "examples" / "classes" / "adk_agent.py"))
        example["main"](model(server), "Where is order 7?")
    assert capsys.readouterr().out == "It is on its way.\n"


def test_the_block_of_the_document_runs() -> None:
    blocks = Blocks(TESTS / "data" / "front_doors" / "classes.md")
    names = blocks.run(
        "agents of adk", {"LLMStateMachine": LLMStateMachine, "ADKStateMixin": ADKStateMixin}
    )
    agent = names["llm_client"].agent
    assert (agent.name, agent.model, agent.instruction) == (
        "my_agent",
        "gemini-2.0-flash",
        "Agent instructions...",
    )
    assert names["my_tool"] in agent.tools
    whole = type(LLMStateMachine)("Whole", (names["MyWorkflow"],), {"state": State(initial=True)})
    with serve_scripted(["answered"]) as server:
        assert (
            whole(client(server), enable_summarization=False).execute_state("state") == "answered"
        )
    assert "Your query" in str(server.requests[0].body["messages"])
