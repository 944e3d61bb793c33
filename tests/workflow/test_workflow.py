from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import ModelError
from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM, calls
from llm_fsm.workflow import (
    BoundLLM,
    ExecutionBreak,
    KeyResult,
    LLMResponse,
    LLMValidator,
    MaxRetriesExceeded,
    Message,
    RuleValidator,
    StateSpec,
    ToolSpec,
    ValidationResult,
    WaitForInput,
    Workflow,
    WorkflowContext,
    WorkflowError,
)

NONE = ScriptedLLM([])


def chain(*names, llm=NONE, **options):
    states = [
        StateSpec(name, execute=lambda ctx: [*(ctx.input or []), len(ctx.history)])
        for name in names
    ]
    return Workflow(
        "Count", states, dict(zip(names, [*names[1:], None], strict=True)), llm, **options
    )


def one(execute, *results, llm=NONE, tools=(), **options):
    spec = StateSpec(
        "work", "Do it", list(results), execute, list(tools), options.pop("max_retries", 3)
    )
    return Workflow("One", [spec], {"work": None}, llm, **options)


def test_the_output_of_a_state_is_the_input_of_the_next() -> None:
    workflow = chain("a", "b", "c")
    assert (workflow.current_state, workflow.is_finished) == ("a", False)
    result = workflow.run(["x"])
    assert [(one.state_name, one.output) for one in result.history] == [
        ("a", ["x", 0]),
        ("b", ["x", 0, 1]),
        ("c", ["x", 0, 1, 2]),
    ]
    assert workflow.is_finished
    assert workflow.context is result
    with pytest.raises(WorkflowError, match="already finished"):
        workflow.step()


def test_a_step_stops_at_the_next_state_and_may_be_given_another_input() -> None:
    workflow = chain("a", "b", "c")
    assert workflow.step(["x"]) == ["x", 0]
    assert (workflow.current_state, workflow.is_finished) == ("b", False)
    assert workflow.step(["y"]) == ["y", 1]
    assert workflow.step() == ["y", 1, 2]
    assert workflow.is_finished


def test_names_of_states_are_any_text_and_come_back_as_they_are() -> None:
    names = ("state 1!", "state 1?", "été", "")
    workflow = chain(*names)
    result = workflow.run()
    assert [one.state_name for one in result.history] == list(names)
    assert workflow.current_state == ""


def test_a_state_that_fails_is_tried_again_and_told_why() -> None:
    told = []

    def execute(ctx):
        told.append((ctx.retry_count, ctx.feedback))
        ctx.shared.set(f"attempt {ctx.retry_count}", True)
        return "x" * (ctx.retry_count + 1)

    long = KeyResult("long", "At least 3", check=lambda output: len(output) >= 3)
    result = one(execute, long).run()
    assert told == [(0, None), (1, "long: At least 3"), (2, "long: At least 3")]
    assert result.history[-1].key_results_met == {"long": True}
    assert result.shared.to_dict() == {"attempt 2": True}


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (2, 3)])
def test_a_state_that_never_passes_raises_with_what_failed(retries, attempts) -> None:
    tried = []
    never = KeyResult("no", "Never", check=lambda output: False)
    workflow = one(lambda ctx: tried.append(1), never, max_retries=retries)
    with pytest.raises(MaxRetriesExceeded, match="no: Never") as raised:
        workflow.run()
    assert len(tried) == attempts
    error = raised.value
    assert (error.state_name, error.max_retries, error.feedback) == ("work", retries, "no: Never")
    assert isinstance(error, WorkflowError)
    assert workflow.context.history == []


def test_a_workflow_that_was_exhausted_can_be_tried_again() -> None:
    answers = iter([False, True])
    workflow = one(
        lambda ctx: "x", KeyResult("luck", "", check=lambda output: next(answers)), max_retries=0
    )
    with pytest.raises(MaxRetriesExceeded):
        workflow.step("in")
    assert workflow.step("in") == "x"


def test_an_own_exception_passes_through_unchanged_and_is_no_attempt() -> None:
    class Own(Exception):
        pass

    own, tried = Own("mine"), []

    def execute(ctx):
        tried.append(1)
        raise own

    with pytest.raises(Own) as raised:
        one(execute, KeyResult("k", "", check=lambda output: True)).run()
    assert raised.value is own
    assert len(tried) == 1


