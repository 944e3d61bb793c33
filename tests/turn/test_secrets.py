"""The values of secret keys, in what a turn leaves behind for the next ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm import Machine, create_handler
from llm_fsm.testing import ScriptedLLM, reply

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "pin": {
                "type": "string",
                "pattern": "^[0-9]{4}$",
                "x-secret": True,
                "description": "PIN",
            },
            "card": {
                "type": "object",
                "x-secret": True,
                "properties": {"number": {"type": "string"}},
            },
        }
    },
    "states": {
        "ask": {"purpose": "Your PIN?", "transitions": [{"target_state": "end"}]},
        "end": {"reply": "Bye."},
    },
}
DELETES = (
    create_handler("clean").at("context_update").do(lambda occasion: {"pin": None, "card": None})
)


@pytest.mark.parametrize(
    ("given", "told", "handlers"),
    [
        ({"pin": "9876"}, "9876", []),
        ({"pin": "9876"}, "9876", [DELETES]),
        ({"pin": "98765"}, "98765", []),
        ({"card": {"number": "4111 1111"}}, "4111 1111", [DELETES]),
        ({"card": "4111 1111"}, "4111 1111", []),
        ({"card.number": 41111111}, "41111111", []),
        ({"_extra": {"pin": "98765"}}, "98765", []),
    ],
    ids=[
        *(
            "accepted",
            "deleted by a handler",
            "refused",
            "a part deleted by a handler",
            "of another type",
        ),
        *("a part refused", "refused under _extra"),
    ],
)
def test_a_secret_stands_in_no_later_prompt_whatever_became_of_it(
    given: dict[str, Any], told: str, handlers: list[Any]
) -> None:
    model = ScriptedLLM([reply("ask", "Hm.", **given), *[reply("ask", "Yes?")] * 2])
    with Machine.from_dict(DESK, model=model, handlers=handlers) as machine:
        chat = machine.start(greet=False)
        chat.send(f"it is {told}")
        chat.send("hello?")
    assert told not in model.requests[-1].messages[1].content


def test_a_secret_that_is_replaced_or_taken_back_stands_in_no_later_prompt() -> None:
    updates: list[dict[str, Any]] = [
        {"pin": "1234"},
        {"pin": "5678"},
        {"_clear": ["pin"], "_quotes": {"_clear": "forget"}},
        {},
    ]
    model = ScriptedLLM([reply("ask", "Yes?", **update) for update in updates])
    with Machine.from_dict(DESK, model=model) as machine:
        chat = machine.start(greet=False)
        for text in ("it is 1234", "not 1234 but 5678", "forget 5678", "hello?"):
            chat.send(text)
    shown = model.requests[-1].messages[1].content
    assert "1234" not in shown
    assert "5678" not in shown
    assert "forget" in shown


PARCEL: dict[str, Any] = {
    "name": "parcel",
    "initial_state": "identify",
    "context_schema": {
        "properties": {
            "pin": {"type": "string", "x-secret": True, "description": "Four digits"},
            "card": {
                "type": "object",
                "x-secret": True,
                "properties": {"number": {"type": "string"}},
            },
            "note": {"description": "Note"},
        }
    },
    "states": {
        "identify": {
            "purpose": "Your PIN?",
            "transitions": [{"target_state": "help", "description": "Given"}],
        },
        "help": {
            "purpose": "What can I do?",
            "transitions": [{"target_state": "end", "description": "Done"}],
        },
        "end": {"reply": "Noted: {{ note }}"},
    },
}


@pytest.mark.parametrize(
    "update",
    [
        {"pin": "4711", "note": "the PIN is 4711"},
        {"pin": "4711", "note": "4 7 1 1"},
        {"pin": "4711", "note": 4711},
        {"pin": "4711", "note": {"parts": ["a", {"no. 4711": True}]}},
        {"pin": 4711, "note": "4711"},
        {"pin": "4711", "_extra": {"said": "PIN 4711"}},
        {"card": {"number": "8822 0815"}, "note": "88220815, or 8822-0815"},
        {"pin": 'a"4711\\', "note": 'a"4711\\'},
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_a_secret_stands_in_no_later_prompt_or_reply_whatever_else_holds_it(
    update: dict[str, Any], before: bool
) -> None:
    """Among them: a note that was taken before its value was given for the secret key."""
    first = [
        reply(
            "identify",
            "Is it?",
            **{key: value for key, value in update.items() if key not in ("pin", "card")},
        )
    ]
    replies = [*(first if before else []), reply("help", "Thank you.", **update)]
    model = ScriptedLLM([*replies, reply("help", "Yes?"), reply("end", "")])
    with Machine.from_dict(PARCEL, model=model) as machine:
        chat = machine.start(greet=False)
        given = update.get("card", {}).get("number") or update["pin"]
        for text in (*[f"it is {given}"] * len(replies), "hello?"):
            chat.send(text)
        prompt = "".join(message.content for message in model.requests[-1].messages[1:])
        said = chat.send("bye").text
    for text in (prompt, said):
        assert not any(form in text for form in ("4711", "4 7 1 1", "0815"))
    assert said.startswith("Noted:")


@pytest.mark.parametrize("way", ["replaced", "refused", "removed", "replaced by the program"])
def test_a_secret_that_no_key_holds_any_more_stands_in_no_later_prompt_or_reply(way: str) -> None:
    document = json.loads(json.dumps(PARCEL))
    document["context_schema"]["properties"]["pin"]["pattern"] = "^[0-9]{4}$"
    first = "47110" if way == "refused" else "4711"
    calls = 2 if way == "refused" else 1
    further = {"replaced": {"pin": "1290"}, "removed": {"pin": None}}.get(way, {})
    model = ScriptedLLM(
        [
            *[reply("help", "Thank you.", pin=first, note=f"PIN {first}")] * calls,
            reply("help", "Yes?", **further),
            reply("help", "Yes?"),
            reply("help", "Yes?"),
            reply("end", ""),
        ]
    )
    with Machine.from_dict(document, model=model) as machine:
        chat = machine.start(greet=False)
        chat.send(f"my PIN is {first}")
        if way == "replaced by the program":
            chat.update({"pin": "1290"})
        for text in ("well", "hello?", "are you there?"):
            chat.send(text)
        prompt = "".join(message.content for message in model.requests[-1].messages[1:])
        assert "4711" not in prompt
        assert "4711" not in chat.send("bye").text
        assert replay_is_same(machine, chat.id)


def replay_is_same(machine: Machine, name: str) -> bool:
    """An exported conversation is read again and is whole."""
    return machine.take_in(machine.export(name), "copy") == "copy"
