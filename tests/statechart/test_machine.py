from __future__ import annotations

import json
import threading
from unittest.mock import Mock

import pytest
from statemachine import State
from statemachine.exceptions import InvalidDefinition, TransitionNotAllowed

from llm_fsm import (
    AsyncLLMStateMachine,
    ExecutionBreak,
    LLMStateMachine,
    ModelError,
    PersistentMemory,
    RefinementFailed,
    ToolRegistry,
    ToolType,
    create_custom_summarizer,
    register_tool,
)
from llm_fsm.session import events as ev
from llm_fsm.statechart import LLMResponse, Message
from llm_fsm.statechart.tools import get_global_registry
from llm_fsm.testing import ScriptedLLM, calls

TOOLS = ToolRegistry()


@register_tool("Search", state_scope="research", registry=TOOLS)
def search(query: str) -> str:
    return f"found {query}"


@register_tool("Ask a person", ToolType.BREAKING, registry=TOOLS)
def ask_human(question: str) -> str:
    return f"[WAITING]: {question}"


@register_tool("Look", ToolType.ASYNC, registry=TOOLS)
async def look(at: str) -> str:
    return f"{at} is wet"


class Research(LLMStateMachine):
    idle = State(initial=True)
    research = State()
    writing = State()
    done = State(final=True)

    start = idle.to(research)
    write = research.to(writing)
    finish = writing.to(done)
    loop = research.to.itself(on="tool_use")
    ran: list

    def on_enter_research(self, state_input=None):
        self.ran.append(state_input)
        return self.run_llm_with_tools(f"Topic: {state_input}", "Begin", "research")


def made(replies=(), cls=Research, **options):
    model = replies if not isinstance(replies, list | tuple) else ScriptedLLM(list(replies))
    cls.ran = []
    options.setdefault("enable_summarization", False)
    options.setdefault("tool_registry", TOOLS)
    return cls(llm_client=model, **options)


def test_the_constructor_and_an_event_run_nothing_and_execute_state_runs_once() -> None:
    workflow = made(["found it"])
    assert workflow.ran == []
    workflow.start()
    assert (list(workflow.configuration_values), workflow.ran) == (["research"], [])
    assert workflow.execute_state("research", state_input="AI") == "found it"
    assert workflow.ran == ["AI"]


def test_an_event_with_input_enters_and_runs_once_and_gives_the_output() -> None:
    workflow = made(["found it", "again"])
    assert workflow.start(state_input="AI") == "found it"
    assert (list(workflow.configuration_values), workflow.ran) == (["research"], ["AI"])
    assert workflow.send("loop", state_input="more") == "again"
    assert workflow.ran == ["AI", "more"]


def test_execute_state_starts_anywhere_and_moves_nothing() -> None:
    workflow = made(["found it"])
    workflow.execute_state("research", "AI")
    assert list(workflow.configuration_values) == ["idle"]
    with pytest.raises(
        ValueError, match="Research has no state 'reserch'; did you mean 'research'"
    ):
        workflow.execute_state("reserch")


def test_an_event_that_is_not_allowed_is_raised_and_not_ignored() -> None:
    with pytest.raises(TransitionNotAllowed):
        made().finish()


def test_methods_without_state_input_stay_ordinary_callbacks() -> None:
    seen = []

    class Own(Research):
        def on_enter_research(self):
            seen.append("entered")

        def on_exit_idle(self):
            seen.append("left")

    workflow = made(cls=Own)
    workflow.start()
    assert seen == ["left", "entered"]


def test_guards_choose_among_transitions() -> None:
    class Guarded(LLMStateMachine):
        one = State(initial=True)
        two = State()
        three = State()
        go = one.to(two, cond="wants_two") | one.to(three, unless="wants_two")

        def wants_two(self):
            return self.memory.working_memory.get(0) == "two"

    memory = PersistentMemory()
    memory.working_memory.set(0, "two")
    workflow = Guarded(None, memory=memory)
    workflow.go()
    assert list(workflow.configuration_values) == ["two"]
    other = Guarded(None)
    other.go()
    assert list(other.configuration_values) == ["three"]


