"""Simulated users: a second model plays somebody, over real HTTP, and what comes of it is counted."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from cli_command import GREETER, Desk, desk
from llm_fsm.testing import HttpReply, calls, serve_scripted

__all__ = ["desk"]

GOAL = {"==": [{"var": "name"}, "Ada"]}
USER = {
    "name": "hasty",
    "persona": "You type <fast>.",
    "goal": "Give the name Ada",
    "success": GOAL,
    "max_turns": 4,
}


class Both:
    """The machine's model and the user's, told apart by what they are asked."""

    def __init__(self, *human: str, verdict: str = "") -> None:
        self.human = list(human)
        self.verdict = verdict
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        first = body["messages"][0]["content"]
        if first.startswith("You judge"):
            return self.verdict
        if first.startswith("You play"):
            self.asked.append(first)
            said = sum(message["role"] == "assistant" for message in body["messages"])
            return self.human[min(said, len(self.human) - 1)]
        last = body["messages"][-1]["content"]
        to, update = (
            ("bye", {"name": "Ada"})
            if "Ada" in last.rsplit("<user_input>", 1)[-1]
            else ("hello", {})
        )
        return {
            "transition": {"target_state": to, "context_update": update},
            "message": "Your name?",
        }


def simulated(desk: Desk, policy: Any, user: Any, *options: str) -> tuple[int, str]:
    desk.write("u.test.json", {"definition": "greeter.json", "users": [user]})
    with serve_scripted(policy) as server:
        done = desk.run(
            "test", "--simulate", "--model", "m", "--base-url", server.base_url, *options
        )
    return done.code, done.out + done.err


def test_a_goal_that_is_reached_is_counted(desk: Desk) -> None:
    policy = Both("hi", "I am Ada")
    code, out = simulated(desk, policy, USER, "--times", "2")
    assert code == 0
    assert "     2 of 2  100%  u.test.json::hasty  2.0 turns\n" in out
    assert "You type \\u003cfast\\u003e." in policy.asked[0]


@pytest.mark.parametrize(
    ("policy", "user", "told"),
    [
        (
            Both("hi"),
            USER,
            "in hello, after 4 turns: the success rule does not hold; the user gave up after max_turns, 4",
        ),
        (
            Both("[END]"),
            USER,
            "in hello, after 0 turns: the success rule does not hold; the user left",
        ),
        (
            Both(" "),
            USER,
            "in hello, after 0 turns: the success rule does not hold; the user said nothing",
        ),
        (Both("hi"), {**USER, "success": {"date": ["x"]}}, "the success rule cannot be evaluated"),
        (
            Both("I am Ada", verdict='{"passed": false, "reason": "rude"}'),
            {**USER, "judge": "It was polite"},
            "after 1 turn: rude",
        ),
        (
            Both("I am Ada", verdict="hm"),
            {**USER, "judge": "It was polite"},
            "the judge gave no verdict",
        ),
        (Both("hi"), {"persona": "p", "goal": "g", "max_turns": 1}, "the conversation did not end"),
    ],
)
def test_a_goal_that_is_not_reached_is_told_and_fails_nothing(
    desk: Desk, policy: Any, user: Any, told: str
) -> None:
    code, out = simulated(desk, policy, user)
    assert (code, told in out) == (0, True), out


def test_where_an_error_ended_every_conversation_nothing_was_measured_and_that_fails(
    desk: Desk,
) -> None:
    broken = [HttpReply(status=400)] * 4
    code, out = simulated(desk, broken, USER)
    assert (code, "ModelError" in out) == (1, True), out


def test_an_error_in_one_of_several_conversations_fails_nothing(desk: Desk) -> None:
    policy, refused = Both("I am Ada"), []

    def first_is_refused(body: dict[str, Any]) -> Any:
        if not refused:
            refused.append(body)
            return HttpReply(status=400)
        return policy(body)

    code, out = simulated(desk, first_is_refused, USER, "--times", "2")
    assert (code, "1 of 2" in out, "ModelError" in out) == (0, True, True), out


def test_a_threshold_makes_a_gate_of_it(desk: Desk) -> None:
    assert simulated(desk, Both("hi"), USER, "--threshold", "0.5")[0] == 1
    assert simulated(desk, Both("I am Ada"), USER, "--threshold", "0.5")[0] == 0


def test_a_judge_may_say_so_and_a_rate_stands_in_the_xml_for_programs(desk: Desk) -> None:
    policy = Both("I am Ada", verdict='Well: {"passed": true, "reason": "kind"}')
    assert simulated(desk, policy, {**USER, "judge": "It was polite"}, "--junitxml=r.xml")[0] == 0
    found = {
        one.get("name"): one.get("value")
        for one in ET.parse(desk.folder / "r.xml").iter("property")
    }
    assert found == {"runs passed": "1 of 1", "turns on average": "1.0"}


def test_there_may_be_nobody(desk: Desk) -> None:
    desk.write(
        "a.test.json", {"definition": "greeter.json", "steps": [{"say": "x", "expect": "hello"}]}
    )
    desk.replies()
    done = desk.run("test", "--simulate", "--model", "offline")
    assert (done.code, "name another one with --user-model" in done.err) == (4, True)
    done = desk.run("test", "--simulate", "--model", "scripted:replies.json")
    assert (done.code, "no tests ran" in done.out) == (5, True)
    desk.write("b.test.json", {"definition": "greeter.json", "users": [{"persona": "p"}]})
    done = desk.run("test", "--simulate", "--model", "scripted:replies.json")
    assert (done.code, 'b.test.json:1:42: error: the key "goal" is missing' in done.out) == (
        1,
        True,
    ), done.out


def test_users_alone_are_no_cases(desk: Desk, tmp_path: Path) -> None:
    desk.write("u.test.json", {"definition": "greeter.json", "users": [USER]})
    assert desk.run("test").code == 5


def test_a_user_finds_tools_and_context_as_the_file_sets_them_and_no_secret_is_reported(
    desk: Desk,
) -> None:
    greeter = {**GREETER, "tools": {"find": {"registered": "find"}}}
    greeter["states"] = {
        **GREETER["states"],
        "hello": {**GREETER["states"]["hello"], "tools": ["find"]},
    }
    desk.write("greeter.json", greeter)
    both, called = Both("My pin is 4711"), list[str]()

    def answer(body: dict[str, Any]) -> Any:
        if body["messages"][0]["content"].startswith("You play"):
            return both(body)
        last = body["messages"][-1]
        if last["role"] != "tool":
            return calls(("find", {"id": 7}))
        called.append(last["content"])
        update = {"name": "Ada", "pin": "4711"}
        return {
            "transition": {"target_state": "bye", "context_update": update},
            "message": "I noted 4711",
        }

    user = {**USER, "success": {"==": [{"var": "age"}, 7]}, "context": {"age": 7}}
    file = {
        "definition": "greeter.json",
        "tools": {"find": {"result": "table 4"}},
        "context": {"age": 5},
    }
    desk.write("u.test.json", {**file, "users": [user]})
    with serve_scripted(answer) as server:
        options = ("--model", "m", "--base-url", server.base_url, "--threshold", "1", "-rA")
        done = desk.run("test", "--simulate", *options)
    assert (done.code, "4711" in done.out, "table 4" in called[0]) == (0, False, True), done.out


def test_a_user_whom_no_model_plays_is_refused(desk: Desk) -> None:
    desk.write("u.test.json", {"definition": "greeter.json", "users": [USER]})
    done = desk.run("test", "--simulate", "--model", "offline")
    assert (done.code, "name another one with --user-model" in done.err) == (4, True)
