"""docs/LLM_GUIDE.md and the reference for authors are true.

Definitions load, replies have the effect that a page names, prompts are as rendered, and rules have
the shown result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from guide_blocks import (
    GUIDE,
    REFERENCE,
    Block,
    Played,
    all_blocks,
    definitions,
    play,
    prompt_text,
    scenes,
)
from llm_fsm import AsyncMachine, check
from llm_fsm.conditions.closures import LOOPS, SPECIAL
from llm_fsm.conditions.compiler import evaluate
from llm_fsm.conditions.operators import OPERATIONS
from llm_fsm.definition.models import Definition, HistorySettings, Limits, State, Transition
from llm_fsm.errors import ReplyError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.context import MAX_EXTRA_KEYS
from llm_fsm.session.events import ContextRefused
from llm_fsm.testing import play_suite
from llm_fsm.turn.reply.parser import parse
from paths import ROOT

pytestmark = pytest.mark.anyio

TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = all_blocks()
DEFINITIONS = definitions(BLOCKS)
SCENES = scenes(BLOCKS)
CONDITIONS = REFERENCE / "conditions.md"
PROMPTS = [block for block in BLOCKS if "prompt" in block.attributes]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]


def where(block: Block) -> str:
    return f"{block.page.stem} {block.line}"


@pytest.mark.parametrize("block", BLOCKS, ids=where)
def test_every_block_says_what_it_is(block: Block) -> None:
    kinds = {"definition", "fragment", "reply", "prompt", "run", "example", "tests", "values"}
    assert (
        len(
            kinds
            & set(block.attributes) - ({"definition"} if "reply" in block.attributes else set())
        )
        == 1
    )
    if block.language == "json":
        assert json.loads(block.text)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if "tests" in block.attributes], ids=where
)
def test_a_file_of_tests_passes(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "guide.test.json"
    path.write_text(block.text, encoding="utf-8")
    assert [failure for result in play_suite(path) for failure in result.failures] == []


# -- definitions


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_has_the_findings_that_the_guide_names_and_no_others(name: str) -> None:
    document, block = DEFINITIONS[name]
    found = {
        found.name
        for found in check(document)
        if found.level != "info" or found.name in block.listed("findings")
    }
    assert found == set(block.listed("findings"))


@pytest.mark.parametrize("name", DEFINITIONS)
async def test_a_definition_starts(name: str) -> None:
    document, _ = DEFINITIONS[name]
    if any(found.level == "error" for found in check(document)):
        return
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([]), store="memory")
    for state in document["states"].values():
        if "execute" in state:
            machine.function(_nothing, name=state["execute"])
    assert (await machine.start(greet=False)).state


def _nothing(ctx: object) -> None:
    """Stand for a function of the host in a definition that only starts."""


# -- replies


@pytest.mark.parametrize("name", SCENES)
def test_a_reply_is_parsed_as_the_guide_says(name: str) -> None:
    *first, last = SCENES[name].replies
    assert parse(last).target
    for text in first:
        try:
            parse(text)
        except ReplyError as error:
            assert error.fault in {"not-json", "no-target"}  # noqa: PT017 - both outcomes are right here


@pytest.mark.parametrize("name", SCENES)
async def test_a_reply_does_what_the_guide_says(name: str) -> None:
    scene = SCENES[name]
    expected = scene.expected
    played = await play(name, SCENES, DEFINITIONS)
    assert len(played.requests) == len(scene.replies) == int(expected.get("calls", 1))
    assert played.chat.state == expected["to"]
    assert played.chat.ended is ("ended" in expected)
    assert_context(expected, played)
    for part in filter(None, expected.get("text", "").split("|")):
        assert part in played.text
    for part in filter(None, expected.get("lacks", "").split("|")):
        assert part not in played.text


def assert_context(expected: Mapping[str, str], played: Played) -> None:
    kept = json.loads(expected.get("kept", "{}"))
    assert {key: played.chat.context.get(key) for key in kept} == kept
    assert expected.get("absent") not in played.chat.context
    events = played.turn.events if played.turn else ()
    told = [event.key for event in events if isinstance(event, ContextRefused) and event.told]
    assert told == [key for key in expected.get("refused", "").split(",") if key]


@pytest.mark.parametrize("block", PROMPTS, ids=where)
async def test_a_prompt_is_shown_as_it_is_rendered(block: Block) -> None:
    played = await play(block.attributes["prompt"], SCENES, DEFINITIONS)
    assert block.text == prompt_text(block, played.requests), (
        "run python tests/support/guide_blocks.py"
    )


@pytest.mark.parametrize("name", SCENES)
async def test_prompts_carry_the_day_of_the_message(name: str) -> None:
    played = await play(name, SCENES, DEFINITIONS)
    assert all(
        re.search(r"<today>[A-Z][a-z]+, 20\d\d-", call.messages[0].content)
        for call in played.requests
    )


async def test_what_the_user_sees_after_a_fixed_reply_is_as_shown() -> None:
    played = await play("fixed", SCENES, DEFINITIONS)
    [shown] = [
        block for block in BLOCKS if block.language == "text" and "example" in block.attributes
    ]
    assert shown.text.strip() == played.text


# -- programs


@pytest.mark.parametrize("block", PROGRAMS, ids=where)
def test_a_program_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GUIDE.parent.parent)
    exec(compile(block.text, f"{block.page.name}:{block.line}", "exec"), {})


async def test_the_handler_of_the_guide_decides_the_check() -> None:
    code = next(block.text for block in PROGRAMS if "check_pin" in block.text)
    names: dict[str, Any] = {}
    exec(compile(code, GUIDE.name, "exec"), names)
    reply = {
        "transition": {
            "target_state": "check",
            "context_update": {"order_number": "R-1001", "pin": "0000"},
        },
        "message": "You are verified!",
    }
    again = {
        "transition": {"target_state": "check", "context_update": {"pin": "4711"}},
        "message": "Now you are!",
    }
    machine = AsyncMachine.from_dict(
        DEFINITIONS["parcel"][0],
        model=ScriptedLLM([reply, again]),
        store="memory",
        handlers=[names["handler"]],
    )
    chat = await machine.start()
    failed = await chat.send("R-1001, 0000")
    assert (failed.state, failed.text) == (
        "mismatch",
        "That did not match. Please give both once more.",
    )
    passed = await chat.send("4711")
    assert (passed.state, passed.text) == ("status", "Parcel R-1001 is on its way.")
    assert "pin" not in passed.context


# -- tables


def column(header: str) -> set[str]:
    """The names in code style in the first column of the table that follows a heading."""
    part = TEXT.split(f"\n### {header}\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`\s]+)`", row.split("(also")[0])}


def keys_of(model: type[Any]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_the_tables_name_every_key_of_the_format() -> None:
    assert column("Top level") - {"$schema"} == keys_of(Definition)
    shown = column("State") | {"extraction_instructions", "response_instructions"}
    assert shown == keys_of(State)
    assert column("Transition") == keys_of(Transition)


def test_the_guide_gives_the_defaults_as_they_are() -> None:
    history, limits = HistorySettings(), Limits()
    for name in ("max_exchanges", "max_message_chars", "max_tokens"):
        assert f"`{name}` {getattr(history, name)}" in TEXT
    for name in ("auto_steps", "llm_calls", "tool_calls"):
        assert f"`{name}` {getattr(limits, name)}" in TEXT
    assert f"holds at most {MAX_EXTRA_KEYS} keys" in TEXT


OPERATORS = re.compile(r"^\| `([^`]+)`[^|]*\| `(\{.*\})` \| `(.*)` \|$", re.MULTILINE)


def test_every_operator_has_an_example() -> None:
    shown = {name for name, _, _ in OPERATORS.findall(CONDITIONS.read_text(encoding="utf-8"))}
    assert shown == {*OPERATIONS, *SPECIAL, *LOOPS}


@pytest.mark.parametrize(
    ("operator", "rule", "result"), OPERATORS.findall(CONDITIONS.read_text(encoding="utf-8"))
)
def test_an_operator_gives_the_shown_result(operator: str, rule: str, result: str) -> None:
    [values] = [block.value for block in BLOCKS if "values" in block.attributes]
    found = evaluate(json.loads(rule), values)
    assert operator in json.loads(rule)
    assert json.dumps(found) == json.dumps(json.loads(result))


def test_the_guide_names_every_operator() -> None:
    part = TEXT.split("\nOperators: ")[1].split("\n\n")[0]
    assert {*OPERATIONS, *SPECIAL, *LOOPS} - {"?:"} - set(re.findall(r"[^\s`(),]+", part)) == set()


def test_the_rules_of_the_table_are_rules() -> None:
    part = CONDITIONS.read_text(encoding="utf-8").split("| wanted | rule |")[1].split("\n\n")[0]
    rules = [json.loads(found) for found in re.findall(r"`(\{.*\})`", part)]
    data = {
        "topic": "billing",
        "time": "09:00",
        "day": "2001-09-12",
        "phone": "1",
        "a1": "x",
        "a2": "y",
    }
    assert len(rules) == 11
    system = {"_turns_in_state": 3, "_misses": 2, "_refusals": {"email": 3}, "_timestamp": 1e9}
    assert all(evaluate(rule, {**data, **system}) is True for rule in rules)


CONVERTED = re.compile(r"^\| `(.+)` \| (.+) \| `(.+)` \|$", re.MULTILINE)
SCHEMAS = {
    "a number": {"type": "number"},
    "a text": {"type": "string"},
    "a boolean": {"type": "boolean"},
    'an `enum` with `"too_big"`': {"type": "string", "enum": ["too_big", "too_small"]},
    'an `enum` with `"pho_thong"`': {"type": "string", "enum": ["pho_thong", "thuong_gia"]},
    "a `date`": {"type": "string", "format": "date"},
    "a `pattern` of digits": {"type": "string", "pattern": "^[0-9]{10}$"},
    "a `pattern` without spaces": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{10}$"},
    "a list": {"type": "array", "items": {"type": "string"}},
}


def conversions() -> list[tuple[str, str, str]]:
    """Return the rows of the table of converted values."""
    text = (REFERENCE / "context-keys.md").read_text(encoding="utf-8")
    return CONVERTED.findall(text.split("| value | key | stored |")[1].split("\n\n")[0])


def test_the_table_of_converted_values_has_a_schema_for_each_row() -> None:
    assert [key for _, key, _ in conversions()] == list(SCHEMAS)


@pytest.mark.parametrize(("value", "key", "stored"), conversions())
async def test_a_value_is_converted_as_shown(value: str, key: str, stored: str) -> None:
    document = {
        "name": "one",
        "initial_state": "ask",
        "context_schema": {"properties": {"answer": SCHEMAS[key]}},
        "states": {
            "ask": {"purpose": "Which?", "transitions": [{"target_state": "done"}]},
            "done": {},
        },
    }
    update = {
        "target_state": "ask",
        "context_update": {"answer": json.loads(value)},
        "message": "I see.",
    }
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([update]), store="memory")
    chat = await machine.start(greet=False)
    await chat.send(f"It is {value}")
    assert chat.context["answer"] == json.loads(stored)


def test_the_contents_lead_to_headings() -> None:
    headings = re.findall(
        r"^#+ (.+)$",
        re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE),
        re.MULTILINE,
    )
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) - anchors == set()


def test_the_guide_names_files_that_exist() -> None:
    root = ROOT
    patterns = (REFERENCE / "patterns.md").read_text(encoding="utf-8")
    assert "tests/conversations/shipped" in TEXT
    assert "product_advice.json" in patterns
    assert (root / "fsm_definitions" / "product_advice.json").exists()
    assert (root / "tests" / "conversations" / "shipped").exists()