def test_a_model_that_fails_is_no_attempt_and_the_run_goes_on_later() -> None:
    model = ScriptedLLM(["one", ModelError("down"), "two"])

    def execute(ctx):
        return [ctx.llm.chat([Message("user", text)]).content for text in "ab"]

    workflow = one(execute, llm=model)
    with pytest.raises(ModelError, match="down"):
        workflow.run()
    assert workflow.run().history[-1].output == ["one", "two"]
    assert len(model.requests) == 3


def test_a_check_that_raises_has_failed_and_says_so() -> None:
    with pytest.raises(MaxRetriesExceeded, match="the check raised KeyError"):
        one(
            lambda ctx: {}, KeyResult("k", "", check=lambda output: output["x"]), max_retries=0
        ).run()


def test_an_output_that_is_no_json_is_refused_in_words() -> None:
    with pytest.raises(WorkflowError, match="state 'work': the output cannot be kept"):
        one(lambda ctx: object()).run()


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ({"k": True}, True),
        ({"k": "no"}, False),
        ({"k": "true"}, False),
        ("false", False),
        ({"k": False}, False),
    ],
)
def test_a_model_judges_what_has_no_check_and_only_a_plain_true_passes(said, passes) -> None:
    judge = ScriptedLLM([said, said])
    workflow = one(
        lambda ctx: "text", KeyResult("k", "It is kind"), validator_llm=judge, max_retries=0
    )
    if passes:
        assert workflow.run().history[-1].key_results_met == {"k": True}
    else:
        with pytest.raises(MaxRetriesExceeded):
            workflow.run()
    assert "It is kind" in judge.requests[0].messages[-1].content
    assert NONE.requests == []


@pytest.mark.parametrize("validator", [None, RuleValidator()])
def test_a_key_result_that_nobody_judges_has_not_passed(validator) -> None:
    with pytest.raises(MaxRetriesExceeded, match="k: no model judges it"):
        one(
            lambda ctx: "text", KeyResult("k", "It is kind"), validator=validator, max_retries=0
        ).run()


def test_an_llm_validator_judges_in_a_workflow_and_alone() -> None:
    assert one(
        lambda ctx: "t", KeyResult("k"), validator=LLMValidator(ScriptedLLM([{"k": True}]))
    ).run()

    class Client:
        def __init__(self, said):
            self.said = said

        def chat(self, messages, **options):
            return LLMResponse(self.said)

    spec = StateSpec(
        "s", "Do", [KeyResult("a", "A"), KeyResult("b", "B", check=lambda output: True)]
    )
    for said, passed in (
        ('```json\n{"a": true}\n```', True),
        ('{"a": "true"}', False),
        ("yes", False),
    ):
        found = LLMValidator(Client(said)).validate(spec, object(), None)
        assert (found.passed, found.key_results) == (passed, {"a": passed, "b": True})


def test_a_validator_of_your_own_sees_state_output_and_context() -> None:
    class Own:
        def validate(self, state, output, context):
            right = context.input == "in" and state.name == "work" and output == 2
            return ValidationResult(right, None if right else "one more", {"k": right})

    workflow = one(lambda ctx: ctx.retry_count + 1, KeyResult("k", "x"), validator=Own())
    workflow.run("in")
    assert workflow.context.history[-1].key_results_met == {"k": True}
    with pytest.raises(MaxRetriesExceeded) as raised:
        one(lambda ctx: 0, KeyResult("k", "x"), validator=Own(), max_retries=1).run("in")
    assert raised.value.feedback == "one more"


def test_further_settings_of_a_call_reach_a_model_of_the_engine() -> None:
    class Recorder:
        """A model whose `complete` returns the coroutine of another one, as that of a server does."""

        def __init__(self):
            self.asked = []

        def complete(self, request):
            self.asked.append(request)
            return ScriptedLLM(["grey"]).complete(request)

    def look(ctx):
        return ctx.llm.chat([Message("user", "The sky?")], top_p=0.5, seed=7).content

    model = Recorder()
    assert one(look, llm=model).run().history[0].output == "grey"
    assert [request.options for request in model.asked] == [{"top_p": 0.5, "seed": 7}]


