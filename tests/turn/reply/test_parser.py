"""From text to a reply, or to one named fault."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.errors import ReplyError
from llm_fsm.turn.reply.parser import Reply, parse, parse_words

GOOD = (
    '{"transition":{"target_state":"bye","context_update":{"name":"Ada"}},"message":"Hi \\"x\\""}'
)
READ = Reply(target="bye", update={"name": "Ada"}, message='Hi "x"')


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  \ufeff{GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Sure, here it is:\n{GOOD}\nAnything else?",
        f'<think>{{"transition": {{"target_state": "z"}}}} or not</think>\n{GOOD}',
        GOOD + GOOD,
        f'{{"thought": 1}} {GOOD}',
        f'{{"transition":{{"target_state":"","context_update":{{"_extra":{{}},"_clear":[]}}}},"message":""}}\n{GOOD}',
        json.dumps(GOOD),
        GOOD[:-1],
        GOOD.replace("}}", "}, // done\n}").replace('x\\""}', 'x\\"",}'),
    ],
    ids=[
        *["plain", "space", "fence", "prose", "thinking", "twice", "beside", "form", "as-a-string"],
        *["unclosed", "comments"],
    ],
)
def test_a_reply_is_found_whatever_stands_around_it(text: str) -> None:
    assert parse(text) == READ


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace('"', "'").replace("\\'", '"'), 'Hi "x"'),
        ('{transition:{target_state:"bye",context_update:{name:"Ada"}},message:"Hi"}', "Hi"),
        (GOOD.replace("Hi ", "Hi\n"), 'Hi\n"x"'),
        (GOOD[: GOOD.rindex("x") - 3], "Hi"),
    ],
    ids=["single-quotes", "bare-keys", "raw-newline", "cut-off-in-the-message"],
)
def test_faulty_json_is_repaired(text: str, message: str) -> None:
    found = parse(text)
    assert (found.target, found.update, found.message) == ("bye", {"name": "Ada"}, message)


HEAD = r'{"transition":{"target_state":"a","context_update":{"at":"http:\/\/x","who":"\ud83d\ude00 \u00fc"}},'


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (r'"message":"Hi \ud83d', "Hi"),
        (r'"message":"Hi \ud83d\ude', "Hi"),
        (r'"message":"Hi \u00', "Hi"),
        ('"message":"Hi\nyou \\', "Hi\nyou"),
        (r'"message":"Hi \\', "Hi \\"),
        (r'"message":"Hi \ud83d\ude00","other":[1,{"a":tr', "Hi 😀"),
        (r'"message":"Hi \ud83d\ude00","oth', "Hi 😀"),
        (r'message:"Hi \ud83d\ude00 http:\/\/x \u0022 \\"}', 'Hi 😀 http://x " \\'),
        (r'"message":"Hi \q there"}', r"Hi \q there"),
        (r'"message":"Hi \q there', r"Hi \q there"),
        (r'"message":"Hi", other:{"a":"\/"}}', "Hi"),
    ],
)
def test_mending_the_words_of_a_reply_changes_none_of_its_values(rest: str, message: str) -> None:
    found = parse(HEAD + rest)
    assert (found.update, found.message) == ({"at": "http://x", "who": "😀 ü"}, message)


@pytest.mark.parametrize(
    "text",
    [
        '{"transition":{"target_state":"a","context_update":{"n":1},"message":"Hi"}}',
        '{"transition":{"target_state":"a","context_update":{"n":1},"message":"Hi"}',
        '{"transition":{"target_state":"a","context_update":{"n":1},"message":"Hi',
        '{"transition":{"target_state":"a","context_update":{"n":1},"message":"Hi"},"message":""}',
        '{"target_state":"a","context_update":{"n":1},"message":"Hi"}',
        'Here it is: ```json\n{"target_state":"a","context_update":{"n":1},"message":"Hi"}\n```',
    ],
    ids=[
        "in-the-transition",
        "and-unclosed",
        "and-cut-off",
        "and-empty-outside",
        "on-one-level",
        "and-in-a-fence",
    ],
)
def test_words_and_moves_on_the_wrong_level_count(text: str) -> None:
    assert parse(text) == Reply("a", {"n": 1}, "Hi")
    assert parse_words(text).message == "Hi"


@pytest.mark.parametrize(
    "text",
    [
        '{"target_state":"a","message":"Hi"} {"target_state":"b","message":"Hello"}',
        'Maybe {"target_state":"a","message":"Hi"} or {"target_state":"b","message":"Hello"}',
        '```json\n{"target_state":"a","message":"Hi"}\n```\n```json\n{"target_state":"b","message":"Hello"}\n```',
        '{transition:{target_state:"a"},"message":"Hi"} {transition:{target_state:"b"},"message":"Hello"}',
    ],
    ids=["side-by-side", "in-prose", "in-fences", "and-broken"],
)
def test_of_several_replies_on_one_level_none_is_guessed(text: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse(text)
    assert caught.value.fault == "several-objects"


CALL = '{"name": "reply", "arguments": %s}'


@pytest.mark.parametrize(
    "text",
    [
        CALL % GOOD,
        CALL % json.dumps(GOOD),
        f"<tool_call>\n{CALL % GOOD}\n</tool_call>",
        f"[TOOL_CALLS][{CALL % GOOD}]",
        f'{{"type": "function", "function": {CALL % json.dumps(GOOD)}}}',
        f'Here: {{"response": {GOOD}}}',
        f'{{"type": "object", "properties": {GOOD}, "required": ["transition"]}}',
    ],
    ids=[
        "call",
        "its-arguments-as-text",
        "in-tags",
        "in-a-list",
        "in-full",
        "named",
        "as-a-schema",
    ],
)
def test_a_reply_that_another_object_holds_counts(text: str) -> None:
    assert parse(text) == READ
    assert parse_words(text).message == READ.message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f'{{"a": {GOOD}, "b": {GOOD.replace("bye", "stay")}}}', "no-target"),
        (f'{{"message": "Hi", "before": {GOOD}}}', "no-target"),
        (f"{CALL % GOOD} or {CALL % GOOD.replace('bye', 'stay')}", "several-objects"),
        (f'{{"a": {{"b": {{"c": {{"d": {GOOD}}}}}}}}}', "no-target"),
        (
            '{"type": "object", "properties": {"transition": {"properties": {"target_state": {}}}}}',
            "no-target",
        ),
        ('{"Transition": {"target_state": "bye"}, "Message": "Hi"}', "no-target"),
    ],
    ids=["two", "beside-words", "two-calls", "too-deep", "a-schema", "a-move-alone"],
)
def test_what_holds_no_certain_reply_is_a_fault(text: str, fault: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse(text)
    assert caught.value.fault == fault


MOVE = '{"target_state": "bye", "context_update": {"name": "Ada"}}'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"transition": {json.dumps(MOVE)}, "message": "Hi"}}',
        '{"transition": {"target_state": "bye", "context_update": "{\\"name\\": \\"Ada\\"}"}, "message": "Hi"}',
        '{"transition": {"target_state": "bye", "context_update": [{"key": "name", "value": "Ada"}]}, "message": "Hi"}',
        '{"transition": {"target_state": "bye"}, "context_update": {"name": "Ada"}, "message": "Hi"}',
        '{"message": "Hi", "transition": {"target_state": "bye", "context_update": {"name": "Ada"}}}',
        f'{{"transition": {MOVE}}}, "message": "Hi"}}',
        json.dumps({"transition": MOVE[:-1] + ', "message": "Hi"}'}),
    ],
    ids=[
        "text-move",
        "text-update",
        "pairs",
        "update-beside",
        "message-first",
        "brace-too-many",
        "words-in-text-move",
    ],
)
def test_parts_of_a_reply_in_another_form_count(text: str) -> None:
    assert parse(text) == Reply(target="bye", update={"name": "Ada"}, message="Hi")


@pytest.mark.parametrize(
    "target", ["\u2068who\u2069\u200f", "\u061cwho", "\u3000who\xa0", "who\u2003"]
)
def test_marks_of_direction_and_blanks_around_a_target_are_not_part_of_it(target: str) -> None:
    assert (
        parse(f'{{"transition": {{"target_state": "{target}"}}, "message": "من؟"}}').target == "who"
    )


def test_an_update_after_the_words_is_named_and_does_not_count() -> None:
    found = parse(
        '{"transition": {"target_state": "a"}, "message": "m", "context_update": {"x": 1}}'
    )
    assert (found.update, found.update_fault) == ({}, "context_update must stand in transition")


@pytest.mark.parametrize("value", ['[""]', "[false, {}]", r'"\\\t"', '"\u00e9\\/"'])
def test_a_sound_transition_is_taken_as_it_was_sent(value: str) -> None:
    text = f'{{"transition":{{"target_state":"a","context_update":{{"k":{value}}}}},"message":"one "two" three"}}'
    assert parse(text).update == {"k": json.loads(value)}


@pytest.mark.parametrize(
    "text",
    [
        '{"transition":{"target_state":"a","context_update":{"note":"first line\nsecond li',
        '{"transition":{"target_state":"a","context_update":{"note":"a\x01b","amount":12',
        r'{"transition":{"target_state":"a","context_update":{"note":"\ud83d x","amount":12',
        '{"transition":{"target_state":"a","context_update":{"n":NaN,"amount":12',
        "{'transition':{'target_state':'a','context_update':{'day':'Tues",
        '{transition:{"target_state":"a","context_update":{"name":"Ad',
        '{"transition":{"target_state":"a","context_update":{"amount":12}},"message":',
        '{"transition":{"target_state":"a","context_update":{"amount":12}},"mess',
        '{"transition":{"target_state":"a","message":"Hi","context_update":{"amount":12',
        '{"transition":{"target_state":"a","context_update":{"amount":12,"message":"Hi"}}',
        '{"target_state":"a","context_update":{"amount":12',
        '{"transition":{"target_state":"a","message":"Hi","context_upd',
        '{"transition":{"target_state":"a","message":"Hi","context_update":',
        '{"transition":{"target_state":"a","message":"Hi',
        '{transition:{"target_state":"a","message":"one "two" three","contex',
    ],
)
def test_a_value_that_was_cut_off_is_never_taken_as_whole(text: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse(text)
    assert caught.value.fault == "cut-off"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("I would say bye", "not-json"),
        ("<html><body>502</body></html>", "not-json"),
        ("null", "not-json"),
        ("[1, 2]", "not-json"),
        ("{}", "no-target"),
        ('{"message": "hi"}', "no-target"),
        ('{"transition": null, "message": "hi"}', "no-target"),
        ('{"transition": "bye"}', "no-target"),
        ('{"transition": {"target_state": 7}}', "no-target"),
        ('{"transition": {"target_state": " "}}', "no-target"),
        ('{"transition": {"target_state": "a", "target_state": "b"}}', "duplicate-key"),
        (GOOD + GOOD.replace("bye", "stay"), "several-objects"),
        (GOOD[:52], "cut-off"),
        (GOOD[:66], "cut-off"),
        ('{"a":' * 100_000, "too-deep"),
        ("{" * 900_000, "too-deep"),
        ("Well, " + "{" * 300, "too-deep"),
        ("x" * 1_000_001, "too-long"),
        ('"just words"', "not-object"),
    ],
)
def test_everything_else_is_one_named_fault(text: str, fault: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse(text)
    assert caught.value.fault == fault


def test_equal_duplicates_are_no_fault() -> None:
    assert (
        parse('{"transition": {"target_state": "a", "target_state": "a"}, "message": "m"}').target
        == "a"
    )


@pytest.mark.parametrize("message", ["null", "7", "[]", '{"a": 1}', '"  "'])
def test_message_that_is_no_text_is_empty(message: str) -> None:
    assert parse('{"transition": {"target_state": "a"}, "message": %s}' % message).message == ""  # noqa: UP031


def test_update_that_is_no_object_is_named() -> None:
    found = parse('{"transition": {"target_state": "a", "context_update": [1]}, "message": "m"}')
    assert (found.update, found.update_fault) == ({}, "context_update must be an object")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('{"message": " Hi "}', "Hi"),
        (GOOD, 'Hi "x"'),
        ('{"message": {"text": "Hi"}}', '{"message": {"text": "Hi"}}'),
        ("{name} is a message", "{name} is a message"),
        ('{"a": 1}', '{"a": 1}'),
        (json.dumps({"transition": {"target_state": "a"}, "message": GOOD}), 'Hi "x"'),
        ('{"transition": {"target_state": "a", "message": "Hi"}}', "Hi"),
        ('{"target_state": "a", "message": "Hi"}', "Hi"),
        (GOOD[: GOOD.rindex("Hi") + 2], "Hi"),
        (f"```json\n{GOOD}\n```", 'Hi "x"'),
        (f"```\n{GOOD[:-1]}", 'Hi "x"'),
        ('{"transition": "fade", "seconds": 2}', '{"transition": "fade", "seconds": 2}'),
        ('{"name": "Ada"} is JSON', '{"name": "Ada"} is JSON'),
        ("```python\n{}\n```", "```python\n{}\n```"),
    ],
)
def test_a_reply_within_the_message_is_not_said_as_json(message: str, said: str) -> None:
    text = json.dumps({"transition": {"target_state": "a"}, "message": message})
    assert (parse(text).message, parse_words(text).message) == (said, said)


@pytest.mark.parametrize(
    "message",
    [
        "{",
        '{"trans',
        '{"transition',
        '{"transition": {"target_st',
        '{"transition": {"target_state": "a"}}',
        '{"target_state": "a"}',
        '{"message": "a", "message": "b"}',
        "{\n",
    ],
)
def test_a_reply_within_the_message_that_holds_no_words_leaves_none(message: str) -> None:
    text = json.dumps({"transition": {"target_state": "a"}, "message": message})
    assert parse(text).message == ""
    with pytest.raises(ReplyError, match="lacks"):
        parse_words(text)


def test_halves_of_a_character_that_came_apart_are_put_together() -> None:
    message = "\\ud83d\ude00 \ud83d\ude00"
    head = '{"transition":{"target_state":"a","context_update":{"who":"\ud83d\ude00"}}'
    assert parse(f'{head},"message":"{message}"}}') == Reply(
        target="a", update={"who": "😀"}, message="😀 😀"
    )


@pytest.mark.parametrize("half", [r"\ud83d", "\ud83d", r"\uDE00"])
def test_half_a_character_without_its_other_half_is_replaced_in_every_text(half: str) -> None:
    move = '{"target_state":"a@","context_update":{"k@":["v@",{"x@":"@"}]}}'
    found = parse(f'{{"reasoning":"r@","transition":{move},"message":"m@ b"}}'.replace("@", half))
    assert found == Reply(
        "a\ufffd", {"k\ufffd": ["v\ufffd", {"x\ufffd": "\ufffd"}]}, "m\ufffd b", "r\ufffd"
    )


@pytest.mark.parametrize(
    "before", ["<think>hm</think>", "So: ", "<think>a</think>\n<think>{}</think>"]
)
def test_a_reply_on_one_level_is_read_as_it_stands_whatever_is_before_it(before: str) -> None:
    found = parse(
        before + r'{"target_state":"a","context_update":{"x":"\\ e"},"message":"„3 \u20ac“ \\ end"}'
    )
    assert found == Reply(target="a", update={"x": "\\ e"}, message="„3 €“ \\ end")


def test_of_two_thoughts_neither_is_a_reply() -> None:
    thoughts = f"<think>{GOOD.replace('bye', 'x')}</think>\n<thinking>{GOOD.replace('bye', 'y')}</thinking>"
    assert parse(thoughts + GOOD) == READ


@pytest.mark.parametrize(
    "text", [GOOD, '{"message": "Hi \\"x\\""}', '{"transition": 5, "message": "Hi \\"x\\""}']
)
def test_words_need_only_a_message(text: str) -> None:
    assert parse_words(text).message == 'Hi "x"'


@pytest.mark.parametrize("text", ["{}", '{"message": ""}', '{"message": 3}'])
def test_words_without_a_message_are_a_fault(text: str) -> None:
    with pytest.raises(ReplyError, match="lacks"):
        parse_words(text)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_is_a_reply_or_a_fault(text: str) -> None:
    for read in (parse, parse_words):
        with contextlib.suppress(ReplyError):
            read(text)


@given(st.data())
def test_any_damage_to_a_reply_is_a_reply_or_a_fault(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    damaged = GOOD[:start] + data.draw(st.text('{}[]",:\\\n abc0', max_size=4)) + GOOD[end:]
    try:
        found = parse(damaged)
    except ReplyError:
        return
    assert isinstance(found.target, str)
    assert found.target


@pytest.mark.parametrize(
    ("listed", "update"),
    [
        ([], {}),
        ([{"key": "guests", "value": 4}, {"key": "day", "value": "2099-05-02"}], {"guests": 4, "day": "2099-05-02"}),
        ([{"key": "guests", "value": 4}, {"key": "guests", "value": 5}], {"guests": 5}),
        ([{"key": "_clear", "value": "phone"}, {"key": "_clear", "value": "card.code"}],
         {"_clear": ["phone", "card.code"]}),
        ([{"key": "_clear", "value": ["a", "b"]}], {"_clear": ["a", "b"]}),
        ([{"key": "_extra", "value": {"key": "dog", "value": "Rex"}}, {"key": "_extra", "value": {"cat": "Tom"}}],
         {"_extra": {"dog": "Rex", "cat": "Tom"}}),
        ([{"key": "_extra", "value": [{"key": "dog", "value": "Rex"}]}], {"_extra": {"dog": "Rex"}}),
        ([{"key": "guests"}], {"guests": None}),
    ],
)  # fmt: skip
def test_a_list_of_updates_is_read_as_the_object(listed: object, update: object) -> None:
    found = parse(
        json.dumps({"transition": {"target_state": "a", "context_update": listed}, "message": "m"})
    )
    assert (dict(found.update), found.update_fault) == (update, None)