@pytest.mark.parametrize(
    "name", ["memory", "llm_client", "tool_registry", "execute_state", "tool_use"]
)
def test_a_state_with_the_name_of_something_that_machines_have_is_refused(name) -> None:
    with pytest.raises(InvalidDefinition, match=f"a state cannot be called '{name}'"):
        type("Bad", (LLMStateMachine,), {name: State(initial=True)})


def test_a_state_without_a_body_has_the_model_work_with_its_tools() -> None:
    workflow = made([calls(("look", {"at": "the sea"})), "It is wet."])
    assert workflow.execute_state("writing", "How is the sea?") == "It is wet."
    assert "How is the sea?" in workflow._client.requests[0].messages[-1].content


def test_a_body_of_a_parent_class_may_be_called_by_a_child() -> None:
    class Child(Research):
        def on_enter_research(self, state_input=None):
            return [super().on_enter_research(f"{state_input}!"), "child"]

    assert made(["found"], cls=Child).execute_state("research", "AI") == ["found", "child"]
    assert Child.ran == ["AI!"]


def test_a_body_that_is_called_directly_runs_its_state() -> None:
    assert made(["found"]).on_enter_research("AI") == "found"


# -- memory


class Remembers(LLMStateMachine):
    work = State(initial=True)
    rest = State(final=True)
    stop = work.to(rest)

    def on_enter_work(self, state_input=None):
        self.memory.working_memory.set(0, "by code")
        self.memory.background.goals = "Be good"
        said = self.run_llm_with_tools(self.memory.to_context(), "Go", "work")
        return [said, self.memory.working_memory.get(1)]


def test_code_and_the_models_memory_tools_share_one_memory_that_persists() -> None:
    note = calls(
        ("view_all_memory", {}), ("set_memory", {"bucket_index": 1, "content": "by the model"})
    )
    workflow = made([note, "done"], cls=Remembers)
    assert workflow.execute_state("work") == ["done", "by the model"]
    assert workflow.memory.working_memory.get_non_empty() == {0: "by code", 1: "by the model"}
    assert workflow.memory.background.goals == "Be good"
    told = [
        message.content
        for message in workflow._client.requests[1].messages
        if message.role == "tool"
    ]
    assert "by code" in told[0]


def test_the_memory_of_one_machine_is_not_that_of_another() -> None:
    one, other = made(cls=Remembers), made(cls=Remembers)
    one.memory.working_memory.set(0, "mine")
    assert other.memory.working_memory.get_non_empty() == {}


def test_runs_stand_in_the_history_with_input_and_output() -> None:
    workflow = made(["one", "two"])
    workflow.execute_state("research", {"topic": "AI"})
    workflow.execute_state("research", "more")
    found = [
        (entry["state"], entry["input"], entry["output"])
        for entry in workflow.memory.history.entries
    ]
    assert found == [("research", {"topic": "AI"}, "one"), ("research", "more", "two")]


# -- models and tools


def test_a_mock_client_is_enough() -> None:
    class Asks(Research):
        def on_enter_research(self, state_input=None):
            return self.llm_client.chat([Message(role="user", content="x")]).content

    mock = Mock()
    mock.chat.return_value = LLMResponse(content="mocked", tool_calls=None)
    assert made(mock, cls=Asks).execute_state("research") == "mocked"
    mock.chat.assert_called_once()


def test_what_the_client_is_asked_inside_a_body_is_on_record() -> None:
    class Asks(Research):
        def on_enter_research(self, state_input=None):
            return self.llm_client.chat([Message("user", "hi")], temperature=0.3)

    workflow = made(["hello"], cls=Asks)
    response = workflow.execute_state("research")
    assert (response.content, str(response)) == ("hello", "hello")
    assert workflow.memory.history.entries[0]["output"] == "hello"
    assert [
        event.text for event in workflow.last_turn.events if isinstance(event, ev.ModelReplied)
    ] == ["hello"]
    assert workflow._client.requests[0].temperature == 0.3
    assert workflow.llm_client is workflow._client