# -- ways


def branching(transition, output, *further):
    states = [
        StateSpec("a", execute=lambda ctx: output),
        StateSpec("b"),
        StateSpec("c", is_final=True),
        *further,
    ]
    return Workflow("Ways", states, {"a": transition, "b": None}, NONE)


@pytest.mark.parametrize(
    ("transition", "output", "way"),
    [
        ("b", 1, ["a", "b"]),
        (None, 1, ["a"]),
        ({"x": "b", "y": "c"}, "y", ["a", "c"]),
        ({"x": "b", "y": "c"}, {"_transition": "x", "more": 1}, ["a", "b"]),
        ({"x": "b", "default": "c"}, "z", ["a", "c"]),
        ({"x": None}, "x", ["a"]),
        (lambda output: "c" if output > 1 else None, 2, ["a", "c"]),
        (lambda output: "c" if output > 1 else None, 1, ["a"]),
    ],
)
def test_a_transition_is_a_name_nothing_labels_or_a_function(transition, output, way) -> None:
    assert [one.state_name for one in branching(transition, output).run().history] == way


def test_an_output_that_no_label_fits_is_an_error() -> None:
    with pytest.raises(
        WorkflowError, match="no matching transition for the output 'z'; the labels are x"
    ):
        branching({"x": "b"}, "z").run()


def test_a_transition_to_nowhere_is_an_error() -> None:
    for transition, words in (
        ("bb", "'a' leads to 'bb'; did you mean 'b'"),
        (lambda output: "zz", "picked 'zz'"),
        (7, "a name, None, a dict"),
    ):
        with pytest.raises(WorkflowError, match=words):
            branching(transition, 1).run()
    with pytest.raises(WorkflowError, match="transitions name the state 'q'"):
        Workflow("Ways", [StateSpec("a")], {"q": "a"}, NONE).run()


def test_an_exception_of_a_transition_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        branching(lambda output: 1 / 0, 1).run()


def test_a_workflow_may_come_back_with_nothing_changed_and_is_capped() -> None:
    asked = []

    def execute(ctx):
        asked.append(1)
        return "again" if len(asked) < 6 else "done"

    states = [
        StateSpec("a", execute=execute),
        StateSpec("b", execute=lambda ctx: None, is_final=True),
    ]
    assert (
        len(Workflow("Loop", states, {"a": {"again": "a", "done": "b"}}, NONE).run().history) == 7
    )
    asked.clear()
    with pytest.raises(WorkflowError, match="went through 3 states"):
        Workflow("Loop", states, {"a": {"again": "a", "done": "b"}}, NONE, max_steps=3).run()


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "at least one"),
        ([StateSpec("a"), StateSpec("a")], "two states are called 'a'"),
        (
            [StateSpec("a", is_initial=True), StateSpec("b", is_initial=True)],
            "one state is initial",
        ),
    ],
)
def test_states_that_are_no_workflow_are_refused(states, words) -> None:
    with pytest.raises(WorkflowError, match=words):
        Workflow("No", states, {}, NONE)


def test_the_initial_state_need_not_be_the_first() -> None:
    states = [StateSpec("a"), StateSpec("b", is_initial=True)]
    assert Workflow("No", states, {"b": None}, NONE).run("x").history[0].state_name == "b"


# -- models and tools


def search(query: str) -> str:
    """Search."""
    if query == "bad":
        raise ValueError("no such thing")
    return f"found {query}"


def test_run_with_tools_calls_the_tools_of_the_state_and_tells_the_model_their_errors() -> None:
    model = ScriptedLLM(
        [calls(("search", {"query": "good"}), ("search", {"query": "bad"})), "done"]
    )
    workflow = one(
        lambda ctx: ctx.llm.run_with_tools("system", ctx.input), llm=model, tools=[search]
    )
    assert workflow.run("user").history[-1].output == "done"
    told = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert '"found good"' in told[0]
    assert "ValueError: no such thing" in told[1]
    assert [message.content for message in model.requests[0].messages] == ["system", "user"]


