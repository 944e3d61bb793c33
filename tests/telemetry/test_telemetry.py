"""Spans and metrics of turns, as OpenTelemetry's own SDK collects them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from llm_fsm import Machine, ModelError, ModelReply, create_handler
from llm_fsm.telemetry import instrument, names
from llm_fsm.testing import ScriptedLLM, calls, reply
from machines import GREETER
from refunds import PAID, REFUNDS
from shops import write_release


class Collected:
    """What a test collects."""

    def __init__(self) -> None:
        self.spans_kept = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_kept))
        self.meters = MeterProvider(metric_readers=[self.reader])

    @property
    def spans(self) -> dict[str, Any]:
        return {span.name: span for span in self.spans_kept.get_finished_spans()}

    def metric(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def talk(collected: Collected, machine: Machine, *messages: str, content: bool = False) -> None:
    stop = instrument(
        tracer_provider=collected.tracers, meter_provider=collected.meters, content=content
    )
    try:
        with machine:
            chat = machine.start(greet=False)
            for message in messages:
                chat.send(message)
    finally:
        stop()


class Model:
    """A model that says Bye, with these fields in its reply."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    async def complete(self, _: Any) -> ModelReply:
        text = '{"transition": {"target_state": "bye", "context_update": {"name": "Ada"}}, "message": "Bye Ada."}'
        return ModelReply(text=text, **self.fields)


def test_a_turn_is_a_span_with_its_model_call_and_its_transition(collected: Collected) -> None:
    model = Model(model="openai/gpt-x", input_tokens=50, output_tokens=7, cost=0.01, seconds=0.5)
    talk(collected, Machine.from_dict(GREETER, model=model), "I am Ada")
    turn, call = collected.spans["invoke_agent greeter"], collected.spans["chat gpt-x"]
    assert call.parent.span_id == turn.context.span_id
    assert turn.attributes[names.STATE] == "bye"
    assert turn.attributes[names.OPERATION] == "invoke_agent"
    assert [(event.name, dict(event.attributes)[names.STATE]) for event in turn.events] == [
        (names.TRANSITION, "bye")
    ]
    assert (call.attributes[names.INPUT_TOKENS], call.attributes["gen_ai.system"]) == (50, "openai")
    assert call.end_time - call.start_time >= 500_000_000
    tokens = {
        point.attributes[names.TOKEN_TYPE]: point.sum
        for point in collected.metric(names.TOKEN_USAGE)
    }
    assert tokens == {"input": 50, "output": 7}
    (cost,) = collected.metric(names.TURN_COST)
    assert cost.value == pytest.approx(0.01)
    assert [point.count for point in collected.metric(names.OPERATION_DURATION)] == [1]


def test_a_turn_of_a_release_names_it_and_its_arm(collected: Collected, tmp_path: Path) -> None:
    path = write_release(tmp_path, share=1)
    talk(collected, Machine.from_release(path, model="offline"), "tea")
    wanted = {names.RELEASE: "shop", names.ARM: "candidate"}
    turn = collected.spans["invoke_agent shop"]
    points = collected.metric(names.TURN_DURATION)
    assert points
    for attributes in (turn.attributes, *(point.attributes for point in points)):
        assert wanted.items() <= dict(attributes).items()


def test_words_are_left_out_unless_they_are_asked_for(collected: Collected) -> None:
    talk(
        collected,
        Machine.from_dict(GREETER, model=ScriptedLLM([reply("bye", "Bye Ada.", name="Ada")])),
        "I am Ada",
    )
    assert "Ada" not in str([dict(span.attributes) for span in collected.spans.values()])
    collected.spans_kept.clear()
    model = ScriptedLLM([reply("bye", "Bye Ada.", name="Ada")])
    talk(collected, Machine.from_dict(GREETER, model=model), "I am Ada", content=True)
    assert "I am Ada" in collected.spans["invoke_agent greeter"].attributes["gen_ai.prompt"]


KEPT: dict[str, Any] = {
    "name": "kept",
    "initial_state": "ask",
    "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}},
    "tools": {"look": {"registered": "look"}},
    "states": {
        "ask": {
            "purpose": "Ask",
            "tools": ["look"],
            "transitions": [{"target_state": "bye", "description": "Done"}],
        },
        "bye": {"kind": "final", "reply": "Bye."},
    },
}


