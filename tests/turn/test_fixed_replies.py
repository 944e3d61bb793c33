"""Sentences that a definition says without a model."""

from __future__ import annotations

import pytest

from llm_fsm.turn.fixed_replies import own_question, sentence


@pytest.mark.parametrize(
    ("purpose", "wanted", "text"),
    [
        ("Ask the name", {"full_name": {}}, "Ask the name. Still needed: full name."),
        ("What is it?", {"x": {"title": "The thing"}}, "What is it?"),
        (
            "Ask for the 10 kΩ resistor",
            {"part": {}},
            "Ask for the 10 kΩ resistor. Still needed: part.",
        ),
        ("", {}, "Please go on."),
        ("お名前をお願いします。", {"n": {"title": "お名前"}}, "お名前をお願いします。"),
        (
            "お名前をお願いします。",
            {"p": {"title": "電話番号"}},
            "お名前をお願いします。 電話番号?",
        ),
        ("お名前をお願いします。", {"phone": {}}, "お名前をお願いします。"),
        ("お名前をお願いします。", {"電話番号": {}}, "お名前をお願いします。 電話番号?"),
        ("お名前をお願いします", {}, "お名前をお願いします。"),
        ("お名前(カタカナ)", {}, "お名前(カタカナ)。"),
        ("अपना नाम बताइए", {}, "अपना नाम बताइए।"),
        ("ስምዎን ይንገሩን።", {}, "ስምዎን ይንገሩን።"),
        ("กรุณาบอกชื่อ", {}, "กรุณาบอกชื่อ"),
        ("이름을 알려 주세요", {}, "이름을 알려 주세요."),
        ("Das wäre alles", {"k": {"title": "Kundennummer"}}, "Das wäre alles. Kundennummer?"),
        ("Die Kundennummer für uns", {"k": {"title": "Kundennummer"}}, "Die Kundennummer für uns."),
    ],
)
def test_a_state_without_words_has_a_plain_sentence(
    purpose: str, wanted: dict[str, dict[str, str]], text: str
) -> None:
    # the machine has no sentences of its own in Korean
    language = "ko" if purpose.startswith(("お", "D")) else ""
    assert own_question(purpose, wanted, language) == text


def test_sentences_end() -> None:
    assert [sentence(text) for text in ("a  b\nc", "a!", "")] == ["a b c.", "a!", ""]
    assert sentence("À 9\u00a0h,  oui\u202f?\u00a0") == "À 9\u00a0h, oui\u202f?"
    ended = ("お願いします。", "どうぞ！", "何ですか？", "ما اسمك؟", "आपका नाम।", "Πώς σας λένε;")
    assert [sentence(text) for text in ended] == list(ended)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "All set! 🚀",
            "Love it ❤️",
            "Hello 👋🏽",
            "We code 👩‍💻",
            "Done ✅",
            "Rate us ⭐",
            "Soon ⏰",
            "Press 1️⃣",
        ),
        *("Go ⬆️", "Ours ™️", "Scots 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"),
    ],
)
def test_no_full_stop_follows_an_emoji(text: str) -> None:
    assert sentence(text) == text
    assert own_question(text, {}) == text


@pytest.mark.parametrize("text", ["Run `make`", "Heat it to 200°", "It costs 5 €", "See (below)"])
def test_a_full_stop_follows_other_signs(text: str) -> None:
    assert sentence(text) == f"{text}."
