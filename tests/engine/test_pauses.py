"""States that wait, tools that ask a person, time-outs and reminders: nothing is held but the
session.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.turn.effects import Execute, Executed, ToolResult
from machines import calls, reply, start, stored, worker

FINAL = {"kind": "final"}


def task(**more: Any) -> dict[str, Any]:
    return {"kind": "task", "purpose": "Do it", **more}


WAIT: dict[str, Any] = {
    "kind": "wait",
    "purpose": "Wait for the manager",
    "wait_for": "manager_decision",
    "answer_schema": {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "by": {"type": "object"}},
        "required": ["approved"],
    },
    "output": {"approved": "approved", "manager": "by.name"},
    "timeout": 3600,
    "on_timeout": "late",
    "remind": [600, 60],
    "transitions": [
        {"target_state": "yes", "priority": 1, "conditions": [{"logic": {"var": "approved"}}]},
        {"target_state": "no"},
    ],
}
APPROVE = {
    "draft": task(transitions=[{"target_state": "wait"}]),
    "wait": WAIT,
    "yes": FINAL,
    "no": FINAL,
    "late": FINAL,
}
SCHEMA = {
    "properties": {
        "approved": {"type": "boolean", "x-source": "answer"},
        "manager": {"type": "string", "x-source": "answer"},
        "secret_key": {"x-source": "host"},
    }
}


def test_wait_state_parks_the_run_with_all_that_the_answer_needs() -> None:
    done = worker(APPROVE, context_schema=SCHEMA).run("draft text")
    pause = done.session.pause
    assert pause is not None
    assert (pause.kind, pause.what, pause.state, pause.expires) == (
        "wait",
        "manager_decision",
        "wait",
        4600.0,
    )
    assert pause.schema == WAIT["answer_schema"]
    assert done.session.reminders == (1060.0, 1600.0)
    assert not done.session.ended
    assert done.session.spent["llm_calls"] == 1
    assert stored(done.session) == done.session


@pytest.mark.parametrize(("approved", "target"), [(True, "yes"), (False, "no")])
def test_answer_is_mapped_and_leads_on(approved: bool, target: str) -> None:
    host = worker(APPROVE, context_schema=SCHEMA)
    begun = host.run("draft")
    done = host.answer(
        begun.session, {"approved": approved, "by": {"name": "Eve"}, "secret_key": 1}
    )
    assert (done.session.state, done.session.outcome) == (target, "final")
    assert done.session.context == {"approved": approved, "manager": "Eve"}
    assert done.session.origins["approved"] == (1, "answer")
    assert done.session.input == {"approved": approved, "by": {"name": "Eve"}, "secret_key": 1}
    assert (done.session.pause, done.session.settled) == (
        None,
        (begun.session.pause.id, "answered"),
    )  # type: ignore[union-attr]
    events = [*begun.events, *done.events]
    assert fold(Session(conversation_id="c1"), events) == done.session


def test_only_answers_write_what_belongs_to_answers() -> None:
    schema = {"properties": {"approved": {"x-source": "tool"}, "manager": {"x-source": "host"}}}
    host = worker(APPROVE, context_schema=schema)
    done = host.answer(host.run("draft").session, {"approved": True, "by": {"name": "x"}})
    assert dict(done.session.context) == {}
    assert [event.key for event in done.of(ev.ContextRefused)] == ["approved", "manager"]


def test_answer_routes_by_label_too() -> None:
    states = {
        "ask": {
            "kind": "wait",
            "transitions": [
                {"target_state": "a", "on": "left"},
                {"target_state": "b", "on": "default"},
            ],
        },
        "a": FINAL,
        "b": FINAL,
    }
    host = worker(states)
    assert host.answer(host.run().session, "left").session.state == "a"
    assert host.answer(host.run().session, 7).session.state == "b"


def test_time_out_leads_to_its_state_or_ends_the_run() -> None:
    host = worker(APPROVE)
    begun = host.run("draft")
    done = host.due(begun.session, 4600.0)
    assert (done.session.state, done.session.outcome) == ("late", "final")
    assert done.of(ev.StateEntered)[0].by == "timeout"
    assert done.session.settled[1] == "expired"  # type: ignore[index]
    host = worker(
        {**APPROVE, "wait": {key: value for key, value in WAIT.items() if key != "on_timeout"}}
    )
    assert host.due(host.run("draft").session, 5000.0).session.outcome == "expired"


def test_reminders_are_said_once_each() -> None:
    host = worker({**APPROVE, "wait": {**WAIT, "reply": "Still waiting for {{ x }}."}})
    begun = host.run("draft", context={"x": "Eve"})
    first = host.due(begun.session, 1100.0)
    assert first.text == "Still waiting for Eve."
    assert first.of(ev.Reminded) == [
        ev.Reminded(id=begun.session.pause.id, due=1060.0, time=1100.0)
    ]  # type: ignore[union-attr]
    assert first.session.reminders == (1600.0,)
    assert first.session.pause == begun.session.pause
    assert host.due(first.session, 1600.0).session.reminders == ()


# -- tools that ask


def tool_host(refs: dict[str, Any], **more: Any) -> Any:
    return worker(
        {"work": task(tools=["refund", "look"])},
        tools={"refund": lambda amount: {"paid": amount}, "look": lambda: "seen"},
        refs=refs,
        **more,
    )


def test_approval_is_asked_before_the_batch_runs() -> None:
    host = tool_host({"refund": {"approval": True}})
    begun = host.run(calls(("look", {}), ("refund", {"amount": 5})))
    pause = begun.session.pause
    assert (pause.kind, pause.what, pause.call) == (
        "approval",
        "refund",
        {"id": "c2", "name": "refund", "arguments": {"amount": 5}},
    )
    assert not host.asked
    done = host.answer(begun.session, {"approved": True}, "done")
    assert [call.name for call in host.asked[0].calls] == ["look", "refund"]
    assert [message.content for message in done.requests[0].messages[3:]] == [
        '"seen"',
        '{"paid":5}',
    ]
    assert (
        done.requests[0].messages[:3] == begun.requests[0].messages + done.requests[0].messages[2:3]
    )
    assert done.session.outcome == "passed"


def test_nobody_is_asked_about_a_call_that_could_not_be_made() -> None:
    def fits(arguments: dict[str, Any]) -> str | None:
        return None if isinstance(arguments.get("amount"), int) else "amount: a number is wanted"

    host = tool_host({"refund": {"approval": True}}, attributes={"refund": {"fits": fits}})
    begun = host.run(
        calls(("refund", {"amount": "much"}), ("look", {})), calls(("refund", {"amount": 5}))
    )
    assert begun.of(ev.ToolRefused) == [
        ev.ToolRefused(
            name="refund", reason="amount: a number is wanted", arguments='{"amount": "much"}'
        )
    ]
    assert [message.content for message in begun.requests[1].messages[3:]] == [
        '{"error":"amount: a number is wanted"}',
        '"seen"',
    ]
    assert begun.session.pause.call["arguments"] == {"amount": 5}


def test_refused_approval_is_told_and_nothing_runs() -> None:
    host = tool_host({"refund": {"approval": True}})
    begun = host.run(calls(("refund", {"amount": 5})))
    done = host.answer(begun.session, {"approved": False, "reason": "too much"}, "sorry")
    assert not host.asked
    assert (
        done.requests[0].messages[3].content == '{"error":"a person refused this call: too much"}'
    )
    assert done.of(ev.ToolRefused)[0].name == "refund"


def test_pauses_at_one_moment_have_different_names() -> None:
    host = tool_host({"refund": {"approval": True}})
    done = host.run(calls(*[("refund", {"amount": amount}) for amount in range(4)]))
    named = [done.session.pause.id]
    while len(named) < 4:
        done = host.answer(done.session, {"approved": True})
        named.append(done.session.pause.id)
    assert len({*named}) == 4


def test_each_call_is_approved_for_itself() -> None:
    host = tool_host({"refund": {"approval": True}})
    begun = host.run(calls(("refund", {"amount": 1}), ("refund", {"amount": 2})))
    second = host.answer(begun.session, {"approved": True})
    assert second.session.pause.call["arguments"] == {"amount": 2}
    assert second.session.pause.id != begun.session.pause.id
    done = host.answer(second.session, {"approved": False}, "ok")
    assert [call.arguments for call in host.asked[0].calls] == [{"amount": 1}]
    assert done.session.outcome == "passed"


def test_breaking_tool_stops_after_its_batch_and_the_answer_joins_its_result() -> None:
    refs = {"refund": {"breaking": True, "output": {"paid": "paid", "ok": "ok"}}}
    host = tool_host(
        refs,
        context_schema={"properties": {"paid": {"x-source": "tool"}, "ok": {"x-source": "answer"}}},
    )
    begun = host.run(calls(("refund", {"amount": 5}), ("look", {})))
    assert (begun.session.pause.kind, begun.session.pause.call["result"]) == ("break", {"paid": 5})
    assert begun.session.context == {"paid": 5}
    assert len(begun.of(ev.ToolReturned)) == 2
    done = host.answer(begun.session, {"ok": "yes"}, "done")
    assert len(host.asked) == 1
    assert done.requests[0].messages[3].content == '{"result":{"paid":5},"answer":{"ok":"yes"}}'
    assert done.session.context == {"paid": 5, "ok": "yes"}


def test_lost_call_is_not_repeated_before_a_person_says_so() -> None:
    lost = [True]

    def refund(amount: int) -> Any:
        return ToolResult(id="c1", name="refund", unknown=True) if lost else {"paid": amount}

    host = worker(
        {"work": task(tools=["refund"])},
        tools={"refund": refund},
        refs={"refund": {"at_most_once": True}},
    )
    begun = host.run(calls(("refund", {"amount": 5})))
    assert begun.session.pause.kind == "unknown_outcome"  # type: ignore[union-attr]
    told = host.answer(begun.session, {"result": {"paid": 5}}, "ok")
    assert told.requests[0].messages[3].content == '{"paid":5}'
    assert len(host.asked) == 1
    failed = host.answer(begun.session, {"error": "the bank refused"}, "ok")
    assert failed.requests[0].messages[3].content == '{"error":"the bank refused"}'
    lost.clear()
    repeated = host.answer(begun.session, {"repeat": True}, "ok")
    assert repeated.requests[0].messages[3].content == '{"paid":5}'
    first, second = host.asked
    assert first.calls[0].key == second.calls[0].key


def test_attempt_that_paused_is_still_rolled_back_when_it_fails() -> None:
    rule = [{"name": "good", "check": {"==": [{"var": "output"}, "good"]}}]
    host = worker(
        {"work": task(tools=["f"], key_results=rule)},
        tools={"f": lambda: 1},
        refs={"f": {"approval": True, "output": {"x": ""}}},
    )
    begun = host.run(calls(("f", {})))
    done = host.answer(begun.session, {"approved": True}, "bad", "good")
    assert dict(done.session.context) == {}
    assert [event.attempt for event in done.of(ev.AttemptBegun)] == [2]
    assert '"name":"good"' in done.requests[1].messages[1].content


def test_limits_count_across_pauses() -> None:
    host = worker(
        {"work": task(tools=["f"])},
        tools={"f": lambda: 1},
        refs={"f": {"approval": True}},
        limits={"llm_calls": 2},
    )
    begun = host.run(calls(("f", {})))
    done = host.answer(begun.session, {"approved": True}, calls(("f", {})))
    again = host.answer(done.session, {"approved": True})
    assert again.session.outcome == "limited"


# -- in conversations


CHAT = {
    "talk": {"purpose": "Help", "tools": ["look"], "transitions": [{"target_state": "end"}]},
    "end": {"reply": "Bye."},
}


def test_tools_in_a_conversation_stay_out_of_its_history() -> None:
    host = worker(CHAT, tools={"look": lambda: "42"}, refs={"look": {"output": {"found": ""}}})
    done = host.say(_begin(host), "look it up", calls(("look", {})), reply("talk", "It is 42"))
    assert done.text == "It is 42"
    assert [message.role for message in done.requests[1].messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert done.session.window[-1] == ("look it up", "It is 42")
    assert done.session.context == {"found": "42"}
    assert done.session.work is None
    assert done.requests[0].schema is not None


DOOR = {
    "ask": {
        "purpose": "Your number?",
        "tools": ["look"],
        "transitions": [
            {"target_state": "sort", "conditions": [{"requires_context_keys": ["owner"]}]}
        ],
    },
    "sort": {
        "kind": "decide",
        "transitions": [
            {"target_state": "known", "conditions": [{"logic": {"==": [{"var": "owner"}, "Ada"]}}]},
            {"target_state": "strange", "priority": 200},
        ],
    },
    "known": {"purpose": "Welcome", "transitions": [{"target_state": "ask"}]},
    "strange": {"purpose": "Who is that?", "transitions": [{"target_state": "ask"}]},
}


LOOKED_UP = {"properties": {"owner": {"type": "string", "x-source": "tool"}}}


def test_reply_after_a_tool_is_told_what_its_result_opened() -> None:
    refs = {"look": {"output": {"owner": ""}}}
    host = worker(DOOR, tools={"look": lambda: "Ada"}, refs=refs, context_schema=LOOKED_UP)
    done = host.say(_begin(host), "7", calls(("look", {})), reply("sort", "Hello Ada, come in."))
    first, second = (request.messages for request in done.requests)
    assert "\nsort" not in first[1].content
    assert [message.role for message in second] == ["system", "user", "assistant", "tool"]
    assert "\nsort\n" in second[1].content
    assert '{"owner":"Ada"}' in second[1].content
    assert (done.session.state, done.text) == ("known", "Hello Ada, come in.")


@pytest.mark.parametrize("approval", [False, True])
def test_reply_after_a_tool_reads_what_its_result_wrote_elsewhere_in_a_large_machine(
    approval: bool,
) -> None:
    refs = {"look": {"output": {"owner": ""}, "approval": approval}}
    keys = {"properties": {"owner": {}, **{f"k{number}": {} for number in range(50)}}}
    ask = {"tools": ["look"], "transitions": [{"target_state": "ask"}]}
    host = worker({"ask": ask}, tools={"look": lambda: "Ada"}, refs=refs, context_schema=keys)
    told = host.say(_begin(host), "I am one.", reply("ask", k1="one")).session
    done = host.say(told, "7", calls(("look", {})), *([] if approval else [reply("ask")]))
    if approval:
        done = host.answer(done.session, {"approved": True}, reply("ask"))
    shown = done.requests[-1].messages[1].content
    known = "<further_context_keys>\nowner\nk1\n</further_context_keys>\n<conversation_history>\n"
    assert shown.startswith(known)
    assert shown.count("further_context_keys>") == 2
    assert '{"user":"I am one."}' in shown
    assert '<current_context>\n{"k1":"one","owner":"Ada"}\n</current_context>' in shown


def test_reply_after_an_approval_reads_its_message_and_what_the_result_opened() -> None:
    refs = {"look": {"output": {"owner": ""}, "approval": True}}
    host = worker(DOOR, tools={"look": lambda: "Ada"}, refs=refs, context_schema=LOOKED_UP)
    begun = host.say(_begin(host), "7 <user_input>", calls(("look", {})))
    done = host.answer(begun.session, {"approved": True}, reply("sort", "Hello Ada, come in."))
    (messages,) = (request.messages for request in done.requests)
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool"]
    assert "<conversation_history>" not in messages[1].content
    assert messages[1].content.endswith(
        '<user_input>\n"7 \\u003cuser_input\\u003e"\n</user_input>\n'
    )
    assert '"open":false' not in messages[1].content
    assert (done.session.state, done.text) == ("known", "Hello Ada, come in.")


def test_question_is_the_same_after_tools_that_wrote_nothing() -> None:
    host = worker(CHAT, tools={"look": lambda: "42"})
    done = host.say(_begin(host), "go", calls(("look", {})), reply("talk", "ok"))
    first, second = done.requests
    assert second.messages[:2] == first.messages


def test_refused_reply_after_tools_keeps_their_results() -> None:
    host = worker(CHAT, tools={"look": lambda: "42"})
    done = host.say(_begin(host), "go", calls(("look", {})), "garbage", reply("talk", "ok"))
    assert [message.role for message in done.requests[2].messages] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert done.text == "ok"


def test_conversation_pauses_for_an_approval_and_goes_on_in_the_same_loop() -> None:
    host = worker(CHAT, tools={"look": lambda: "42"}, refs={"look": {"approval": True}})
    begun = host.say(_begin(host), "look it up", calls(("look", {})))
    assert begun.text == "Before I can go on, somebody has to answer a question about this."
    done = host.answer(begun.session, {"approved": True}, reply("end", "It is 42"))
    assert done.text == "It is 42\n\nBye."
    assert done.session.ended
    assert done.session.work is None


def test_conversation_that_runs_out_of_calls_says_its_own_words_and_stays_open() -> None:
    host = worker(CHAT, tools={"look": lambda: "42"}, limits={"llm_calls": 1})
    done = host.say(_begin(host), "go", calls(("look", {})))
    assert (done.session.ended, done.text) == (False, "Sorry, I did not get that.\n\nHelp.")


def test_conversation_that_moves_to_a_wait_state_speaks_for_it() -> None:
    states = {
        "talk": {"transitions": [{"target_state": "wait"}]},
        "wait": {
            "kind": "wait",
            "purpose": "Wait for a colleague",
            "transitions": [{"target_state": "back"}],
        },
        "back": {"purpose": "Tell the user", "transitions": [{"target_state": "talk"}]},
    }
    host = worker(states)
    begun = host.say(_begin(host), "ask", reply("wait", "A colleague will look."))
    assert (begun.text, begun.usage.calls) == ("A colleague will look.", 1)
    done = host.answer(begun.session, "fine", reply("back", "Your colleague says fine."))
    assert (done.text, done.session.state) == ("Your colleague says fine.", "back")
    assert "Nobody has spoken" not in done.prompt
    assert "The conversation begins" not in done.prompt


def _begin(host: Any) -> Session:
    return start(host.program).session


# -- functions that ask


def test_function_that_breaks_is_run_again_with_the_answer() -> None:
    def work(effect: Execute) -> Executed:
        if not effect.answers:
            return Executed(
                paused={
                    "kind": "break",
                    "what": "Which one?",
                    "schema": {"type": "string"},
                    "log": {"0.0": 1},
                }
            )
        return Executed(output=[*effect.answers, effect.log])

    host = worker({"work": task(execute="f")}, functions={"f": work})
    begun = host.run()
    assert (begun.session.pause.what, begun.session.pause.schema) == (
        "Which one?",
        {"type": "string"},
    )  # type: ignore[union-attr]
    done = host.answer(begun.session, "blue")
    assert done.session.input == ["blue", {"0.0": 1}]
    assert json.loads(json.dumps(done.session.input)) == done.session.input


def test_secrets_in_results_and_answers_reach_the_context_and_nobody_else() -> None:
    schema = {
        "properties": {
            "pin": {"x-source": "tool", "x-secret": True},
            "code": {"x-source": "answer", "x-secret": True},
        }
    }
    states = {
        "work": task(tools=["f"], transitions=[{"target_state": "wait"}]),
        "wait": {
            "kind": "wait",
            "output": {"code": "code"},
            "transitions": [{"target_state": "more"}],
        },
        "more": task(),
    }
    host = worker(
        states,
        tools={"f": lambda: {"a": [{"pin": "1234"}], "b": 2}},
        refs={"f": {"output": {"pin": "a.0.pin"}}},
        context_schema=schema,
    )
    begun = host.run(calls(("f", {})), "ok")
    done = host.answer(begun.session, {"code": "9876", "by": "Eve"}, "end")
    assert (begun.session.context["pin"], done.session.context["code"]) == ("1234", "9876")
    sent = json.dumps(
        [
            message.content
            for request in (*begun.requests, *done.requests)
            for message in request.messages
        ]
    )
    assert "1234" not in sent
    assert "9876" not in sent
    assert begun.requests[1].messages[3].content == '{"a":[{"pin":"•••"}],"b":2}'
    assert done.of(ev.Answered)[0].value == {"code": "•••", "by": "Eve"}
    assert begun.of(ev.ToolReturned)[0].result == {"a": [{"pin": "•••"}], "b": 2}


def test_memory_shows_in_the_prompt_of_a_conversation_that_may_use_it() -> None:
    states = {"talk": {"memory": True, "transitions": [{"target_state": "talk"}]}}
    host = worker(states)
    first = host.say(
        _begin(host),
        "remember",
        calls(("set_memory", {"bucket_index": 4, "content": "blue"})),
        reply("talk"),
    )
    second = host.say(first.session, "what?", reply("talk"))
    assert "<memory>" not in first.prompt
    assert '<memory>\n{"bucket 4":"blue"}\n</memory>' in second.prompt


def test_history_that_is_trimmed_is_summarised_and_shown_before_the_rest() -> None:
    host = worker(
        {"talk": {"transitions": [{"target_state": "talk"}]}},
        history={"max_exchanges": 1, "strategy": "summary"},
    )
    session = _begin(host)
    for number in range(2):
        session = host.say(session, f"m{number}", reply("talk", f"r{number}")).session
    third = host.say(
        session, "m2", reply("talk", "r2"), json.dumps({"summary": "They <met>", "todo_list": None})
    )
    assert third.session.window == (("m2", "r2"),)
    assert '"conversation":[["m0","r0"],["m1","r1"]]' in third.requests[1].messages[1].content
    assert "in the language of what happened" in third.requests[1].messages[0].content
    fourth = host.say(third.session, "m3", reply("talk"))
    assert fourth.prompt.startswith(
        '<history_summary>\n"They \\u003cmet\\u003e"\n</history_summary>\n<conversation_history>'
    )
    again = host.say(
        session, "m2", reply("talk", "r2"), "They met.", json.dumps({"summary": "They met"})
    )
    assert (again.session.window, again.session.summary) == ((("m2", "r2"),), "They met")
    assert "They met." in again.requests[2].messages[2].content
    quiet = worker(
        {"talk": {"transitions": [{"target_state": "talk"}]}},
        history={"max_exchanges": 1, "strategy": "summary"},
        summaries=False,
    )
    session = _begin(quiet)
    for number in range(3):
        session = quiet.say(session, f"m{number}", reply("talk")).session
    assert (len(session.window), session.summary) == (1, "")


def test_words_after_a_task_cost_one_call_because_nobody_could_foresee_them() -> None:
    states = {
        "talk": {"transitions": [{"target_state": "work"}]},
        "work": task(reply="One moment.", transitions=[{"target_state": "tell"}]),
        "tell": {"purpose": "Tell the result", "transitions": [{"target_state": "talk"}]},
    }
    host = worker(states)
    done = host.say(_begin(host), "go", reply("work", "I start."), "42", reply("tell", "It is 42."))
    assert (done.text, done.session.state, done.usage.calls) == (
        "I start.\n\nOne moment.\n\nIt is 42.",
        "tell",
        3,
    )
    assert [event.asked_for for event in done.of(ev.ModelReplied)] == ["turn", "task", "words"]
    # and no empty <input>
    assert done.requests[1].messages[1].content == "<current_context>\n{}\n</current_context>"


def test_the_next_turns_are_shown_what_tools_gave_shortened_and_then_no_longer() -> None:
    found = {"owner": "Ada", "notes": "x" * 5000, "pin": "4711"}
    asks = {"purpose": "Your number?", "tools": ["look"], "transitions": [{"target_state": "end"}]}
    states = {"ask": asks, "end": {}}
    secret = {"properties": {"pin": {"type": "string", "x-secret": True}}}
    host = worker(states, tools={"look": lambda: found}, context_schema=secret)
    done = host.say(
        _begin(host), "7", calls(("look", {})), reply("ask", "It is Ada's.", pin="4711")
    )
    assert "<tool_results>" not in done.requests[1].messages[1].content
    prompts = []
    for _ in range(4):
        done = host.say(done.session, "whose?", reply("ask", "Ada's."))
        prompts.append(done.prompt)
    first = prompts[0].split("<tool_results>\n")[1].split("\n</tool_results>")[0]
    [shown] = json.loads(first)
    assert shown["tool"] == "look"
    assert shown["result"].startswith('{"owner":"Ada"')
    assert len(shown["result"]) < 700
    assert "4711" not in first
    assert ["<tool_results>" in prompt for prompt in prompts] == [True, True, True, False]