def test_the_scope_of_a_tool_is_enforced_at_the_call() -> None:
    class Writes(Research):
        def on_enter_writing(self, state_input=None):
            return self.run_llm_with_tools("s", "u", "writing")

    workflow = made([calls(("search", {"query": "x"})), "done"], cls=Writes)
    workflow.execute_state("writing")
    first, second = workflow._client.requests
    assert "search" not in [tool.name for tool in first.tools]
    assert "cannot be called in this state" in second.messages[-1].content


def test_several_calls_are_one_batch_and_async_tools_are_awaited() -> None:
    workflow = made([calls(("search", {"query": "a"}), ("look", {"at": "sea"})), "done"])
    workflow.execute_state("research")
    told = [
        message.content
        for message in workflow._client.requests[1].messages
        if message.role == "tool"
    ]
    assert told == ['"found a"', '"sea is wet"']
    names = [
        event.name for event in workflow.last_turn.events if isinstance(event, ev.ToolReturned)
    ]
    assert names == ["search", "look"]


def test_the_tools_of_another_state_are_not_for_this_body() -> None:
    class Wrong(Research):
        def on_enter_research(self, state_input=None):
            return self.run_llm_with_tools("s", "u", "writing")

    with pytest.raises(ValueError, match="the body of state 'research' runs here"):
        made(cls=Wrong).execute_state("research")
    with pytest.raises(RuntimeError, match=r"execute_state\('research'"):
        made().run_llm_with_tools("s", "u", "research")


def test_running_out_of_rounds_is_an_error() -> None:
    class Few(Research):
        def on_enter_research(self, state_input=None):
            return self.run_llm_with_tools("s", "u", "research", max_iterations=2)

    with pytest.raises(RuntimeError, match="still called tools after 2"):
        made([calls(("search", {"query": "x"}))] * 3, cls=Few).execute_state("research")


def test_importing_registers_no_tools() -> None:
    assert [
        tool.name
        for tool in get_global_registry()
        if tool.function.__module__.startswith("llm_fsm")
    ] == []


def test_registering_the_same_function_again_is_no_conflict_and_another_is() -> None:
    def again(result="one", module="notebook"):
        names = {"__name__": module, "register_tool": register_tool, "registry": registry}
        exec(
            f"@register_tool('Find', registry=registry)\ndef find(q: str) -> str:\n    return {result!r}",
            names,
        )

    registry = ToolRegistry()
    again()
    again("two")
    assert registry.execute("find", q="x") == "two"
    with pytest.raises(ValueError, match="there is a tool 'find' already"):
        again(module="elsewhere")


def test_an_own_exception_of_a_body_passes_through_unchanged() -> None:
    own = LookupError("mine")

    class Fails(Research):
        def on_enter_research(self, state_input=None):
            raise own

    workflow = made(cls=Fails)
    with pytest.raises(LookupError) as raised:
        workflow.start(state_input="x")
    assert raised.value is own
    assert workflow.memory.history.entries == []


def test_a_model_that_failed_is_asked_again_without_repeating_what_was_answered() -> None:
    class Twice(Research):
        def on_enter_research(self, state_input=None):
            return [self.llm_client.chat([Message("user", text)]).content for text in "ab"]

    workflow = made(["one", ModelError("down"), "two"], cls=Twice)
    with pytest.raises(ModelError):
        workflow.execute_state("research", "x")
    assert workflow.execute_state("research", "x") == ["one", "two"]
    assert len(workflow._client.requests) == 3


# -- breaks


def paused(tmp_path, workflow):
    with pytest.raises(ExecutionBreak) as raised:
        workflow.execute_state("research", "draft")
    workflow.memory.save_to_file(tmp_path / "state.json")
    return raised.value


class Careful(Research):
    def on_enter_research(self, state_input=None):
        self.ran.append((state_input, self.memory.working_memory.get_non_empty()))
        self.memory.working_memory.append(5, "reviewing")
        try:
            return self.run_llm_with_tools("Review", "Look", "research")
        except ExecutionBreak:
            self.ran.append("broke")
            raise


BATCH = calls(
    ("search", {"query": "x"}),
    ("ask_human", {"question": "ok?"}),
    ("append_memory", {"bucket_index": 5, "content": "by the model"}),
)


