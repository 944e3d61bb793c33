"""Slash commands: what they say about a conversation, and that they never send a message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_command import ASKS, BYE, GREETER, HELLO, TO_BAR
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.terminal import explain as explained
from llm_fsm.cli.terminal import slash_commands as slash
from llm_fsm.cli.terminal.session import Screen
from llm_fsm.definition.models import Definition
from llm_fsm.engine.explain import Explanation
from llm_fsm.engine.machine import AsyncMachine
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
        ("/state", "  name: still missing"),
        ("/state", "  → bar: open — Wants a drink"),
        ("/context", "  age = 12"),
        ("/context", "  pin = •••"),
        ("/why", "to bar: refused"),
        ("/why", "✗ is of age: does not hold (age = 12)"),
        ("/why", "set by model: pin = •••"),
    ],
)
def test_what_commands_say(talk: Talk, line: str, said: str) -> None:
    answer = slash.obey(talk, line)
    assert said in answer.text
    assert "4711" not in answer.text
    assert "\x1b" not in answer.text
    assert not answer.leave


def test_notes_of_a_conversation_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().note("state \x1b[2J\u202e\n  next", to_copy=True)
    assert capsys.readouterr().err == "state \\x1b[2J\\u202e\n  next\n"


def test_why_shows_damaged_names_as_they_are() -> None:
    explanation = Explanation(turn=1, state="a\x1b[2J", arrived="b", user=None, notes=())
    assert list(explained.lines(explanation)) == [r"Turn 1: a\x1b[2J → b"]


def test_quit_leaves(talk: Talk) -> None:
    assert slash.obey(talk, "/quit").leave


def test_undo_takes_turns_back_until_there_is_none(talk: Talk) -> None:
    first = slash.obey(talk, "/undo")
    assert (first.text, first.again) == ("the last turn was taken back; the state is hello again", True)
    assert talk.last_words() == "Hello!"
    assert talk.session().context == {}
    second = slash.obey(talk, "/undo")
    assert (second.text, second.again) == ("there is no turn to take back", False)
    assert slash.obey(talk, "/context").text == "nothing has been collected yet"


def test_save_writes_json_without_secrets(talk: Talk) -> None:
    assert slash.obey(talk, "/save out.json").text == "saved to out.json"
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
    assert slash.obey(talk, "/save").text.startswith("saved to conversation-")
    Path("mine.json").write_text("mine", encoding="utf-8")
    assert "was not overwritten" in slash.obey(talk, "/save mine.json").text
    assert Path("mine.json").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("path", ["none/x.json", ".", "a\0b", "x" * 300])
def test_a_file_that_cannot_be_written_is_said(talk: Talk, path: str) -> None:
    text = slash.obey(talk, f"/save {path}").text
    assert "cannot be written" in text or "exists already" in text


def test_the_end_of_a_conversation_is_explained(talk: Talk) -> None:
    talk.send("Ada")
    assert talk.ended
    text = slash.obey(talk, "/why").text
    assert text.startswith("Turn 2: hello → bye")
    assert "bye (taken)" in text
    assert text.endswith("The conversation ended: final")


def test_the_state_tells_what_was_left_open_and_what_callers_offer() -> None:
    folder = TESTS / "conversations" / "machines"
    definition = Definition.model_validate_json((folder / "reise.json").read_text(encoding="utf-8"))
    known = {"ziel": "Rom", "personen": 1}
    to_flow = {"transition": {"target_state": "erster", "context_update": known}, "message": "Rom!"}
    who = {"transition": {"target_state": "name", "context_update": {}}, "message": "Wer reist?"}
    pets = {"transition": {"target_state": "tiere", "context_update": {}}, "message": "Hund oder Katze?"}
    with asyncio.Runner() as runner:
        machine = AsyncMachine(definition, model=ScriptedLLM([HELLO, to_flow, who, pets]), file=folder / "reise.json")
        talk = Talk(runner, machine, runner.run(machine.start()))
        talk.send("Nach Rom, allein")
        assert "  → tiere: open — Fragt, ob ein Tier mitkann, of what calls this" in slash.obey(talk, "/state").text
        talk.send("Darf ein Tier mit?")
        assert "  → name: open — back to what was left open" in slash.obey(talk, "/state").text
        runner.run(machine.close())
