"""A reply read while it arrives: any form, in pieces of any size."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.turn.reply.parser import parse
from llm_fsm.turn.reply.stream import ReplyReader

TEXTS = st.text(st.sampled_from([*'ab \n"\\{}[]<>`/u,:é日😀\t\ud83d']), max_size=20)
VALUES = st.sampled_from([1, None, True, [1, "]"], {"a": {}, "b": "}"}, -1.5, 'x"}'])
MOVES = st.fixed_dictionaries(
    {
        "target_state": st.sampled_from(["a", "b}", 'c"{']),
        "context_update": st.fixed_dictionaries({"x": TEXTS, "y": VALUES}),
    }
)
NESTED = re.compile(r"(?:```[A-Za-z]*\s*)?\{")
WRAPS = (
    "{}",
    " \n{}\n",
    "\ufeff{}",
    "```json\n{}\n```",
    "Here it is:\n```\n{}```",
    "Sure! {}\nAnything else?",
    "[{}]",
    '<think>What of {{"message": "x"}}?</think>\n{}',
    "<Thinking>hm</Thinking>{}",
    "<reasoning>İ<think></reasoning> So:\n{}",
    '<think>a</think> <Thinking>{{"transition": {{"target_state": "x"}}, "message": "y"}}</Thinking>{}',
    '[THINK]Or {{"transition": {{"target_state": "x"}}, "message": "y"}}?[/THINK]{}',
    '◁think▷{{"transition": {{"target_state": "x"}}, "message": "y"}}◁/think▷{}',
    '<thought>{{"transition": {{"target_state": "x"}}, "message": "y"}}</thought>{}',
    "Hm, they gave a name.\n</think>\n\n{}",
    "</think>{}",
    "So <b>this</b>.\n</thinking> Here: {}",
)


@st.composite
def replies(draw: st.DrawFn) -> str:
    """A reply in the form that is asked for, however it is written and wrapped."""
    document: dict[str, Any] = {}
    if draw(st.booleans()):
        document["reasoning"] = draw(TEXTS)
    document["transition"] = draw(MOVES)
    if draw(st.booleans()):
        document["other"] = draw(VALUES)
    document["message"] = draw(TEXTS)
    if draw(st.booleans()):
        document["after"] = draw(VALUES)
    text = json.dumps(
        document, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
    )
    return draw(st.sampled_from(WRAPS)).format(text)


def heard(text: str, sizes: random.Random | int) -> tuple[ReplyReader, list[str]]:
    """The reader after the text, and its words after each piece."""
    reader, words, at = ReplyReader(), [], 0
    while at < len(text):
        size = sizes if isinstance(sizes, int) else sizes.choice([1, 1, 2, 3, 7, 20])
        words.append((words[-1] if words else "") + reader.feed(text[at : at + size]))
        at += size
    return reader, words


@given(replies(), st.randoms(use_true_random=False))
def test_any_cut_gives_the_words_of_the_reply_and_its_move(
    text: str, chance: random.Random
) -> None:
    reader, words = heard(text, chance)
    whole = parse(text)
    assert words[-1] == ("" if NESTED.match(whole.message) else whole.message)
    assert all(after == after.strip() for after in words)
    assert reader.head is not None
    head = parse(reader.head)
    assert (head.target, head.update, head.message) == (whole.target, whole.update, "")


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "Hi", "transition": {"target_state": "a"}}',
        'Sure, {name}! {"transition": {"target_state": "a"}, "message": "Hi"}',
        'First <b>this</b>: {"transition": {"target_state": "a"}, "message": "Hi"}',
        '"{\\"transition\\": {\\"target_state\\": \\"a\\"}, \\"message\\": \\"Hi\\"}"',
        "{'transition': {'target_state': 'a'}, 'message': 'Hi'}",
        '{transition: {target_state: "a"}, message: "Hi"}',
        '{"transition": {target_state: "a"}, "message": "Hi"}',
        '{"transition": "a", "message": "Hi"}',
        '{"transition": {"target_state": "a"}, "context_update": {"x": 1}, "message": "Hi"}',
        '{"name": "reply", "arguments": {"transition": {"target_state": "a"}, "message": "Hi"}}',
        '{"transition": {"target_state": "a"}, "message": null}',
        '{"transition": {"target_state": "a"}, "message": {"text": "Hi"}}',
        '<tool>{"transition": {"target_state": "a"}, "message": "Hi"}',
        '<think>{"transition": {"target_state": "a"}, "message": "Hi"}',
        '{"transition": {"target_state": "a"}, "message": " {\\"message\\": \\"Hi\\"}"}',
        '{"transition": {"target_state": "a"}, "message": " ```json\\n{\\"message\\": \\"Hi\\"}```"}',
        '{"transition": {"target_state": "a"}, "message": "``` {\\"transition\\": {\\"target"}',
        '{"transition": {"target_state": "a"}, "message": "<think>They ask."}',
        '{"transition": {"target_state": "a"}, "message": "\\n[THINK]They ask.[/THINK] Hi"}',
        '<rea\u017foning>{"transition": {"target_state": "a"}, "message": "Hi"}',
        "Hello there, how are you?",
        "",
    ],
)
def test_of_another_form_nothing_is_given_before_its_end(text: str) -> None:
    for size in (1, 5, 1000):
        _, words = heard(text, size)
        assert not any(words)


def test_words_come_character_by_character_and_escapes_when_they_are_whole() -> None:
    head = '{"transition":{"target_state":"a"},"message":"'
    _, words = heard(head + r"A\n\ud83d\ude00\u00e9!" + '"}', 1)
    told = [now for before, now in pairwise(words) if now != before]
    assert told == ["A", "A\n😀", "A\n😀é", "A\n😀é!"]


@pytest.mark.parametrize(
    "words",
    [
        *["``", "```", "`a` b", "```python\nprint()\n```", "```js\n", "```\nx {\n```"],
        *["<", "<b>x</b>", "[", "[th] x", "<think"],
    ],
)
def test_words_that_begin_with_code_or_a_bracket_are_words(words: str) -> None:
    for size in (1, 2, 5, 1000):
        _, told = heard(json.dumps({"transition": {"target_state": "a"}, "message": words}), size)
        assert told[-1] == words.strip()


def test_a_thought_of_any_length_that_the_prompt_began_is_gone_past() -> None:
    text = (
        "They gave a name, so " * 500 + '</think>{"transition":{"target_state":"a"},"message":"Hi"}'
    )
    for size in (7, 100_000):
        reader, words = heard(text, size)
        assert (words[-1], reader.head) == (
            "Hi",
            '{"transition":{"target_state":"a"},"message":""}',
        )


@pytest.mark.parametrize(
    "message",
    [
        "A\ud83d\ude00 \ud83d\ude00\ud83c\udde9B",
        r"A\ud83d" + "\ude00 \ud83d" + r"\ude00\ud83c\udde9B",
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_halves_of_a_character_wait_for_each_other(message: str, size: int) -> None:
    text = f'{{"transition":{{"target_state":"a","context_update":{{"x":"\ud83d\ude00"}}}},"message":"{message}"}}'
    reader, words = heard(text, size)
    assert words[-1] == parse(text).message == "A😀 😀🇩B"
    assert all(told.encode() for told in words if told)
    assert reader.head is not None
    assert parse(reader.head).update == {"x": "😀"}


@pytest.mark.parametrize("half", ["\ud83d", r"\ud83d", r"\uDE00"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_half_a_character_without_its_other_half_is_replaced(half: str, size: int) -> None:
    text = f'{{"transition":{{"target_state":"a"}},"message":"{half}A{half}{half} {half}"}}'
    _, words = heard(text, size)
    assert words[-1] == parse(text).message == "\ufffdA\ufffd\ufffd \ufffd"


def test_words_stop_at_an_escape_that_is_none() -> None:
    _, words = heard('{"transition":{"target_state":"a"},"message":"A\\qB"}', 3)
    assert words[-1] == "A"


@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning":"' + "so " * 200_000 + '","transition":{"target_state":"a"},"message":"Hi"}',
        "<think>" + "so " * 200_000 + '</think>{"transition":{"target_state":"a"},"message":"Hi"}',
        '{"transition":{"target_state":"a","context_update":{"x":"'
        + "so " * 200_000
        + '"}},"message":"Hi"}',
        '{"transition":{"target_state":"a"},"message":"' + "so " * 200_000 + '"}',
    ],
    ids=["reasoning", "thought", "value", "words"],
)
def test_what_was_gone_past_is_not_looked_at_again(text: str) -> None:
    reader, kept = ReplyReader(), 0
    for at in range(0, len(text), 8):
        reader.feed(text[at : at + 8])
        kept = max(kept, len(reader._text))
    assert reader.head is not None
    assert kept < 300


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{" + "\n" * 1_000_000, 1_000_000),
        ("</think>" * 120_000 + "{", 1_000_000),
        ('{"transition":{"target_state":"a"},"message":"```' + "\n" * 1_000_000, 8),
        ('{"transition":{"target_state":"a"},"message":"Hi' + " " * 3_000_000, 8),
    ],
    ids=["before-a-key", "ends-of-thoughts", "after-a-fence", "after-words"],
)
def test_a_model_that_repeats_itself_without_end_holds_nothing_up(text: str, size: int) -> None:
    """What took the square of this length would outlast the time that a test has."""
    _, told = heard(text, size)
    assert told[-1] in ("", "Hi")


def test_a_list_of_updates_is_complete_before_the_first_word() -> None:
    listed = [{"key": "guests", "value": 4}, {"key": "_clear", "value": "phone"}]
    text = json.dumps(
        {"transition": {"target_state": "a", "context_update": listed}, "message": "Four."}
    )
    reader, said = ReplyReader(), ""
    for letter in text:
        words = reader.feed(letter)
        assert not words or reader.head is not None
        said += words
    assert said == "Four."
    assert reader.head is not None
    assert parse(reader.head).update == {"guests": 4, "_clear": ["phone"]}


FLAT = {
    "context_update": {"x": 'a"}', "y": [1, "]"]},
    "target_state": "a",
    "message": "Hello, you.",
}


@pytest.mark.parametrize("order", [list(FLAT), ["target_state", "context_update", "message"]])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_reply_on_one_level_is_read_ahead(order: list[str], size: int) -> None:
    text = json.dumps({name: FLAT[name] for name in order})
    reader = ReplyReader()
    words = "".join(reader.feed(text[start : start + size]) for start in range(0, len(text), size))
    assert words == "Hello, you."
    assert reader.head is not None
    assert parse(reader.head)[:2] == parse(text)[:2] == ("a", FLAT["context_update"])


def test_an_update_beside_a_transition_is_not_read_ahead() -> None:
    reader = ReplyReader()
    move = {"transition": {"target_state": "a"}, "context_update": {}, "message": "Hello"}
    assert reader.feed(json.dumps(move)) == ""
    twice = '{"target_state": "a", "target_state": "b", "message": "Hello"}'
    assert ReplyReader().feed(twice) == ""
