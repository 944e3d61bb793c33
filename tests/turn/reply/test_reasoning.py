"""What a model thought before its reply is no part of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.turn.reply.parser import parse, parse_words
from llm_fsm.turn.reply.reasoning import after_thoughts, unthought

DRAFT = '{"transition": {"target_state": "z"}, "message": "No"}'
GOOD: dict[str, Any] = {"transition": {"target_state": "a"}, "message": "Hi"}


@pytest.mark.parametrize(
    "thought",
    [
        f"<think>{DRAFT}</think>",
        f"<thought>{DRAFT}</thought>\n<THINK>{DRAFT}</think>",
        f"<seed:think>{DRAFT}</seed:think>",
        f"[THINK]{DRAFT}[/THINK]",
        f"◁think▷{DRAFT}◁/think▷",
        f"Maybe {DRAFT}\n</think>\n",
        f"<think>a<think>{DRAFT}</think>{DRAFT}</think>",
        f"Well. <think>{DRAFT}</think>",
    ],
    ids=["tags", "several", "seed", "brackets", "triangles", "no-opening", "nested", "after-prose"],
)
def test_of_a_reply_in_a_thought_nothing_counts(thought: str) -> None:
    text = thought + json.dumps(GOOD)
    assert (parse(text).target, parse(text).message, parse_words(text).message) == ("a", "Hi", "Hi")


@pytest.mark.parametrize("after", ["</think>", "<think>So.</think>", " <think>{x}</think> {y}"])
def test_a_reply_before_an_end_of_thoughts_counts_where_none_follows(after: str) -> None:
    assert parse(DRAFT + after).target == "z"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("<think>They ask.</think>\n\nHi", "Hi"),
        ("[THINK]a[/THINK]◁think▷b◁/think▷Hi", "Hi"),
        (f"<thinking>a</thinking>{json.dumps(GOOD)}", "Hi"),
        ("<think>They ask", "<think>They ask"),
        ("<b>Hi</b> [think]", "<b>Hi</b> [think]"),
        ("Use <think>x</think>", "Use <think>x</think>"),
        ("<think>They ask.</think>", ""),
    ],
)
def test_a_thought_before_the_words_is_not_said(message: str, said: str) -> None:
    assert parse(json.dumps({**GOOD, "message": message})).message == said


def test_a_text_without_thoughts_stays_as_it_is() -> None:
    assert (unthought("a </think> b"), after_thoughts("a <b> {c}")) == ("a </think> b", "a <b> {c}")


def test_any_number_of_ends_of_thoughts_is_gone_past() -> None:
    """What took the square of this length would outlast the time that a test has."""
    assert after_thoughts("</think>" * 1_500_000 + DRAFT) == DRAFT