def look(pin: str) -> dict[str, str]:
    if pin == "failing":
        raise RuntimeError("cannot use 98765")
    return {"used": pin}


def test_no_span_holds_a_value_that_was_ever_given_for_a_secret_key(collected: Collected) -> None:
    model = ScriptedLLM(
        [
            calls(("look", {"pin": "98 765"})),
            reply("ask", "Thanks for 98765.", pin="98765"),
            calls(("look", {"pin": "failing"})),
            reply("ask", "It was 9 8 7 6 5, and is 43210 now.", pin="43210"),
            reply("bye", "98765 or 43210"),
        ]
    )
    said = ("My PIN is 9 8765", "43210", "98765, then 43210")
    talk(collected, Machine.from_dict(KEPT, model=model, tools=[look]), *said, content=True)
    spans = collected.spans_kept.get_finished_spans()
    text = str([(dict(span.attributes or {}), span.status.description) for span in spans])
    assert "My PIN is •••" in text
    assert "Thanks for •••." in text
    assert "cannot use •••" in text
    assert not [
        secret for secret in ("98765", "98 765", "9 8765", "9 8 7 6 5", "43210") if secret in text
    ]


def test_the_newest_convention_is_behind_the_switch(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.SWITCH, names.NEWEST)
    talk(collected, Machine.from_dict(GREETER, model=Model(model="openai/gpt-x")), "I am Ada")
    assert collected.spans["chat gpt-x"].attributes["gen_ai.provider.name"] == "openai"


def refund(amount: int, to: str = "card") -> str:
    raise RuntimeError("no money")


def test_a_tool_that_fails_is_a_span_with_an_error(collected: Collected) -> None:
    document = {**REFUNDS, "tools": {"refund": {"registered": "refund"}}}
    model = ScriptedLLM([calls(("refund", {"amount": 5})), PAID])
    talk(collected, Machine.from_dict(document, model=model, tools=[refund]), "5 back")
    span = collected.spans["execute_tool refund"]
    assert span.status.status_code.name == "ERROR"
    assert span.attributes[names.TOOL_NAME] == "refund"


def test_a_turn_that_fails_is_a_span_with_an_error(collected: Collected) -> None:
    with pytest.raises(ModelError):
        talk(collected, Machine.from_dict(GREETER, model=ScriptedLLM([ModelError("down")])), "x")
    span = collected.spans["invoke_agent greeter"]
    failed = [
        one
        for one in collected.spans_kept.get_finished_spans()
        if one.status.status_code.name == "ERROR"
    ]
    # the call and its turn
    assert [one.attributes[names.ERROR_TYPE] for one in failed] == ["ModelError"] * 2
    assert span is not None


def test_time_to_the_first_words_of_a_stream(collected: Collected) -> None:
    stop = instrument(tracer_provider=collected.tracers, meter_provider=collected.meters)
    try:
        with Machine.from_dict(
            GREETER, model=ScriptedLLM([reply("bye", "Bye.", name="Ada")])
        ) as machine:
            list(machine.start(greet=False).stream("Ada"))
    finally:
        stop()
    (first,) = collected.metric(names.TIME_TO_FIRST_CHUNK)
    assert first.count == 1


SHOP = {
    "name": "shop",
    "initial_state": "help",
    "tools": {"stock": {"registered": "stock"}, "both": {"registered": "both"}},
    "states": {
        "help": {
            "purpose": "Help",
            "tools": ["stock", "both"],
            "transitions": [{"target_state": "bye", "description": "done"}],
        },
        "bye": {"reply": "Bye"},
    },
}


def parents(collected: Collected) -> dict[str, str | None]:
    """Name of a span to the name of the span that it lies in."""
    spans = collected.spans_kept.get_finished_spans()
    known = {span.context.span_id: span.name for span in spans}
    return {span.name: known.get(span.parent.span_id) if span.parent else None for span in spans}


