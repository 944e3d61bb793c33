"""Slash commands: what they say about a conversation, and that they never send a message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_command import ASKS, BYE, GREETER, HELLO, TO_BAR
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.terminal import console
from llm_fsm.cli.terminal import explain as explained
from llm_fsm.cli.terminal import slash_commands as slash
from llm_fsm.definition.models import Definition
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.records.explain import Explanation
from llm_fsm.testing import ScriptedLLM
from paths import TESTS


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    """A conversation after one turn, in which a move was refused and a secret was told."""
    monkeypatch.chdir(tmp_path)
    model = ScriptedLLM([HELLO, TO_BAR, ASKS, BYE])
    with asyncio.Runner() as runner:
        machine = AsyncMachine(Definition.model_validate(GREETER), model=model)
        made = Talk(runner, machine, runner.run(machine.start()))
        made.send("a drink\x1b[2J, my pin is 4711")
        yield made
        runner.run(machine.close())


def said_by(talk: Talk, line: str) -> str:
    """What a command says, its tables with a blank between the cells."""
    parts = slash.obey(talk, line).parts
    return "\n".join(
        part if isinstance(part, str) else "\n".join(map(" ".join, part)) for part in parts
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "hello"),
        (" /state", " /state"),
        ("//etc/hosts is gone", "/etc/hosts is gone"),
        ("///", "//"),
        ("/state", None),
        ("/", None),
    ],
)
def test_what_is_a_message_and_what_is_a_command(line: str, message: str | None) -> None:
    assert slash.message_of(line) == message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/stat", "there is no command /stat; did you mean /state?"),
        ("/home/ada", "there is no command /home/ada"),
        ("/", "/help lists the commands"),
        ("/\x1b[2J", "there is no command /\\x1b[2J"),
        ("/undo 2", "/undo takes nothing after it"),
        ("/help", "/save [FILE]"),
        ("/state", "  name still missing"),
        ("/state", "  → bar open Wants a drink"),
        ("/context", "  age = 12"),
        ("/context", "  pin = •••"),
        ("/why", "to bar: refused"),
        ("/why", "✗ is of age: does not hold (age = 12)"),
        ("/why", "set by model: pin = •••"),
    ],
)
def test_what_commands_say(talk: Talk, line: str, said: str) -> None:
    text = said_by(talk, line)
    assert said in text
    assert "4711" not in text
    assert not slash.obey(talk, line).leave


def test_why_shows_damaged_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console.err(
        *explained.lines(Explanation(turn=1, state="a\x1b[2J", arrived="b", user=None, notes=()))
    )
    assert capsys.readouterr().err == "Turn 1: a\\x1b[2J → b\n"


def test_quit_leaves(talk: Talk) -> None:
    assert slash.obey(talk, "/quit").leave


def test_undo_takes_turns_back_until_there_is_none(talk: Talk) -> None:
    first = slash.obey(talk, "/undo")
    assert (first.parts, first.again) == (
        ["the last turn was taken back; the state is hello again"],
        True,
    )
    assert talk.last_words() == "Hello!"
    assert talk.session().context == {}
    second = slash.obey(talk, "/undo")
    assert (second.parts, second.again) == (
        ["there is no turn to take back; send a message first"],
        False,
    )
    assert said_by(talk, "/context") == "nothing has been collected yet"


def test_save_writes_json_without_secrets(talk: Talk) -> None:
    assert said_by(talk, "/save out.json") == "saved to out.json"
    document = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert document["definition"] == "greeter"
    assert document["context"] == {"age": 12, "pin": "•••"}
    assert [(turn["user"], turn["reply"]) for turn in document["turns"]] == [
        (None, "Hello!"),
        ("a drink\x1b[2J, my pin is •••", "Your name?"),
    ]


def test_save_writes_markdown_for_a_reader(talk: Talk) -> None:
    slash.obey(talk, "/save out.md")
    text = Path("out.md").read_text(encoding="utf-8")
    assert text.startswith("# greeter\n")
    assert "**User**\n\n> a drink\\x1b[2J" in text
    assert "**Machine**\n\n> Your name?\n" in text


def test_save_finds_a_name_by_itself_and_overwrites_nothing(talk: Talk) -> None:
    assert said_by(talk, "/save").startswith("saved to conversation-")
    Path("mine.json").write_text("mine", encoding="utf-8")
    assert "is not overwritten" in said_by(talk, "/save mine.json")
    assert Path("mine.json").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("path", ["none/x.json", ".", "a\0b", "x" * 300])
def test_a_file_that_cannot_be_written_is_said(talk: Talk, path: str) -> None:
    text = said_by(talk, f"/save {path}")
    assert "cannot be written" in text or "exists already" in text


def test_the_end_of_a_conversation_is_explained(talk: Talk) -> None:
    talk.send("Ada")
    assert talk.ended
    text = said_by(talk, "/why")
    assert text.startswith("Turn 2: hello → bye")
    assert "bye (taken)" in text
    assert text.endswith("The conversation ended: final")


def test_the_state_tells_what_was_left_open_and_what_callers_offer() -> None:
    folder = TESTS / "conversations" / "machines"
    definition = Definition.model_validate_json((folder / "reise.json").read_text(encoding="utf-8"))
    known = {"ziel": "Rom", "personen": 1}
    to_flow = {"transition": {"target_state": "erster", "context_update": known}, "message": "Rom!"}
    pets = {
        "transition": {"target_state": "tiere", "context_update": {}},
        "message": "Hund oder Katze?",
    }
    with asyncio.Runner() as runner:
        machine = AsyncMachine(
            definition, model=ScriptedLLM([HELLO, to_flow, pets]), file=folder / "reise.json"
        )
        talk = Talk(runner, machine, runner.run(machine.start()))
        talk.send("Nach Rom, allein")  # the flow asks its own question without a model
        assert "  → tiere open Fragt, ob ein Tier mitkann, of what calls this" in said_by(
            talk, "/state"
        )
        talk.send("Darf ein Tier mit?")
        assert "  → name open back to what was left open" in said_by(talk, "/state")
        runner.run(machine.close())