def test_the_tools_of_another_state_cannot_be_called() -> None:
    model = ScriptedLLM(["first", calls(("search", {"query": "x"})), "done"])
    states = [
        StateSpec("a", execute=lambda ctx: ctx.llm.run_with_tools("s", "u"), tools=[search]),
        StateSpec("b", execute=lambda ctx: ctx.llm.run_with_tools("s", "u"), is_final=True),
    ]
    Workflow("Scope", states, {"a": "b"}, model).run()
    assert [tool.name for tool in model.requests[0].tools] == ["search"]
    assert model.requests[1].tools == ()
    assert "cannot be called in this state" in model.requests[2].messages[-1].content


def test_running_out_of_rounds_is_an_error_and_no_empty_answer() -> None:
    model = ScriptedLLM([calls(("search", {"query": "x"}))], loop=True)
    with pytest.raises(RuntimeError, match="still called tools after 2"):
        one(
            lambda ctx: ctx.llm.run_with_tools("s", "u", max_iterations=2),
            llm=model,
            tools=[search],
        ).run()


def test_chat_gives_a_response_with_the_calls_for_you_to_make() -> None:
    model = ScriptedLLM([calls(("search", {"query": "x"}), text="let me see")])

    def execute(ctx):
        response = ctx.llm.chat([Message(role="user", content="hi")], temperature=0.1, max_tokens=9)
        [call] = response.tool_calls
        return [response.content, call.name, call.arguments]

    output = one(execute, llm=model, tools=[search]).run().history[-1].output
    assert output == ["let me see", "search", {"query": "x"}]
    [request] = model.requests
    assert (request.temperature, request.max_tokens, [tool.name for tool in request.tools]) == (
        0.1,
        9,
        ["search"],
    )


def test_a_response_as_output_is_its_text() -> None:
    run = one(lambda ctx: ctx.llm.chat([Message("user", "x")]), llm=ScriptedLLM(["hi"])).run()
    assert run.history[-1].output == "hi"


def test_what_models_and_tools_did_is_on_record() -> None:
    model = ScriptedLLM([calls(("search", {"query": "x"})), "done"])
    workflow = one(lambda ctx: ctx.llm.run_with_tools("s", "u"), llm=model, tools=[search])
    workflow.run()
    events = [event for turn in workflow.turns() for event in turn.events]
    assert sum(isinstance(event, ev.ModelReplied) for event in events) == 2
    assert [event.name for event in events if isinstance(event, ev.ToolReturned)] == ["search"]


def test_a_tool_with_a_schema_of_its_own() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    spec = ToolSpec("find", "Find it", schema, lambda q: q.upper())
    model = ScriptedLLM([calls(("find", {"q": "x"})), "done"])
    one(lambda ctx: ctx.llm.run_with_tools("s", "u"), llm=model, tools=[spec]).run()
    assert model.requests[1].messages[-1].content == '"X"'
    made = ToolSpec.from_callable(search)
    assert made.to_openai_schema()["function"]["parameters"]["required"] == ["query"]
    assert made.execute({"query": "y"}) == "found y"


def test_two_tools_of_one_name_are_an_error() -> None:
    other = ToolSpec("search", "", {"type": "object"}, print)
    states = [StateSpec("a", tools=[search]), StateSpec("b", tools=[other])]
    with pytest.raises(WorkflowError, match="state 'b': there is a tool 'search' already"):
        Workflow("Tools", states, {"a": "b"}, NONE).run()


# -- breaks and persistence

WAYS = {"before": "ask", "ask": "after"}