def test_a_breaking_tool_ends_the_run_after_its_batch_and_the_memory_alone_goes_on(
    tmp_path,
) -> None:
    error = paused(tmp_path, made([BATCH], cls=Careful))
    assert (error.state, error.tool_name, error.result) == (
        "research",
        "ask_human",
        "[WAITING]: ok?",
    )
    assert error.call["arguments"] == {"question": "ok?"}
    assert not isinstance(error, ModelError)
    assert Careful.ran == [("draft", {}), "broke"]

    memory = PersistentMemory.load_from_file(tmp_path / "state.json")
    assert memory.working_memory.get(5) == "reviewing\nby the model"
    workflow = made(["approved"], cls=Careful, memory=memory)
    assert workflow.execute_state("research", state_input={"approved": True}) == "approved"
    assert Careful.ran == [({"approved": True}, {})]
    told = [
        message.content
        for message in workflow._client.requests[0].messages
        if message.role == "tool"
    ]
    assert told[0] == '"found x"'
    assert '"answer":{"approved":true}' in told[1]
    assert workflow.memory.working_memory.get_non_empty() == {5: "reviewing\nby the model"}
    assert workflow.memory.pause is None


def test_what_is_changed_in_the_memory_while_a_run_waits_is_there_when_it_goes_on(tmp_path) -> None:
    paused(tmp_path, made([BATCH], cls=Careful))
    memory = PersistentMemory.load_from_file(tmp_path / "state.json")
    memory.working_memory.set(1, "Human feedback: fine")
    workflow = made(["approved"], cls=Careful, memory=memory)
    workflow.execute_state("research")
    assert Careful.ran == [("draft", {1: "Human feedback: fine"})]


def test_a_machine_made_of_a_memory_that_waits_stands_where_it_stood(tmp_path) -> None:
    workflow = made([BATCH], cls=Careful)
    workflow.start()
    paused(tmp_path, workflow)
    memory = PersistentMemory.load_from_file(tmp_path / "state.json")
    again = made(["approved"], cls=Careful, memory=memory)
    assert list(again.configuration_values) == ["research"]
    again.execute_state("research", "yes")
    again.write()
    assert list(again.configuration_values) == ["writing"]


def test_a_run_may_break_again_and_in_the_same_process() -> None:
    second = calls(("ask_human", {"question": "sure?"}))
    workflow = made([BATCH, second, "done"], cls=Careful)
    for given, question in (("draft", "ok?"), ("yes", "sure?")):
        with pytest.raises(ExecutionBreak) as raised:
            workflow.execute_state("research", given)
        assert raised.value.call["arguments"] == {"question": question}
    assert workflow.execute_state("research", "really") == "done"


def test_the_break_of_a_machine_inside_says_that_it_cannot_be_resumed() -> None:
    class Outer(LLMStateMachine):
        work = State(initial=True)
        rest = State(final=True)
        stop = work.to(rest)

        def on_enter_work(self, state_input=None):
            return made([BATCH], cls=Careful).execute_state("research")

    workflow = Outer(None, enable_summarization=False)
    with pytest.raises(ExecutionBreak, match="cannot be resumed from outside") as raised:
        workflow.execute_state("work")
    assert (raised.value.state, raised.value.resumable) == ("work", False)
    assert workflow.memory.pause is None


def test_a_machine_inside_a_body_of_its_own() -> None:
    class Outer(Research):
        def on_enter_writing(self, state_input=None):
            self.memory.working_memory.set(0, "outer")
            return f"wrote {self.execute_state('research', state_input)}"

    workflow = made(["found"], cls=Outer)
    assert workflow.execute_state("writing", "AI") == "wrote found"
    assert [entry["state"] for entry in workflow.memory.history.entries] == ["research", "writing"]
    assert workflow.memory.working_memory.get(0) == "outer"


# -- refinement


class Refines(Research):
    retries: int | None = 3
    throws = False

    def on_enter_research(self, state_input=None):
        def attempt(refinement_advice=None):
            self.ran.append(refinement_advice)
            return self.llm_client.chat([Message("user", f"Do it. {refinement_advice or ''}")])

        return self.run_with_refinement(
            "research", "Be kind", attempt, self.retries, throw_on_failure=self.throws
        )


