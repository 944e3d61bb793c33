"""Runs that begin anywhere, stop at each border, and are led by functions of the host."""

from __future__ import annotations

import pytest

from llm_fsm import AsyncMachine, ConfigurationError, Machine
from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM, calls

CHAIN = {
    "name": "chain",
    "initial_state": "a",
    "states": {
        "a": {"kind": "task", "execute": "add", "transitions": [{"target_state": "b"}]},
        "b": {"kind": "task", "execute": "add", "transitions": [{"target_state": "c"}]},
        "c": {"kind": "task", "execute": "add"},
    },
}
ROUTED = {
    "name": "routed",
    "initial_state": "work",
    "states": {
        "work": {
            "kind": "task",
            "execute": "add",
            "route": "where",
            "transitions": [
                {"target_state": "work", "on": "again"},
                {"target_state": "end"},
                {"target_state": "lost", "on": "default"},
            ],
        },
        "end": {"kind": "final"},
        "lost": {"kind": "final"},
    },
}


def add(ctx):
    ctx.shared.set("seen", [*ctx.shared.get("seen", []), ctx.state])
    ctx.memory.append(0, ctx.state)
    return ctx.input + 1


def chain(**options) -> Machine:
    machine = Machine.from_dict(CHAIN, model=ScriptedLLM([]), **options)
    machine.function(add)
    return machine


def test_a_step_stops_at_the_border_of_the_next_state_and_keeps_the_run() -> None:
    machine = chain()
    first = machine.step(1)
    assert (first.state, first.output, first.outcome, first.ended) == ("b", 2, "", False)
    second = machine.step(conversation_id=first.conversation_id)
    assert (second.state, second.output, second.ended) == ("c", 3, False)
    last = machine.step(conversation_id=first.conversation_id)
    assert (last.state, last.output, last.outcome, last.ended) == ("c", 4, "passed", True)
    assert machine.outputs(first.conversation_id) == (("a", 2), ("b", 3), ("c", 4))


def test_a_later_step_may_be_given_another_input() -> None:
    machine = chain()
    turn = machine.step(1)
    assert machine.step(10, conversation_id=turn.conversation_id).output == 11