def breaking(seen, **options):
    def ask_human(question: str) -> str:
        """Ask."""
        seen.append(question)
        return "asked"

    def execute(ctx):
        ctx.shared.set("noted", ctx.shared.get("noted", 0) + 1)
        return ctx.llm.run_with_tools("s", "u")

    spec = ToolSpec.from_callable(ask_human, **options)
    return [
        StateSpec("before", execute=lambda ctx: "b"),
        StateSpec("ask", execute=execute, tools=[spec, search]),
        StateSpec("after", execute=lambda ctx: ctx.input, is_final=True),
    ]


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"is_breaking": True}, ExecutionBreak), ({"is_waiting": True}, WaitForInput)],
)
def test_a_breaking_tool_ends_the_run_after_its_batch_and_the_context_alone_goes_on(
    options, kind
) -> None:
    seen: list[str] = []
    both = calls(("ask_human", {"question": "ok?"}), ("search", {"query": "x"}))
    workflow = Workflow("Ask", breaking(seen, **options), WAYS, ScriptedLLM([both]))
    with pytest.raises(kind) as raised:
        workflow.run()
    error = raised.value
    assert (error.state, error.tool_name, error.result) == ("ask", "ask_human", "asked")
    assert error.call["arguments"] == {"question": "ok?"}
    saved = json.loads(json.dumps(workflow.context.to_dict()))
    assert (saved["current_state"], saved["shared"]) == ("ask", {})

    second = ScriptedLLM(["done"])
    context = WorkflowContext.from_dict(saved)
    again = Workflow("Ask", breaking(seen, **options), WAYS, second, context=context)
    result = again.run({"approved": True})
    assert [one.state_name for one in result.history] == ["before", "ask", "after"]
    assert result.history[-1].output == "done"
    assert seen == ["ok?"]
    assert '"approved":true' in second.requests[0].messages[-2].content
    assert result.shared.to_dict() == {"noted": 1}


def test_a_workflow_resumes_from_its_context_in_the_state_where_it_was() -> None:
    workflow = chain("a", "b", "c")
    workflow.step(["x"])
    saved = json.loads(json.dumps(workflow.context.to_dict()))
    again = chain("a", "b", "c", context=WorkflowContext.from_dict(saved))
    assert again.current_state == "b"
    assert again.run().history[-1].output == ["x", 0, 1, 2]
    with pytest.raises(ValueError, match="no saved context"):
        WorkflowContext.from_dict({"history": [{}]})