def test_spans_of_the_hosts_code_lie_in_the_span_of_what_runs_it(collected: Collected) -> None:
    mine = collected.tracers.get_tracer("application")

    def stock(item: str) -> int:
        """How many there are."""
        with mine.start_as_current_span("plain tool"):
            return len(item)

    async def both() -> int:
        """An async one."""
        with mine.start_as_current_span("async tool"):
            return 1

    class Asked:
        """A model that sends a request of its own."""

        def __init__(self) -> None:
            self.replies = ScriptedLLM(
                [
                    calls(("stock", {"item": "lamp"})),
                    calls(("both", {})),
                    reply("bye", "Three.", seen=True),
                ]
            )

        async def complete(self, request: Any) -> ModelReply:
            with mine.start_as_current_span("request of the model"):
                return await self.replies.complete(request)

    keys = {"properties": {"seen": {"type": "boolean", "description": "Seen"}}}
    machine = Machine.from_dict(
        {**SHOP, "context_schema": keys}, model=Asked(), tools=[stock, both]
    )
    points = (
        "pre_processing",
        "post_transition",
        "context_update",
        "post_processing",
        "end_conversation",
    )
    for point in points:
        machine.add_handler(
            create_handler(point)
            .at(point)
            .do(lambda _, name=point: mine.start_span(f"at {name}").end())
        )
    talk(collected, machine, "lamps?")
    found = parents(collected)
    turn = "invoke_agent shop"
    assert found == {
        "plain tool": "execute_tool stock",
        "async tool": "execute_tool both",
        "execute_tool stock": turn,
        "execute_tool both": turn,
        "request of the model": turn,
        "chat scripted": turn,
        **{f"at {point}": turn for point in points},
        turn: None,
    }


def test_spans_of_tasks_checks_and_routes_lie_in_the_turn(collected: Collected) -> None:
    mine = collected.tracers.get_tracer("application")
    task = {
        "kind": "task",
        "execute": "work",
        "tools": ["stock"],
        "key_results": [{"name": "good", "check": {"registered": "good"}}],
        "route": "way",
        "transitions": [{"target_state": "bye", "on": "on"}],
    }
    end = {"kind": "final"}
    document = {
        **SHOP,
        "tools": {"stock": {"registered": "stock"}},
        "states": {"help": task, "bye": end},
    }

    def stock() -> int:
        """How many there are."""
        mine.start_span("in the tool").end()
        return 3

    machine = Machine.from_dict(
        document, model=ScriptedLLM([calls(("stock", {})), "Three."]), tools=[stock]
    )

    @machine.function
    def work(ctx: Any) -> Any:
        with mine.start_as_current_span("in the task"):
            return ctx.llm.run_with_tools("Count.", "lamps")

    @machine.function
    def good(output: Any) -> bool:
        mine.start_span("in the check").end()
        return output == "Three."

    @machine.function
    def way(output: Any) -> str:
        mine.start_span("in the route").end()
        return "on"

    stop = instrument(tracer_provider=collected.tracers, meter_provider=collected.meters)
    try:
        with machine:
            machine.run()
    finally:
        stop()
    turn = "invoke_agent shop"
    assert parents(collected) == {
        **dict.fromkeys(("in the task", "in the check", "in the route"), turn),
        **dict.fromkeys(("execute_tool stock", "chat scripted"), turn),
        "in the tool": "execute_tool stock",
        turn: None,
    }


class Down:
    """A model that is overloaded."""

    name = "openai/gpt-x"

    async def complete(self, request: Any) -> ModelReply:
        raise ModelError("overloaded", status=529)


def test_a_model_call_that_fails_is_a_span_and_counts(collected: Collected) -> None:
    with pytest.raises(ModelError):
        talk(collected, Machine.from_dict(GREETER, model=Down()), "Ada")
    span = collected.spans["chat gpt-x"]
    assert span.attributes["error.type"] == "ModelError"
    assert not span.status.is_ok
    [point] = collected.metric(names.OPERATION_DURATION)
    assert (point.count, point.attributes["error.type"]) == (1, "ModelError")


@pytest.mark.parametrize("times", [2, 3])
def test_instrumenting_twice_counts_nothing_twice(collected: Collected, times: int) -> None:
    providers = {"tracer_provider": collected.tracers, "meter_provider": collected.meters}
    stops = [instrument(**providers) for _ in range(times)]
    with Machine.from_dict(GREETER, model=Model()) as machine:
        machine.start(greet=False).send("Ada")
        assert [span.name for span in collected.spans_kept.get_finished_spans()].count(
            "invoke_agent greeter"
        ) == 2
        stops[0]()  # its place was taken
        machine.start(greet=False)
        assert len(collected.spans_kept.get_finished_spans()) == 4
        stops[-1]()
        machine.start(greet=False)
        assert len(collected.spans_kept.get_finished_spans()) == 4
