"""An answer fits what a messenger takes: no message is too long, nothing is cut, and a question
stays whole beside its buttons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm import Choice
from llm_fsm._text import units
from llm_fsm.channels.door import Messenger
from llm_fsm.channels.fit import MessagePart, fit, fits_buttons, parts_of
from llm_fsm.channels.slack import SLACK
from llm_fsm.channels.telegram import TELEGRAM
from llm_fsm.channels.whatsapp import WHATSAPP

MESSENGERS = [SLACK, TELEGRAM, WHATSAPP]
every_messenger = pytest.mark.parametrize("messenger", MESSENGERS, ids=lambda one: one.name)
QUESTION = "Shall I book it?"


def choices(labels: Sequence[str], question: str = "main/ask/place") -> tuple[Choice, ...]:
    return tuple(Choice(label, label, question) for label in labels)


def fitted(messenger: Messenger, text: str, labels: Sequence[str] = ()) -> list[MessagePart]:
    return fit(text, choices(labels), messenger.limits, messenger.markup)


def plain(text: str) -> str:
    return re.sub(r"\s", "", text)


@every_messenger
def test_a_text_at_the_limit_is_one_message_and_one_above_is_two(messenger: Messenger) -> None:
    most = messenger.limits.text
    whole = "word " * (most // 5)
    at_limit = whole[: most - 1] + "."
    assert [part.text for part in fitted(messenger, at_limit)] == [at_limit]
    above = [part.text for part in fitted(messenger, at_limit + "!")]
    assert len(above) == 2
    assert plain("".join(above)) == plain(at_limit + "!")


@every_messenger
def test_a_text_beside_buttons_is_parted_one_above_the_limit(messenger: Messenger) -> None:
    most = messenger.limits.text_with_buttons
    before = "a" * (most - units(QUESTION) - 2) + "."
    [only] = fitted(messenger, f"{before} {QUESTION}", ["Yes", "No"])
    assert (units(only.text), len(only.choices)) == (most, 2)
    first, last = fitted(messenger, f"b{before} {QUESTION}", ["Yes", "No"])
    assert (first.text, first.choices) == (f"b{before}", ())
    assert (last.text, len(last.choices)) == (QUESTION, 2)


@every_messenger
def test_labels_at_the_limit_are_buttons_and_one_above_are_lines(messenger: Messenger) -> None:
    for most, chars in messenger.limits.buttons:
        labels = [f"{number:02}" + "x" * (chars - 2) for number in range(most)]
        [part] = fitted(messenger, QUESTION, labels)
        assert [choice.label for choice in part.choices] == labels
    most, chars = messenger.limits.buttons[-1]
    for wrong in (["x" * (chars + 1)], [f"{number:02}" for number in range(most + 1)]):
        [part] = fitted(messenger, QUESTION, wrong)
        assert part == MessagePart("\n".join([QUESTION, *(f"- {label}" for label in wrong)]), ())


@every_messenger
def test_an_emoji_counts_as_the_messengers_count_it(messenger: Messenger) -> None:
    _, chars = messenger.limits.buttons[-1]
    kind = messenger.limits.buttons[-1]
    assert fits_buttons(choices(["🦉" * (chars // 2)]), messenger.limits, kind)
    assert not fits_buttons(choices(["🦉" * (chars // 2) + "xx"]), messenger.limits, kind)
    assert all(units(part.text) <= messenger.limits.text for part in fitted(messenger, "🦉" * 5000))


@every_messenger
def test_a_button_that_could_not_be_recognised_is_a_line(messenger: Messenger) -> None:
    kind = messenger.limits.buttons[-1]
    room = messenger.limits.mark - len("|Yes")
    assert fits_buttons(choices(["Yes"], "q" * room), messenger.limits, kind)
    assert not fits_buttons(choices(["Yes"], "q" * (room + 1)), messenger.limits, kind)


@pytest.mark.parametrize("label", [" Yes", "Yes\n", "two\nlines", "a\tb", "No "])
@every_messenger
def test_a_label_that_would_be_shown_otherwise_is_a_line(messenger: Messenger, label: str) -> None:
    assert fitted(messenger, QUESTION, [label])[0].choices == ()


@pytest.mark.parametrize("text", ["", " ", "\n", "\n \t\n", "  "])
@every_messenger
def test_no_words_are_no_message(messenger: Messenger, text: str) -> None:
    assert fitted(messenger, text, ["Yes"]) == []


def test_choices_that_the_text_names_are_not_said_again() -> None:
    labels = [f"Room {number}" for number in range(11)]
    said = "Room 0, ROOM 1 or another one?"
    [part] = fitted(WHATSAPP, said, labels)
    assert part.text.splitlines() == [said, *(f"- {label}" for label in labels[2:])]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two three", ["one", "two three"]),
        ("First line\nlast", ["First line", "last"]),
        ("Yes. Or no? Say", ["Yes.", "Or no? Say"]),
        ("One. Two.\n\nOk?", ["One. Two.", "Ok?"]),
        ("abcdefghijklmno", ["abc", "defghijklmno"]),
    ],
)
def test_a_text_is_parted_where_it_disturbs_least(text: str, parts: list[str]) -> None:
    assert parts_of(text, 12, 12) == parts


@given(st.text(st.sampled_from("ab.?! \n\U0001f989é"), max_size=200), st.integers(2, 40))
def test_no_part_is_too_long_and_nothing_is_lost(text: str, most: int) -> None:
    last = max(2, most // 2)
    parts = parts_of(text, most, last)
    assert plain("".join(parts)) == plain(text)
    assert all(0 < units(part) <= most for part in parts[:-1])
    assert units(parts[-1]) <= last


@given(st.text(st.sampled_from("word. \n"), max_size=300), st.sampled_from(MESSENGERS))
def test_a_question_is_in_the_last_message_and_whole(text: str, messenger: Messenger) -> None:
    last = fitted(messenger, f"{text * 30}\n{QUESTION}", ["Yes", "No"])[-1]
    assert last.text.endswith(QUESTION)
    assert len(last.choices) == 2


MARKDOWN = "# Prices\n**Large** is 5 < 7 & [cheap](https://example.net/a?b=1&c=2), 2 ** 3"


@pytest.mark.parametrize(
    ("messenger", "expected"),
    [
        (
            SLACK,
            "*Prices*\n*Large* is 5 &lt; 7 &amp; <https://example.net/a?b=1&amp;c=2|cheap>, 2 ** 3",
        ),
        (TELEGRAM, "Prices\nLarge is 5 < 7 & cheap: https://example.net/a?b=1&c=2, 2 ** 3"),
        (WHATSAPP, "*Prices*\n*Large* is 5 < 7 & cheap: https://example.net/a?b=1&c=2, 2 ** 3"),
    ],
)
def test_markdown_of_a_model_is_written_as_the_messenger_does(
    messenger: Messenger, expected: str
) -> None:
    assert [part.text for part in fitted(messenger, MARKDOWN)] == [expected]
