"""What the checker says of `x-from`, and of replies that may show what was worked out from earlier
answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when

REPLY = "/states/b/reply"
PRICE: dict[str, Any] = {"type": "integer", "x-source": "host"}


def shop(reply: str = "A {{ room }} for {{ price }}?", price: Any = PRICE, **more: Any) -> Written:
    states = {
        "a": {
            "purpose": "Which?",
            "required_context_keys": ["room"],
            "transitions": [to("b", when(None, "room", "price"))],
        },
        "b": {"reply": reply, "transitions": [to("c"), to("a")], **more},
        "c": {"reply": reply},
    }
    return machine(states, {"room": {"type": "string"}, "price": price})


def test_a_reply_with_a_key_of_the_program_beside_one_that_can_be_corrected_is_found() -> None:
    assert briefly(found_by("stale-reply", shop())) == [("warning", REPLY)]


@pytest.mark.parametrize(
    "document",
    [
        shop(price={**PRICE, "x-from": ["room"]}),
        shop(price={**PRICE, "x-from": []}),
        shop("It is {{ price }}."),
        shop("A {{ room }}?"),
        shop("A {{ room }}{% if price %}?{% endif %}"),
        shop(price={"type": "integer", "x-source": "tool"}),
    ],
)
def test_what_cannot_grow_old_is_not(document: Written) -> None:
    assert found_by("stale-reply", document) == []


@pytest.mark.parametrize(
    ("names", "pointers"),
    [
        ("room", [""]),
        ([1], [""]),
        (["rooom"], ["/0"]),
        (["room", "price"], ["/1"]),
        (["nights"], ["/0"]),
        (["room.size"], []),
        ([], []),
        (None, []),
    ],
)
def test_what_a_key_cannot_be_made_of_is_found(names: Any, pointers: list[str]) -> None:
    document = shop(price={**PRICE, "x-from": names})
    document["context_schema"]["properties"]["nights"] = {
        "type": "integer",
        "x-source": "host",
        "x-from": ["price"],
    }
    found = [
        one.pointer for one in found_by("bad-key-setting", document) if "/price/" in one.pointer
    ]
    assert found == ["/context_schema/properties/price/x-from" + pointer for pointer in pointers]