def test_a_run_in_a_store_goes_on_by_its_id_after_its_process_died(tmp_path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    chain("a", "b", "c", store=store, run_id="r").step(["x"])
    again = chain("a", "b", "c", store=store, run_id="r")
    again.step()
    assert [one.state_name for one in again.context.history] == ["a", "b"]
    assert chain("a", "b", "c", store=store, run_id="r").run().history[-1].output == ["x", 0, 1, 2]


def test_a_workflow_inside_a_state() -> None:
    def outer(ctx):
        return chain("a", "b", llm=ctx.llm.adapter).run(ctx.input).history[-1].output

    assert one(outer).run(["x"]).history[-1].output == ["x", 0, 1]


def test_the_break_of_a_workflow_inside_says_that_it_cannot_be_resumed() -> None:
    def outer(ctx):
        model = ScriptedLLM([calls(("ask_human", {"question": "ok?"}))])
        return Workflow("Ask", breaking([], is_breaking=True), WAYS, model).run().history[-1].output

    with pytest.raises(ExecutionBreak, match="cannot be resumed from outside") as raised:
        one(outer).run()
    assert (raised.value.state, raised.value.resumable, raised.value.tool_name) == (
        "work",
        False,
        "ask_human",
    )


# -- in an event loop


@pytest.mark.anyio
async def test_async_functions_run_in_the_callers_loop_and_await_the_model() -> None:
    loop = asyncio.get_running_loop()

    async def execute(ctx):
        assert asyncio.get_running_loop() is loop
        both = await asyncio.gather(*(ctx.llm.run_with_tools("s", text) for text in "ab"))
        return [*both, (await ctx.llm.chat([Message("user", "c")])).content]

    workflow = one(
        execute, llm=ScriptedLLM([lambda request: request.messages[-1].content.upper()], loop=True)
    )
    assert (await workflow.arun()).history[-1].output == ["A", "B", "C"]


@pytest.mark.anyio
async def test_astep_breaks_and_goes_on_as_step_does() -> None:
    seen: list[str] = []
    model = ScriptedLLM([calls(("ask_human", {"question": "ok?"})), "done"])
    workflow = Workflow("Ask", breaking(seen, is_breaking=True), WAYS, model)
    assert await workflow.astep() == "b"
    with pytest.raises(ExecutionBreak):
        await workflow.astep()
    assert await workflow.astep("yes") == "done"
    assert await workflow.astep() == "done"
    assert workflow.is_finished


# -- as users of the originals know it


class Canned:
    def chat(self, messages, *, tools=None, temperature=0.7, max_tokens=None):
        return LLMResponse(content="Final answer", finish_reason="stop")

    def format_tools(self, tools):
        return [tool.to_openai_schema() for tool in tools]


def test_a_bound_model_outside_of_a_workflow_asks_and_calls_tools() -> None:
    assert BoundLLM(Canned(), []).run_with_tools("system", "user") == "Final answer"
    model = ScriptedLLM([calls(("search", {"query": "x"})), "done"])
    assert BoundLLM(model, [search]).run_with_tools("system", "user") == "done"
    assert BoundLLM(Canned(), [search]).chat([Message("user", "x")]).content == "Final answer"
    breaks = ToolSpec.from_callable(search, is_breaking=True)
    with pytest.raises(ExecutionBreak, match="'search'"):
        BoundLLM(ScriptedLLM([calls(("search", {"query": "x"}))]), [breaks]).run_with_tools(
            "s", "u"
        )


def test_a_label_that_is_never_picked_may_lead_nowhere() -> None:
    assert [
        one.state_name for one in branching({"no": "nowhere", "yes": "b"}, "yes").run().history
    ] == ["a", "b"]
    with pytest.raises(WorkflowError, match="picked 'nowhere'"):
        branching({"no": "nowhere", "yes": "b"}, "no").run()
    with pytest.raises(
        WorkflowError, match="no matching transition for the output 42; the labels are no"
    ):
        branching({"no": "nowhere"}, 42).run()


def test_a_rule_validator_alone_leaves_what_has_no_check_to_others() -> None:
    spec = StateSpec(
        "s", "x", [KeyResult("a", "A"), KeyResult("b", "B", check=lambda output: 1 / output)]
    )
    assert RuleValidator().validate(spec, 1, None) == ValidationResult(True, None, {"b": True})
    failed = RuleValidator().validate(spec, 0, None)
    assert (failed.passed, failed.key_results) == (False, {"b": False})
    assert "division by zero" in failed.feedback


def greeting(**options: Any) -> Workflow:
    state = StateSpec("greet", execute=lambda ctx: f"Hello {ctx.input}")
    return Workflow("greet", [state], {"greet": None}, None, **options)


NAMES = ("Ada", "Ben", "Cyd")


def test_an_input_for_a_finished_workflow_begins_a_new_run() -> None:
    workflow = greeting()
    done = [workflow.run(name) for name in NAMES]
    assert [one.history[-1].output for one in done] == [f"Hello {name}" for name in NAMES]
    assert workflow.run() is done[-1]
    assert len({one.run_id for one in done}) == 3


@pytest.mark.anyio
async def test_an_input_for_a_finished_workflow_begins_a_new_run_in_a_loop() -> None:
    workflow = greeting()
    done = await asyncio.gather(*(workflow.arun(name) for name in NAMES))
    assert [one.history[-1].output for one in done] == [f"Hello {name}" for name in NAMES]


def test_runs_in_several_threads_each_give_their_own_result() -> None:
    workflow = greeting()
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(workflow.run, NAMES))
    assert [one.history[-1].output for one in done] == [f"Hello {name}" for name in NAMES]


def test_a_restored_context_that_has_finished_begins_anew_with_an_input() -> None:
    kept = greeting().run("Ada").to_dict()
    workflow = greeting(context=WorkflowContext.from_dict(kept))
    assert workflow.run().history[-1].output == "Hello Ada"
    assert workflow.run("Ben").history[-1].output == "Hello Ben"


def test_a_run_with_an_id_that_has_finished_takes_no_other_input(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with greeting(store=store, run_id="r") as workflow:
        assert workflow.run("Ada").history[-1].output == "Hello Ada"
        with pytest.raises(WorkflowError, match="'r' has finished, so nothing reads this input"):
            workflow.run("Ben")
    with (
        greeting(store=store, run_id="r") as workflow,
        pytest.raises(WorkflowError, match="has finished"),
    ):
        workflow.run("Ben")
    with greeting(store=store, run_id="r") as workflow:
        assert workflow.run().history[-1].output == "Hello Ada"


def test_a_state_that_runs_its_own_workflow_is_told_so() -> None:
    workflow = Workflow(
        "own", [StateSpec("a", execute=lambda ctx: workflow.run(1).history)], {"a": None}, None
    )
    with pytest.raises(WorkflowError, match="would wait for itself"):
        workflow.run(0)