def test_a_run_goes_on_in_another_process_from_the_border_of_a_step(tmp_path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with chain(store=store) as machine:
        machine.step(1, conversation_id="r")
    with chain(store=store) as machine:
        turn = machine.run(conversation_id="r")
        assert (turn.output, turn.outcome) == (4, "passed")
        assert machine.export("r").startswith("{")


def test_a_run_begins_in_a_state_with_input_shared_values_and_memory() -> None:
    machine = chain()
    turn = machine.run(5, state="b", shared={"seen": ["x"]}, memory={"0": "y", "3": "z"})
    assert turn.output == 7
    values = [event.values for event in turn.events if isinstance(event, ev.SharedSet)]
    assert values[-1] == {"seen": ["x", "b", "c"]}
    memory = machine.resume(turn.conversation_id).memory
    assert memory == {"0": "y\nb\nc", "3": "z"}
    for options in ({"state": "nowhere"}, {"memory": {"12": "x"}}, {"shared": {"x": object()}}):
        with pytest.raises(ValueError, match=r"nowhere|0 to 9|JSON"):
            machine.run(1, **options)


@pytest.mark.anyio
async def test_the_async_machine_has_the_same_words() -> None:
    machine = AsyncMachine.from_dict(CHAIN, model=ScriptedLLM([]))
    machine.function(add)
    turn = await machine.step(1, state="b")
    copy = await machine.take_in(await machine.export(turn.conversation_id), "copy")
    assert (await machine.run(conversation_id=copy)).output == 3
    assert await machine.outputs(turn.conversation_id) == (("b", 2),)
    assert await machine.outputs("nobody") == ()


def test_a_step_takes_an_answer_no_further_than_to_the_next_border() -> None:
    machine = chain()

    @machine.function(name="ask")
    def ask(ctx):
        return ctx.ask("how many?")

    document = {
        **CHAIN,
        "states": {**CHAIN["states"], "a": {**CHAIN["states"]["a"], "execute": "ask"}},
    }
    other = Machine.from_dict(document, model=ScriptedLLM([]), functions=[add])
    other.function(ask)
    turn = other.step(1)
    assert turn.paused is not None
    assert (other.answer(turn.conversation_id, 7, step=True).state) == "b"
    assert other.run(conversation_id=turn.conversation_id).output == 9


def routed(where, **options) -> Machine:
    machine = Machine.from_dict(ROUTED, model=ScriptedLLM([]), **options)
    machine.function(add)
    machine.function(where, name="where")
    return machine


@pytest.mark.parametrize(
    ("label", "state", "outcome"),
    [("end", "end", "passed"), (None, "work", "passed"), ("elsewhere", "lost", "passed")],
)
def test_a_route_gives_a_label_a_state_or_the_end(label, state, outcome) -> None:
    turn = routed(lambda output: label).run(1)
    assert (turn.state, turn.outcome) == (state, outcome)
    [picked] = [event for event in turn.events if isinstance(event, ev.RoutePicked)]
    assert (picked.state, picked.function, picked.label, picked.error) == (
        "work",
        "where",
        label,
        None,
    )


def test_a_route_sees_the_output_and_may_lead_back() -> None:
    def where(output, input):
        return "again" if output < 4 else "end"

    turn = routed(where).run(1)
    assert (turn.output, turn.state) == (4, "end")


@pytest.mark.parametrize(
    ("where", "words"),
    [(lambda output: 1 / 0, "where failed: ZeroDivisionError"), (lambda output: 7, "returned 7")],
)
def test_a_route_that_gives_no_way_is_a_run_that_is_stuck_and_says_why(where, words) -> None:
    turn = routed(where).run(1)
    assert turn.outcome == "failed"
    assert any(
        words in (event.error or "") for event in turn.events if isinstance(event, ev.RoutePicked)
    )


def test_a_route_that_is_not_registered_is_said_before_anything_runs() -> None:
    machine = Machine.from_dict(ROUTED, model=ScriptedLLM([]), functions=[add])
    with pytest.raises(ConfigurationError, match="/states/work/route: no function 'where'"):
        machine.run(1)


def test_a_route_is_not_asked_again_when_a_crashed_run_is_taken_up(tmp_path) -> None:
    asked = []

    def where(output):
        asked.append(output)
        return "again" if output < 3 else "end"

    document = {
        **ROUTED,
        "states": {**ROUTED["states"], "work": {**ROUTED["states"]["work"], "execute": "talk"}},
    }
    store = f"sqlite:///{tmp_path}/runs.db"

    def machine(replies):
        made = Machine.from_dict(document, model=ScriptedLLM(replies), store=store)

        @made.function
        def talk(ctx):
            return int(ctx.llm.chat([{"role": "user", "content": str(ctx.input)}]))

        made.function(where, name="where")
        return made

    with machine(["2"]) as first, pytest.raises(Exception, match="script has 1 reply"):
        first.run(1, conversation_id="r")
    with machine(["3"]) as second:
        assert second.run(conversation_id="r").state == "end"
    assert asked == [2, 3]


# -- one live memory


def working(replies, body) -> Machine:
    states = {"work": {"kind": "task", "execute": "body", "memory": True, "tools": ["pause"]}}
    document = {
        "name": "m",
        "initial_state": "work",
        "tools": {"pause": {"registered": "pause"}},
        "states": states,
    }
    machine = Machine.from_dict(document, model=ScriptedLLM(replies))
    machine.function(body, name="body")

    @machine.tool(breaking=True)
    def pause() -> str:
        return "waiting"

    return machine


def test_a_function_and_the_models_memory_tools_work_on_one_memory() -> None:
    def body(ctx):
        ctx.memory.set(0, "by code")
        said = ctx.llm.run_with_tools("s", "u")
        ctx.memory.append(1, "and code")
        return [said, ctx.memory.get_non_empty()[1]]

    look = calls(("view_all_memory", {}))
    note = calls(("set_memory", {"bucket_index": 1, "content": "by the model"}))
    machine = working([look, note, "done"], body)
    turn = machine.run()
    assert turn.output == ["done", "by the model\nand code"]
    seen = [event.result for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert '"by code"' in seen[0]
    assert machine.resume(turn.conversation_id).memory == {
        "0": "by code",
        "1": "by the model\nand code",
    }


def test_a_function_that_runs_again_after_a_break_begins_with_the_memory_of_its_start() -> None:
    seen = []

    def body(ctx):
        seen.append(ctx.memory.get_non_empty())
        ctx.memory.append(0, "code")
        return ctx.llm.run_with_tools("s", "u")

    note = calls(("append_memory", {"bucket_index": 0, "content": "model"}))
    machine = working([note, calls(("pause", {})), "done"], body)
    turn = machine.run(memory={"5": "before"})
    assert turn.outcome == "paused"
    turn = machine.answer(turn.conversation_id, "go on")
    assert seen == [{5: "before"}, {5: "before"}]
    assert machine.resume(turn.conversation_id).memory == {"0": "code\nmodel", "5": "before"}


def test_a_function_may_offer_tools_beside_those_of_its_state() -> None:
    def look(at: str) -> str:
        """Look."""
        return f"{at} is wet"

    def body(ctx):
        return ctx.llm.run_with_tools("s", "u", tools=[look])

    machine = working([calls(("look", {"at": "the sea"})), "Wet."], body)
    turn = machine.run()
    assert turn.output == "Wet."
    assert [event.result for event in turn.events if isinstance(event, ev.ToolReturned)] == [
        "the sea is wet"
    ]


# -- judges


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ({"kind": True}, True),
        ({"kind": False}, False),
        ({"kind": "no"}, False),
        ({"kind": "true"}, False),
        ({"kind": 1}, False),
        ({"verdicts": [{"name": "kind", "passed": "yes", "reason": ""}]}, False),
        ({"verdicts": [{"name": "kind", "passed": True, "reason": ""}]}, True),
    ],
)
def test_a_judge_passes_only_what_it_plainly_calls_true(said, passed) -> None:
    states = {
        "w": {
            "kind": "task",
            "purpose": "Write.",
            "max_retries": 0,
            "key_results": [{"name": "kind"}],
        }
    }
    document = {"name": "j", "initial_state": "w", "states": states}
    machine = Machine.from_dict(document, model=ScriptedLLM(["text", said]))
    assert (machine.run().outcome == "passed") is passed


@pytest.mark.parametrize("said", ["false", "no", "maybe {"])
def test_a_judge_that_answers_in_no_form_fails_what_it_judges(said) -> None:
    states = {
        "w": {
            "kind": "task",
            "purpose": "Write.",
            "max_retries": 0,
            "key_results": [{"name": "kind"}],
        }
    }
    model = ScriptedLLM(["text", said, said])
    machine = Machine.from_dict({"name": "j", "initial_state": "w", "states": states}, model=model)
    assert machine.run().outcome == "exhausted"
