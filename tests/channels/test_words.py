"""What users typed is what arrives: recorded payloads of each kind, with their words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.channels.door import Messenger
from llm_fsm.channels.fit import fit
from llm_fsm.channels.slack import SLACK
from llm_fsm.channels.telegram import TELEGRAM
from llm_fsm.channels.whatsapp import WHATSAPP
from paths import TESTS


def kinds(messenger: Messenger) -> list[Any]:
    path = TESTS / "data" / "channels" / f"{messenger.name}_kinds.json"
    table = json.loads(path.read_text("utf-8"))
    return [
        pytest.param(messenger, payload, words, id=f"{messenger.name}: {kind}")
        for kind, (payload, words) in table.items()
    ]


@pytest.mark.parametrize(
    ("messenger", "payload", "words"), [*kinds(SLACK), *kinds(TELEGRAM), *kinds(WHATSAPP)]
)
def test_the_words_of_a_payload_are_those_that_were_typed(
    messenger: Messenger, payload: Any, words: list[str]
) -> None:
    found = [heard.text for heard in messenger.heard(payload) if heard.text.strip()]
    assert found == words


@pytest.mark.parametrize(
    "typed", ["R&D", "<b>", "a &lt; b", "&amp;amp;", "x <= y && y => z", "<@U1>", "<http://a|b>"]
)
def test_slack_gives_back_what_it_was_given(typed: str) -> None:
    [part] = fit(typed, (), SLACK.limits, SLACK.markup)
    payload = {
        "event_id": "Ev1",
        "event": {"type": "message", "channel": "D1", "user": "U1", "text": part.text},
    }
    [heard] = SLACK.heard(payload)
    assert heard.text == typed


def test_a_click_has_its_label_and_its_question() -> None:
    clicked = {"label": "R&D", "question": "main/place/place"}
    payload = {
        "type": "block_actions",
        "user": {"id": "U1"},
        "channel": {"id": "D1"},
        "actions": [{"type": "button", "value": json.dumps(clicked), "action_ts": "1.2"}],
    }
    [heard] = SLACK.heard(payload)
    assert (heard.text, heard.question) == ("R&D", "main/place/place")
