"""Cases, played: what is expected is held against what happens, and every miss is told at its line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import LLMRequest
from llm_fsm.testing.scenarios.assertions import same
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.results import Result

WORDS = 'the words are "So long.\\n\\nGoodbye, Ada!"'
GREETER: dict[str, Any] = {
    "name": "greeter",
    "initial_state": "hello",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "pin": {"type": "string", "x-secret": True},
            "code": {"type": "string", "x-source": "tool"},
            "known": {"type": "boolean", "x-source": "host"},
        },
    },
    "tools": {"find": {"registered": "find_it", "output": {"code": "$.code"}}},
    "states": {
        "hello": {
            "purpose": "Learn the name",
            "tools": ["find"],
            "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["name"]}]},
                {
                    "target_state": "late",
                    "auto": True,
                    "conditions": [{"logic": {">": [{"now": []}, 2000000000]}}],
                },
            ],
        },
        "bye": {"reply": "Goodbye, {{ name }}!"},
        "late": {"reply": "Too late."},
    },
}
WORK: dict[str, Any] = {
    "name": "work",
    "initial_state": "write",
    "states": {
        "write": {
            "kind": "task",
            "objective": "Write",
            "max_retries": 1,
            "key_results": [{"name": "long", "check": {">": [{"len": [{"var": "output"}]}, 3]}},
                            {"name": "fine", "check": {"registered": "is_fine"}}],
            "transitions": [{"target_state": "sign"}],
        },
        "sign": {
            "kind": "wait", "wait_for": "signature", "timeout": 60, "on_timeout": "lost", "output": {"by": "by"},
            "transitions": [{"target_state": "print"}],
        },
        "print": {"kind": "task", "execute": "printer", "transitions": [{"target_state": "done"}]},
        "lost": {"reply": "Nobody signed."},
        "done": {"kind": "final"},
    },
}  # fmt: skip
TO_BYE = {"to": "bye", "set": {"name": "Ada"}, "message": "So long."}


def results(document: dict[str, Any]) -> list[Result]:
    async def all_of_them() -> list[Result]:
        loaded = suite_of(json.dumps(document, indent=1), file="x.test.json")
        player = Player(loaded)
        found = [await player.play(play) for play in loaded.plays]
        await player.close()
        return found

    return asyncio.run(all_of_them())


def missed(case: dict[str, Any], definition: dict[str, Any] = GREETER) -> list[str]:
    [result] = results({"definition": definition, "cases": [case]})
    return [f"{failure.step}: {failure.message}" for failure in result.failures]


def after(expect: object, reply: object = TO_BYE) -> list[str]:
    """What is missed of an expectation after one message."""
    return [
        found.removeprefix("step 1: ")
        for found in missed({"steps": [{"say": "Ada", "reply": reply, "expect": expect}]})
    ]


@pytest.mark.parametrize(
    "expect",
    [
        "bye",
        {
            "state": ["hello", "bye"],
            "moved": True,
            "path": ["bye"],
            "ended": True,
            "outcome": "final",
            "calls": 1,
        },
        {
            "outcome": "passed",
            "context": {"name": "Ada", "pin": None},
            "context_exact": {"name": "Ada"},
            "absent": "pin",
        },
        {"text": ["So long.", "Ada!"]},
        {"text": {"equals": "So long.\n\nGoodbye, Ada!", "matches": "^So.*"}},
        {
            "logic": {
                "and": [
                    {"==": [{"var": "name"}, "Ada"]},
                    {"==": [{"var": "_current_state"}, "bye"]},
                ]
            }
        },
        {"tools": [], "paused": False},
        {
            "events": [
                "UserSaid",
                {"type": "ContextSet", "values": {"name": "Ada"}},
                "StateEntered",
                "Ended",
            ]
        },
        {"not": {"state": "hello", "text": "PIN", "ended": False, "events": ["MoveRefused"]}},
        {"any_of": ["hello", {"state": "bye", "ended": True}]},
        {"not": {"any_of": ["hello", {"state": "bye", "ended": False}]}},
        {"not": {"not": {"state": "bye", "text": "PIN"}}},
    ],
)
def test_what_is_so_passes(expect: object) -> None:
    assert after(expect) == []


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("hello", ['expected state "hello", but it is "bye"']),
        ({"state": ["hello", "late"]}, ['expected state ["hello", "late"], but it is "bye"']),
        (
            {"moved": False, "calls": 2},
            ["expected moved false, but it is true", "expected calls 2, but it is 1"],
        ),
        ({"path": []}, ['expected path [], but it is ["bye"]']),
        ({"context": {"name": "Bob"}}, ['expected name = "Bob", but it is "Ada"']),
        ({"context": {"code": "1"}}, ['expected code = "1", but it is not set']),
        ({"context_exact": {}}, ['expected exactly the context {}, but it is {"name": "Ada"}']),
        ({"absent": ["name"]}, ['expected name not to be set, but it is "Ada"']),
        (
            {"logic": {"==": [{"var": "name"}, "Bob"]}},
            ['expected {"==": [{"var": "name"}, "Bob"]} to hold, but it gives false'],
        ),
        ({"text": "Hello"}, [f'expected the words to contain "Hello", but {WORDS}']),
        ({"text": {"matches": "^Good"}}, [f'expected the words to match "^Good", but {WORDS}']),
        ({"text": {"equals": "x"}}, [f'expected the words "x", but {WORDS}']),
        ({"tools": ["find"]}, ['expected the tool calls ["find"], but they are []']),
        (
            {"events": ["Ended", "UserSaid"]},
            [
                'expected the event "UserSaid" after Ended, but there is '
                '{"type": "UserSaid", "text": "Ada", "time": 1893456000.0}'
            ],
        ),
        ({"ended": False}, ["expected ended false, but it is true"]),
        ({"outcome": "stuck"}, ['expected outcome "stuck", but it is "passed"']),
        ({"paused": True}, ["expected it to wait for an answer, but it does not"]),
        ({"error": "ModelError"}, ['expected the error "ModelError", but there was none']),
        (
            {"not": {"state": "bye", "text": ["x", "Good"]}},
            [
                'expected otherwise: state "bye"; and so it is',
                'expected otherwise: the words to contain "Good"; and so it is',
            ],
        ),
        (
            {"not": {"events": ["MoveRefused", "Ended"]}},
            ['expected otherwise: the event "Ended"; and so it is'],
        ),
        (
            {"not": {"any_of": ["hello", {"state": "bye", "ended": True}]}},
            ["expected this alternative not to hold; and it does"],
        ),
        ({"not": {"not": "hello"}}, ["expected something of this to be so; and nothing is"]),
        (
            {"any_of": ["hello", {"ended": False}]},
            [
                'none of the alternatives holds: (1) expected state "hello", but it is "bye"; '
                "(2) expected ended false, but it is true"
            ],
        ),
    ],
)
def test_what_is_otherwise_is_told(expect: object, said: list[str]) -> None:
    assert after(expect) == said


@pytest.mark.parametrize(
    ("reply", "expect", "said"),
    [
        (
            {"message": "?"},
            {"open": ["bye", "late", "repeat"], "missing": ["name", "age"], "shown": []},
            [],
        ),
        ({"set": {"age": 9}}, {"missing": ["name"], "shown": ["age"]}, []),
        (
            {"set": {"name": "Ada", "age": 9, "pin": "1234"}},
            {"missing": [], "shown": ["age", "name"]},
            [],
        ),
        (
            {"set": {"pin": "1234"}},
            {"open": ["late"], "missing": ["age"], "shown": ["pin"]},
            [
                'expected open ["late"], but it is ["bye", "late", "repeat"]',
                'expected missing ["age"], but it is ["name", "age"]',
                'expected shown ["pin"], but it is []',
            ],
        ),
        ({"to": "bye", "set": {"name": "Ada"}}, {"open": [], "missing": [], "shown": []}, []),
    ],
)
def test_what_the_model_is_asked_with_next_can_be_expected(
    reply: object, expect: object, said: list[str]
) -> None:
    machine: dict[str, Any] = {
        "name": "gate", "initial_state": "hello", "patterns": ["repeat"],
        "context_schema": {"type": "object", "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"},
            "pin": {"type": "string", "x-secret": True}, "shut": {"type": "boolean", "x-source": "host"},
        }},
        "states": {
            "hello": {"required_context_keys": ["name", "age"], "transitions": [
                {"target_state": "late", "priority": 200},
                {"target_state": "bye"},
                {"target_state": "shut", "conditions": [{"requires_context_keys": ["shut"]}]},
            ]},
            "bye": {}, "late": {}, "shut": {},
        },
    }  # fmt: skip
    assert missed({"steps": [{"say": "Ada", "reply": reply, "expect": expect}]}, machine) == [
        f"step 1: {one}" for one in said
    ]


@pytest.mark.parametrize(
    ("reply", "expect"),
    [
        ({"message": "Who?"}, {"state": "hello", "text": {"equals": "Who?"}, "calls": 1}),
        (
            {"transition": {"target_state": "bye", "context_update": {"name": "A"}}, "message": ""},
            {"context": {"name": "A"}},
        ),
        ({"fault": "down"}, {"error": "ModelError", "state": "hello", "calls": 0}),
        ({"fault": "timeout"}, {"error": "did not answer in time"}),
    ],
)
def test_replies_in_their_short_forms(reply: object, expect: object) -> None:
    assert after(expect, reply) == []


@pytest.mark.parametrize(
    ("found", "wanted", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ({"a": [1, {"b": None}]}, {"a": (1, {"b": None})}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ([1], [1, 2], False),
        ({"a": 1}, {"b": 1}, False),
        ("1", 1, False),
    ],
)
def test_values_are_the_same_as_json(found: object, wanted: object, equal: bool) -> None:
    assert same(found, wanted) is equal


def test_replies_that_are_no_replies_are_asked_for_once_more() -> None:
    for first in (
        "nonsense",
        {"fault": "empty"},
        {**TO_BYE, "fault": "cut_off", "message": ""},
        {"raw": [1]},
    ):
        step = {"say": "Ada", "replies": [first, TO_BYE], "expect": {"state": "bye", "calls": 2}}
        assert missed({"steps": [step]}) == []


def test_too_few_and_too_many_replies_are_told() -> None:
    assert missed({"steps": [{"say": "x"}]}) == [
        "step 1: the model is asked for a reply in state 'hello', and none is scripted for this step"
    ]
    assert missed({"steps": [{"say": "x", "replies": [TO_BYE, TO_BYE]}]}) == [
        "step 1: 1 of the scripted replies was never asked for"
    ]


def test_why_the_model_is_asked_again_is_told() -> None:
    [said] = missed({"steps": [{"say": "x", "reply": {"to": "bye", "message": "Bye."}}]})
    assert said.startswith(
        "step 1: the model is asked for a reply in state 'hello', and only 1 is scripted"
    )
    assert "; it is asked again, as it is told: Your reply cannot be used: " in said
    assert said.endswith(' else name "hello" as target_state, and ask for what is missing.')


def test_an_error_is_told_before_what_was_not_asked_for() -> None:
    steps = [{"end": True}, {"say": "x", "reply": TO_BYE, "expect": {"ended": False}}]
    assert missed({"steps": steps}) == [
        "step 2: it failed: ConversationEnded: This conversation has been closed; please start a new one.",
        "step 2: expected ended false, but it is true",
    ]


def test_later_steps_go_on_after_a_failed_one_and_misses_have_their_lines() -> None:
    text = """{"definition": "greeting", "cases": [{"name": "c",
  "start": {"expect": "hello"},
  "steps": [
    {"say": "x", "reply": {"message": "Sorry?"}, "expect": {
      "state": "occasion"}},
    {"say": "Ada", "reply": {"to": "occasion", "set": {"name": "Ada"}, "message": "Welcome"},
     "expect": {"context": {
        "name": "Bob"}}}],
  "expect": {
    "calls": 7}}]}"""

    async def lines() -> list[tuple[str, int, int]]:
        loaded = suite_of(text, file="x.test.json")
        [play] = loaded.plays
        return [
            (found.step, found.line, found.column)
            for found in (await Player(loaded).play(play)).failures
        ]

    assert asyncio.run(lines()) == [
        ("start", 2, 12),
        ("step 1", 5, 16),
        ("step 2", 8, 17),
        ("end", 10, 14),
    ]


def test_time_passes_only_by_waiting() -> None:
    steps = [
        {"say": "x", "reply": {"message": "Name?"}, "expect": "hello"},
        {"wait": 100},
        {"say": "x", "expect": "late"},
    ]
    assert missed({"time": 1999999950, "steps": steps}) == []


def test_a_conversation_that_is_closed_takes_no_message() -> None:
    steps = [
        {"end": True, "expect": {"ended": True}},
        {"say": "x", "expect": {"error": "ConversationEnded"}},
    ]
    assert missed({"steps": steps}) == []


@pytest.mark.parametrize(
    ("fixture", "calls", "said"),
    [
        ({"result": {"code": "7"}}, 1, []),
        ([{"error": "down"}, {"result": {"code": "7"}}], 2, []),
        ([{"when": {"id": 2}, "result": {"code": "9"}}, {"result": {"code": "7"}}], 1, []),
        (
            [{"when": {"id": 2}, "result": {"code": "9"}}],
            1,
            ["step 1: no result of the tool 'find' is for the arguments"],
        ),
        (None, 1, ["step 1: the tool 'find' was called, and the case says nothing of it"]),
    ],
)
def test_tools_are_played(fixture: object, calls: int, said: list[str]) -> None:
    replies = [*({"calls": [{"name": "find", "arguments": {"id": 1}}]},) * calls, TO_BYE]
    tools = [
        {"name": "find", "arguments": {"id": 1}, "error": number < calls - 1}
        for number in range(calls)
    ]
    expect = {"tools": tools, "context": {"code": "7"}} if not said else {"tools": ["find"]}
    given = {} if fixture is None else {"tools": {"find": fixture}}
    found = missed({**given, "steps": [{"say": "x", "replies": replies, "expect": expect}]})
    assert len(found) == len(said)
    assert all(one.startswith(beginning) for one, beginning in zip(found, said, strict=True))


ARGUMENTS = {"name": "find", "arguments": {"id": 1}}


@pytest.mark.parametrize(
    "reply",
    [
        {"tool_calls": [ARGUMENTS]},
        {"calls": [ARGUMENTS]},
        {"tool_calls": [ARGUMENTS], "message": "One moment."},
        {"tool_calls": [ARGUMENTS], "text": "One moment."},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": '{"id": 1}'}}],
        },
    ],
)
def test_a_test_file_calls_tools_as_a_scripted_model_does(reply: dict[str, Any]) -> None:
    tools = [{"name": "find", "arguments": {"id": 1}}]
    step = {
        "say": "x",
        "replies": [reply, TO_BYE],
        "expect": {"tools": tools, "context": {"code": "7"}},
    }
    assert missed({"tools": {"find": {"result": {"code": "7"}}}, "steps": [step]}) == []
    if "calls" not in reply:
        (call,) = asyncio.run(ScriptedLLM([reply]).complete(LLMRequest(messages=()))).tool_calls
        assert (call.name, json.loads(call.arguments)) == ("find", {"id": 1})


def test_arguments_that_do_not_fit_a_played_tool_are_refused() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    find = {"calls": [{"result": {}}], "parameters": schema}
    step = {
        "say": "x",
        "replies": [{"tool_calls": [{"name": "find", "arguments": {"id": [1]}}]}, TO_BYE],
        "expect": {"tools": [{"name": "find", "error": True}], "events": ["ToolRefused"]},
    }
    assert missed({"tools": {"find": find}, "steps": [step]}) == []


def test_handlers_are_played() -> None:
    handlers = [
        {
            "at": "pre_processing",
            "when": {"==": [{"var": "_turn"}, 1]},
            "set": {"known": True},
            "times": 1,
        },
        {"at": "pre_transition", "veto": "not yet", "times": 1},
        {"at": "post_processing", "state": "bye", "text": "Other words"},
    ]
    step = {
        "say": "x",
        "replies": [TO_BYE, TO_BYE],
        "expect": {
            "text": {"equals": "Other words"},
            "events": [{"type": "MoveRefused", "by": "veto"}],
        },
    }
    other = {
        "name": "without",
        "steps": [{"say": "x", "reply": TO_BYE, "expect": {"text": "Goodbye"}}],
    }
    found = results(
        {
            "definition": GREETER,
            "cases": [{"name": "with", "handlers": handlers, "steps": [step]}, other],
        }
    )
    assert [result.failures for result in found] == [(), ()]


def test_a_run_without_a_user_is_played() -> None:
    case = {
        "functions": {
            "is_fine": [{"passed": False, "reason": "dull"}, {"passed": True}],
            "printer": {"output": "printed"},
        },
        "input": "a letter",
        "start": {
            "replies": [{"message": "dull text"}, "a fine letter"],
            "expect": {
                "paused": {"what": "signature", "kind": "wait"},
                "events": [{"type": "AttemptFailed", "attempt": 1}, "TaskPassed"],
            },
        },
    }
    signed = {
        "answer": {"by": "Ada"},
        "expect": {"outcome": "passed", "context": {"by": "Ada"}, "output": "printed"},
    }
    late = {
        "wait": 61,
        "expect": {"state": "lost", "text": "Nobody signed.", "events": ["TimedOut"]},
    }
    assert missed({**case, "steps": [signed]}, WORK) == []
    assert missed({**case, "steps": [late]}, WORK) == []
    assert missed({**case, "steps": [{"wait": 59, "expect": {"paused": True}}]}, WORK) == []


def test_secrets_are_not_told() -> None:
    step = {
        "say": "4711",
        "reply": {"set": {"pin": "4711"}, "message": "?"},
        "expect": {"context": {"pin": "1234"}},
    }
    assert missed({"steps": [step]}) == ['step 1: expected pin = "1234", but it is "•••"']
    step["reply"]["message"] = "4711?"
    [result] = results({"definition": GREETER, "cases": [{"steps": [step]}]})
    assert [(said.heard, said.text) for said in result.said] == [(None, ""), ("•••", "•••?")]


def test_misses_stand_in_file_order_step_by_step() -> None:
    step = {"say": "x", "reply": {"message": "?"}, "expect": {"ended": True, "moved": True}}
    case = {"expect": {"calls": 5}, "steps": [step, step]}
    assert [said.split(",")[0] for said in missed(case)] == [
        "step 1: expected ended true",
        "step 1: expected moved true",
        "step 2: expected ended true",
        "step 2: expected moved true",
        "end: expected calls 5",
    ]


def test_a_case_that_is_skipped_is_not_played() -> None:
    [result] = results(
        {"definition": GREETER, "cases": [{"skip": "later", "steps": [{"say": "x"}]}]}
    )
    assert (result.skipped, result.passed, result.turns) == ("later", True, ())