@pytest.mark.parametrize(
    "good", [{"valid": True}, "VALID: yes\nADVICE:", {"passed": True, "reason": "fine"}]
)
def test_an_attempt_that_is_judged_valid_is_returned(good) -> None:
    workflow = made(["bad", {"valid": False, "advice": "kinder"}, "good", good], cls=Refines)
    assert workflow.execute_state("research").content == "good"
    assert Refines.ran == [None, "kinder"]


@pytest.mark.parametrize(
    "said", [{"valid": "no"}, {"valid": "true"}, "false", "VALID: no", {"valid": 1}, {}]
)
def test_what_is_not_plainly_valid_is_not(said) -> None:
    class Once(Refines):
        retries = 0
        throws = True

    workflow = made(["bad", said], cls=Once)
    with pytest.raises(RefinementFailed) as raised:
        workflow.execute_state("research")
    assert (raised.value.attempts, raised.value.best.content) == (1, "bad")


def test_the_best_attempt_is_returned_where_none_is_valid() -> None:
    class Some(Refines):
        retries = None

    replies = [
        "a",
        {"valid": False, "score": 3},
        "b",
        {"valid": False, "score": 8},
        "c",
        {"valid": False, "score": 1},
    ]
    workflow = made(replies, cls=Some, max_refinement_retries=2)
    assert workflow.execute_state("research").content == "b"


def test_failure_is_raised_with_attempts_and_advice() -> None:
    class Strict(Refines):
        retries = 1
        throws = True

    replies = ["a", {"valid": False, "advice": "no"}, "b", {"valid": False, "advice": "still no"}]
    with pytest.raises(RefinementFailed, match="2 attempts: still no") as raised:
        made(replies, cls=Strict).execute_state("research")
    assert (raised.value.attempts, raised.value.advice) == (2, "still no")


def test_validation_of_your_own() -> None:
    class Own(Refines):
        def validate_output(self, objective, output, validation_llm=None):
            assert objective == "Be kind"
            return ("kind" in output.content), "Needs improvement in kindness"

    workflow = made(["rude", "kind"], cls=Own)
    assert workflow.execute_state("research").content == "kind"
    assert Own.ran == [None, "Needs improvement in kindness"]


# -- summaries


def test_leaving_a_state_makes_a_summary_and_the_to_do_list() -> None:
    workflow = made(
        ["found", {"summary": "searched", "todo_list": ["write", "check"]}],
        enable_summarization=True,
    )
    workflow.execute_state("research", "AI")
    assert workflow.memory.background.todo_list == "write\ncheck"
    assert workflow.memory.history.entries[0]["custom_fields"] == {"summary": "searched"}


def test_a_summary_without_a_list_leaves_the_list_alone() -> None:
    memory = PersistentMemory()
    memory.background.todo_list = "- keep me"
    workflow = made(["found", {"summary": "searched"}], enable_summarization=True, memory=memory)
    workflow.execute_state("research", "AI")
    assert workflow.memory.background.todo_list == "- keep me"


def test_a_raw_run_makes_no_summary() -> None:
    workflow = made(["found"], enable_summarization=True)
    workflow.execute_state("research", "AI", raw_transition=True)
    assert workflow._client.remaining == 0
    assert workflow.memory.history.entries[0]["custom_fields"] == {}


def test_a_prompt_of_your_own_is_words_and_no_format_string(tmp_path) -> None:
    prompt = tmp_path / "my_prompt.txt"
    prompt.write_text("Sum up {history} and {0} in %s words.", encoding="utf-8")
    other = ScriptedLLM([{"summary": "by the other", "todo_list": ["x"]}])
    workflow = made(["found"], enable_summarization=True)
    workflow.set_custom_summarizer(
        create_custom_summarizer(llm_client=other, prompt_file=str(prompt))
    )
    workflow.execute_state("research", "AI")
    assert other.requests[0].messages[0].content == "Sum up {history} and {0} in %s words."
    assert workflow.memory.background.todo_list == "x"


# -- in an event loop


