"""Rules about words that were not meant for a conversation: secrets, hidden characters, copies,
names, notes.
"""

from __future__ import annotations

import pytest

from lint_cases import Written, briefly, found_by, machine, to

PLACE = "/states/ask/instructions"


def told(text: str, **more: object) -> Written:
    return machine(
        {"ask": {"purpose": "Ask", "instructions": text, "transitions": [to("say_bye")]}}, **more
    )


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop1234567890",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345",
        "-----BEGIN RSA PRIVATE KEY-----",
        "postgres://admin:hunter22@db.example.org/shop",
    ],
)
def test_secrets_of_services_are_found_and_not_repeated(secret: str) -> None:
    [found] = found_by("secret-literal", told(f"Use {secret} for it."))
    assert (found.level, found.pointer) == ("warning", PLACE)
    assert secret not in found.message


@pytest.mark.parametrize(
    "text",
    [
        "Never ask for an API key such as sk-xxxxxxxxxxxxxxxxxxxx.",
        "Write Authorization: Bearer YOUR_TOKEN_GOES_HERE_PLEASE",
        "The bearer of this letter, sk-learn users and https://example.org/a:b@c",
        "Ask for the risk-management-department-number",
        "https://user:{password}@example.org",
    ],
)
def test_what_only_speaks_of_secrets_is_not_found(text: str) -> None:
    assert found_by("secret-literal", told(text)) == []


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\x00", "\ufeff", "\u2066", "\x1b"])
def test_hidden_characters_are_found(char: str) -> None:
    [found] = found_by("hidden-characters", told(f"pay{char}load"))
    assert (found.level, found.pointer) == ("warning", PLACE)
    assert f"U+{ord(char):04X}" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "Zwei\nZeilen\t…",
        "می‌خواهم",
        "👩‍🚀 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "שלום\u200e!",
        "שלום \u2066ok\u2069",
        "soft\u00adhyphen",
    ],
)
def test_characters_that_scripts_and_emoji_need_are_not_found(text: str) -> None:
    assert found_by("hidden-characters", told(text)) == []


def test_hidden_characters_in_names_are_found() -> None:
    document = machine({"a": {"purpose": "x"}}, {"ti\u200ber": {}})
    assert briefly(found_by("hidden-characters", document)) == [
        ("warning", "/context_schema/properties/ti\u200ber")
    ]


def two(first: Written, second: Written) -> Written:
    states = {"a": {**first, "transitions": [to("b")]}, "b": {**second, "transitions": [to("c")]}}
    return machine(states)


SAME = {"purpose": "Ask for the name"}


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ({}, {"purpose": "ask for  the name."}, "warning"),
        ({"required_context_keys": ["x"]}, {"required_context_keys": ["y"]}, "warning"),
        ({"required_context_keys": ["x"]}, {"required_context_keys": ["x"]}, "info"),
        ({"instructions": "p"}, {"instructions": "q"}, "info"),
    ],
)
def test_a_copied_purpose_is_found(first: Written, second: Written, level: str) -> None:
    assert briefly(found_by("copied-purpose", two({**SAME, **first}, {**SAME, **second}))) == [
        (level, "/states/b/purpose")
    ]


def test_other_purposes_and_ends_are_not_found() -> None:
    assert found_by("copied-purpose", two(SAME, {"purpose": "Ask for the town"})) == []
    document = machine({"a": {"purpose": "x", "transitions": [to("b"), to("c")]}})
    for name in "bc":
        document["states"][name]["purpose"] = "Say goodbye to the user"
    assert found_by("copied-purpose", document) == []


@pytest.mark.parametrize(
    "text",
    [
        "Then go to state `checkout`.",
        "When done, transition to the `checkout` state",
        "If they agree, proceed to state checkout_page",
        "Use the tool lookup_stock.",
        "Call the `lookup` tool.",
        "Call look_up_stock() first.",
    ],
)
def test_names_of_states_and_tools_that_are_not_there_are_found(text: str) -> None:
    assert briefly(found_by("unknown-place-in-words", told(text))) == [("warning", PLACE)]


@pytest.mark.parametrize(
    "text",
    [
        "Then go to state say_bye.",
        "Go to the `say_bye` state, or to state ask.",
        "Go to the final state. Move to the next state when the user agrees.",
        "Move on to the state of things. Go to the state that fits. Proceed to step 2.",
        "Use the tool that fits; call the tool again. Call the tool lookup.",
        "Tell them to go to State Street and to the checkout.",
        "Return to the user's question. Ask which state they live in. Is it in the 'open' state?",
        "Use `lookup` and run lookup() to find it. Use the say bye state.",
        "Explain the function of the heart. Use the function f(x).",
    ],
)
def test_words_that_name_what_is_there_or_nothing_are_not_found(text: str) -> None:
    assert (
        found_by("unknown-place-in-words", told(text, tools={"lookup": {"registered": "find"}}))
        == []
    )


@pytest.mark.parametrize(
    "text",
    ["tbd", "TBD.", "todo", "…", "...", "Greet. TODO", "TODO: write", "<insert text here>", "XXX"],
)
def test_notes_of_authors_are_found(text: str) -> None:
    assert briefly(found_by("unfinished-words", told(text))) == [("warning", PLACE)]


@pytest.mark.parametrize(
    "text",
    [
        "Manage the todo list",
        "If the date is TBD, say so",
        "Say: wait... and go on",
        "Insert the coin here",
    ],
)
def test_what_only_looks_like_a_note_is_not_found(text: str) -> None:
    assert found_by("unfinished-words", told(text)) == []
