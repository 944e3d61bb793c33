"""Rules of the family words: each with a faulty machine and a good one that looks alike."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import Machine
from llm_fsm._text import estimate
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.prompt_budget import shared_tokens, state_tokens
from llm_fsm.lint.facts.suggestions import Slips, slip
from llm_fsm.testing import ScriptedLLM, reply

P = {"purpose": "x"}
KEYS = {"email_address": {"type": "string"}, "plan": {"enum": ["basic_plan", "full"]}}


def choice(*moves: Any, **more: Any) -> Written:
    """A state with these transitions, and targets with a purpose."""
    return machine({"a": {**P, "transitions": list(moves)}}, **more)


def plain(target: str, **more: Any) -> Written:
    return {"target_state": target, **more}


def words(text: str, **more: Any) -> Written:
    return machine({"a": {"instructions": text, "transitions": [to("b")]}}, KEYS, **more)


def dialogue(*messages: Written) -> Written:
    return machine({"a": {**P, "example_dialogue": list(messages)}})


BAD: list[tuple[str, Written, list[tuple[str, str]]]] = [
    (
        "missing-purpose",
        machine({"a": {**P, "transitions": [to("b")]}, "b": {"transitions": [to("c")]}}),
        [("warning", "/states/b")],
    ),
    (
        "missing-purpose",
        machine({"a": {**P, "transitions": [to("b")]}, "b": {}}),
        [("info", "/states/b")],
    ),
    ("missing-purpose", machine({"a": {"transitions": [to("b")]}, "b": {}}), [("info", "/states")]),
    ("missing-description", choice(to("b"), plain("c")), [("warning", "/states/a/transitions/1")]),
    ("missing-description", choice(plain("b"), plain("c")), [("warning", "/states/a/transitions")]),
    (
        "missing-description",
        choice(plain("b", conditions=[when(None, "k")]), plain("c")),
        [("info", "/states/a/transitions")],
    ),
    ("missing-description", choice(to("b"), global_transitions=[plain("a"), plain("b")]), []),
    (
        "missing-description",
        machine(
            {"a": {**P, "transitions": [to("b")]}, "help": {"kind": "final"}},
            global_transitions=[plain("help")],
        ),
        [("warning", "/global_transitions/0")],
    ),
    (
        "identical-descriptions",
        choice(
            plain("b", description="The user agrees."), plain("c", description="the user  agrees")
        ),
        [("warning", "/states/a/transitions/1/description")],
    ),
    (
        "identical-descriptions",
        choice(
            plain("b", description="x", conditions=[when(None, "k")]), plain("c", description="x")
        ),
        [("info", "/states/a/transitions/1/description")],
    ),
    (
        "identical-descriptions",
        choice(
            plain("b", description="x", conditions=[when({"==": [1, 1]})]),
            plain("c", description="x"),
        ),
        [("info", "/states/a/transitions/1/description")],
    ),
    (
        "unknown-name-in-words",
        words("Store it as `emial_address`."),
        [("warning", "/states/a/instructions")],
    ),
    (
        "unknown-name-in-words",
        words("Ask for email_addres now."),
        [("warning", "/states/a/instructions")],
    ),
    (
        "unknown-name-in-words",
        words("Say {{ email_adress }}."),
        [("warning", "/states/a/instructions")],
    ),
    ("template-in-words", words("Call them {{ name }}."), [("info", "/states/a/instructions")]),
    ("prompt-over-budget", words("word " * 4000), [("warning", "/states/a")]),
    ("prompt-over-budget", {**words("x"), "x-lint": {"token_budget": 10}}, [("warning", "")]),
    (
        "example-dialogue-roles",
        dialogue({"usr": "Hi"}),
        [("warning", "/states/a/example_dialogue/0/usr")],
    ),
    (
        "example-dialogue-roles",
        dialogue({"assistant": "Hi"}),
        [("info", "/states/a/example_dialogue/0/assistant")],
    ),
    (
        "overlong-description",
        choice(plain("b", description="x" * 601)),
        [("info", "/states/a/transitions/0/description")],
    ),
    ("unfinished-words", words("TODO ask nicely"), [("warning", "/states/a/instructions")]),
    (
        "unfinished-words",
        machine({"a": {"reply": "Lorem ipsum dolor"}}),
        [("warning", "/states/a/reply")],
    ),
]

GOOD: list[tuple[str, Written]] = [
    (
        "missing-purpose",
        machine({"a": {"reply": "Hello", "transitions": [to("b")]}, "b": {"description": "x"}}),
    ),
    (
        "missing-purpose",
        machine(
            {
                "a": {**P, "transitions": [to("d")]},
                "d": {"kind": "decide", "transitions": [to("b")]},
                "b": P,
            }
        ),
    ),
    ("missing-description", choice(plain("b"))),
    ("missing-description", choice(to("b"), plain("c", conditions=[when(None, "k")]))),
    ("missing-description", choice(to("b"), plain("c", auto=True))),
    (
        "missing-description",
        machine({"a": {"kind": "decide", "transitions": [plain("b"), plain("c")]}}),
    ),
    (
        "identical-descriptions",
        choice(plain("b", description="x"), plain("b", description="x", priority=5)),
    ),
    ("identical-descriptions", choice(plain("b", description="yes"), plain("c", description="no"))),
    (
        "identical-descriptions",
        machine(
            {
                "a": {
                    "kind": "decide",
                    "transitions": [plain("b", description="x"), plain("c", description="x")],
                }
            }
        ),
    ),
    (
        "unknown-name-in-words",
        words("Store `email_address`, email_addresses, `basic_plan`, _user_input and order_no."),
    ),
    ("unknown-name-in-words", words("원하면 email_address를 basic_plan으로 바꾼다.")),
    (
        "unknown-name-in-words",
        machine(
            {"a": {"instructions": "Use line_1 or line_2.", "required_context_keys": ["line_3"]}}
        ),
    ),
    (
        "template-in-words",
        machine({"a": {"reply": "Hello {{ name }}", "instructions": 'Answer as {"a": {"b": 1}}'}}),
    ),
    ("prompt-over-budget", words("word " * 2000)),
    ("prompt-over-budget", {**words("word " * 4000), "x-lint": {"token_budget": 9000}}),
    ("prompt-over-budget", machine({"a": {"kind": "final", "purpose": "word " * 9000}})),
    ("example-dialogue-roles", dialogue({"user": "Hi"}, {"system": "Hello"})),
    ("overlong-description", choice(plain("b", description="x" * 600))),
    ("unfinished-words", words("Keep the user's TODO list short; todo items have a date.")),
]


@pytest.mark.parametrize(("rule", "document", "expected"), BAD)
def test_each_fault_is_found_where_it_stands(
    rule: str, document: Written, expected: list[tuple[str, str]]
) -> None:
    assert briefly(found_by(rule, document)) == expected


@pytest.mark.parametrize(("rule", "document"), GOOD)
def test_what_looks_alike_and_is_right_is_not_found(rule: str, document: Written) -> None:
    assert found_by(rule, document) == []


def test_a_schema_of_the_wrong_shape_is_left_to_its_own_rule() -> None:
    document = machine(
        {"a": {"instructions": "Use `some_name`."}}, {"x": {"enum": 3, "properties": [1]}}
    )
    assert found_by("unknown-name-in-words", document) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Ask, and set `isbn_number`.", 1),
        ("Store it in the key `isbn_number`.", 1),
        ("Never say `isbn_number` to users.", 0),
        ("Set `isbn` and nothing else.", 0),
    ],
)
def test_what_is_to_be_set_is_a_key_where_keys_are_declared(said: str, found: int) -> None:
    states = {"a": {"instructions": said}}
    assert (
        len(found_by("unknown-name-in-words", machine(states, {"isbn": {"type": "string"}})))
        == found
    )
    assert found_by("unknown-name-in-words", machine(states)) == []


def test_the_budget_says_the_numbers_and_who_set_it() -> None:
    document = words("word " * 4000)
    [found] = found_by("prompt-over-budget", document)
    own, moves = state_tokens(Document(Placed("", document)))["a"]
    shared = shared_tokens(Document(Placed("", document)))
    assert f"about {shared + own + moves:,} tokens, over its budget of 4,000" in found.message


@pytest.mark.parametrize(("budget", "said"), [(100, "set a larger one"), (530, "shorten persona")])
def test_a_budget_that_no_machine_keeps_is_to_be_larger(budget: int, said: str) -> None:
    document = {**words("x"), "persona": "word " * 99, "x-lint": {"token_budget": budget}}
    [found] = found_by("prompt-over-budget", document)
    assert found.hint is not None
    assert found.hint.startswith(said)


def test_the_frame_of_the_prompt_is_about_as_large_as_it_is_counted() -> None:
    document = choice(to("b"))
    model = ScriptedLLM([reply("b", "Hi")])
    Machine.from_dict(document, model=model).start(greet=False).send("Hello")
    rendered = estimate("".join(message.content for message in model.requests[0].messages))
    assert 0.75 < shared_tokens(Document(Placed("", document))) / rendered < 1.25


def test_names_that_are_a_slip_away_are_found_among_many() -> None:
    known = [f"answer_{number}" for number in range(500)] + ["address", "e_mail"]
    slips = Slips(known)
    for name in (
        "adress",
        "addresss",
        "addrexs",
        "adderss",
        "emial",
        "answer_",
        "answer_77",
        "nothing",
    ):
        assert slips.meant(name) == next((one for one in known if slip(name, one)), None)