class Awaits(AsyncLLMStateMachine):
    idle = State(initial=True)
    work = State()
    done = State(final=True)
    start = idle.to(work)
    finish = work.to(done)

    async def on_enter_work(self, state_input=None):
        async def attempt(refinement_advice=None):
            return await self.run_llm_with_tools("s", str(state_input), "work")

        return await self.run_with_refinement("work", "Be kind", attempt)


@pytest.mark.anyio
async def test_the_async_machine_awaits_events_states_and_refinement() -> None:
    workflow = made([calls(("look", {"at": "sea"})), "wet", {"valid": True}], cls=Awaits)
    await workflow.start()
    assert list(workflow.configuration_values) == ["work"]
    assert await workflow.execute_state("work", "How?") == "wet"
    other = made(["wet", {"valid": True}], cls=Awaits)
    assert await other.start(state_input="How?") == "wet"
    with pytest.raises(TransitionNotAllowed):
        await other.start()


@pytest.mark.anyio
async def test_an_async_run_breaks_and_goes_on() -> None:
    workflow = made(
        [calls(("ask_human", {"question": "ok?"})), "done", {"valid": True}], cls=Awaits
    )
    with pytest.raises(ExecutionBreak):
        await workflow.execute_state("work")
    assert await workflow.execute_state("work", "yes") == "done"


def test_waiting_for_a_state_inside_an_async_body_is_refused_in_words() -> None:
    class Locks(Research):
        async def on_enter_writing(self, state_input=None):
            return self.execute_state("research", "x")

    with pytest.raises(RuntimeError, match="use AsyncLLMStateMachine and await execute_state"):
        made(cls=Locks).execute_state("writing")


def test_an_async_body_of_a_sync_machine_awaits_the_model() -> None:
    class Mixed(Research):
        async def on_enter_writing(self, state_input=None):
            assert threading.current_thread() is not threading.main_thread()
            said = await self.llm_client.chat([Message("user", "x")])
            return [said.content, await self.run_llm_with_tools("s", "u", "writing")]

    assert made(["one", "two"], cls=Mixed).execute_state("writing") == ["one", "two"]


def test_a_saved_pause_is_plain_json(tmp_path) -> None:
    paused(tmp_path, made([BATCH], cls=Careful))
    saved = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert set(saved["pause"]) == {"state", "id", "run", "seen", "configuration"}


# -- as users of the originals know it


def test_a_summary_may_come_as_labelled_text() -> None:
    workflow = made(
        ["found", "SUMMARY: searched\nTODO: 1. Review\n2. Report"], enable_summarization=True
    )
    workflow.execute_state("research", "AI")
    assert workflow.memory.background.todo_list == "1. Review\n2. Report"
    assert workflow.memory.background.custom_fields["last_summary"] == "searched"


def test_a_summary_that_fails_does_not_cost_the_output() -> None:
    workflow = made(["found", ModelError("down")], enable_summarization=True)
    assert workflow.execute_state("research", "AI") == "found"
    assert Research.ran == ["AI"]
    assert [entry["output"] for entry in workflow.memory.history.entries] == ["found"]


def test_a_judgement_is_a_pair() -> None:
    mock = Mock()
    mock.chat.return_value = LLMResponse(content="VALID: no\nADVICE: Needs more detail")
    valid, advice = made(mock).validate_output(objective="x", output="y")
    assert (valid, advice) == (False, "Needs more detail")
    mock.chat.return_value = LLMResponse(content="VALID: yes\nADVICE:")
    assert tuple(made(mock).validate_output("x", "y")) == (True, None)


def test_refinement_outside_of_a_body_asks_the_client_itself() -> None:
    mock = Mock()
    replies = ["one", "VALID: no\nADVICE: more", "two", "VALID: yes"]
    mock.chat.side_effect = [LLMResponse(content=reply) for reply in replies]
    workflow = made(mock)

    def attempt(refinement_advice=None):
        return workflow.llm_client.chat([Message("user", "x")]).content

    assert workflow.run_with_refinement("x", "y", attempt, max_retries=3, state_input="z") == "two"


def test_the_library_still_has_its_older_name_for_the_current_state() -> None:
    workflow = made()
    workflow.start()
    with pytest.warns(DeprecationWarning, match="configuration"):
        assert workflow.current_state.id == "research"
