"""Whatever models, tools and people bring, work keeps to its definition."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._json import read, text_of
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply, ToolCall
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.turn.effects import AskModel, CallTools, ToolResult, ToolResults
from llm_fsm.turn.pipeline import Answer, Resume, UserMessage
from llm_fsm.turn.steps import Step, advance, begin
from machines import Worker, start, stored, worker

SCHEMA = {
    "properties": {
        "total": {"type": "integer", "x-source": "tool"},
        "approved": {"type": "boolean", "x-source": "host"},
        "pin": {"x-source": "tool", "x-secret": True},
        "free": {"type": "string"},
    }
}
TOOLS = {name: (lambda **_: None) for name in ("safe", "asks", "breaks", "hidden")}
REFS = {
    "safe": {"output": {"total": "total", "pin": "pin"}},
    "asks": {"approval": True, "output": {"total": ""}},
    "breaks": {"breaking": True, "output": {"approved": "approved"}},
}
STATES: dict[str, Any] = {
    "talk": {
        "tools": ["safe", "asks"],
        "transitions": [
            {"target_state": "work"},
            {"target_state": "paid", "conditions": [{"requires_context_keys": ["approved"]}]},
        ],
    },
    "work": {
        "kind": "task",
        "tools": ["safe", "asks", "breaks"],
        "memory": True,
        "max_retries": 1,
        "on_exhausted": "talk",
        "key_results": [{"name": "k", "check": {"!!": [{"var": "output.total"}]}}, {"name": "j"}],
        "transitions": [{"target_state": "talk", "on": "default"}],
    },
    "paid": {"kind": "final"},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["total", "approved", "pin", "a", "_transition"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
names = st.sampled_from([*TOOLS, "set_memory", "append_memory", "clear_memory", "nope", "", "_x"])
arguments = st.one_of(
    st.dictionaries(st.sampled_from(["bucket_index", "content", "x"]), json_values, max_size=3).map(
        json.dumps
    ),
    st.sampled_from(
        ["", "{", "[]", "null", '{"bucket_index": 3, "content": "keep"}', '"{}"', "NaN"]
    ),
)
tool_calls = st.lists(
    st.builds(ToolCall, id=st.sampled_from(["a", "b", ""]), name=names, arguments=arguments),
    max_size=3,
)
texts = st.one_of(
    json_values.map(json.dumps),
    st.sampled_from(
        [
            "",
            "junk",
            '{"total": 1}',
            '{"verdicts": [{"name": "j", "passed": true}]}',
            '{"transition": {"target_state": "work", "context_update": {"approved": true}}, "message": "w"}',
            '{"transition": {"target_state": "paid", "context_update": {"total": 9}}, "message": "p"}',
            '{"transition": {"target_state": "talk", "context_update": {"free": "x"}}, "message": "t"}',
        ]
    ),
)
replies = st.builds(ModelReply, text=texts, tool_calls=tool_calls.map(tuple))
results = st.builds(
    dict,
    value=json_values,
    error=st.none() | st.just("no"),
    unknown=st.sampled_from([False, False, True]),
)


def finish(step: Step, data: st.DataObject) -> tuple[Session, list[ev.Event]]:
    """Play a turn with whatever comes."""
    events = list(step.events)
    for _ in range(200):
        effect = step.effect
        if effect is None:
            return step.session, events
        if isinstance(effect, AskModel):
            effect.view()
            step = advance(step, data.draw(replies))
        else:
            assert isinstance(effect, CallTools)
            assert {call.name for call in effect.calls} <= {"safe", "asks", "breaks"}
            found = tuple(
                ToolResult(id=call.id, name=call.name, **data.draw(results))
                for call in effect.calls
            )
            step = advance(step, ToolResults(results=found))
        events.extend(step.events)
    raise AssertionError("the turn does not end")


def fits(kind: str, data: st.DataObject) -> Any:
    if kind == "approval":
        return {"approved": data.draw(st.booleans()), "total": 7}
    if kind == "unknown_outcome":
        return data.draw(
            st.sampled_from([{"repeat": True}, {"error": "lost"}, {"result": {"total": 3}}])
        )
    return data.draw(json_values)


@given(st.data())
def test_no_reply_result_or_answer_leaves_the_rails(data: st.DataObject) -> None:
    host: Worker = worker(STATES, tools=TOOLS, refs=REFS, context_schema=SCHEMA)
    session = start(host.program).session
    history: list[ev.Event] = []
    for _ in range(data.draw(st.integers(1, 4))):
        before = session
        if session.ended:
            break
        if session.pause is not None:
            given_value = Answer(value=fits(session.pause.kind, data), time=3000.0)
            step = begin(host.program, session, given_value, host.capabilities)
        elif data.draw(st.booleans()):
            step = begin(
                host.program, session, UserMessage(text="hi", time=2000.0), host.capabilities
            )
        else:
            step = begin(host.program, session, Resume(time=2000.0), host.capabilities)
        session, events = finish(step, data)
        history.extend(events)
        assert fold(before, events) == session
        assert stored(session) == session
        documents = [json.loads(text_of(event)) for event in events]
        assert (
            fold(before, [read(document, ev.AnyEvent, "event") for document in documents])
            == session
        )
    assert "approved" not in session.context
    assert session.state != "paid"
    assert set(session.context) <= {"total", "pin", "free", "_extra"}
    assert isinstance(session.context.get("total", 0), int)
    assert all(
        origin[1] == "tool" for key, origin in session.origins.items() if key in ("total", "pin")
    )
    assert set(session.memory) <= {str(number) for number in range(10)}
    assert all(
        event.name in TOOLS or event.name.endswith("_memory")
        for event in history
        if isinstance(event, ev.ToolReturned)
    )
