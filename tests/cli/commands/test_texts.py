"""`llm-fsm texts`: the files of translators."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_command import Desk

GREETER = {
    "name": "greeter",
    "languages": ["de", "tr"],
    "initial_state": "bye",
    "states": {"bye": {"kind": "final", "purpose": "Say goodbye", "reply": "Goodbye!"}},
}


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, capsys, monkeypatch)
    found.write("greeter.json", GREETER)
    return found


def translated(folder: Path, tag: str, *texts: tuple[str, str]) -> None:
    """Translate entries of a file as a translator does."""
    path = folder / f"greeter.{tag}.po"
    written = path.read_text(encoding="utf-8")
    for text, translation in texts:
        before = f'msgid "{text}"\nmsgstr ""'
        assert before in written
        written = written.replace(before, f'msgid "{text}"\nmsgstr "{translation}"')
    path.write_text(written, encoding="utf-8")


def test_extract_writes_every_text_with_its_pointer(desk: Desk, tmp_path: Path) -> None:
    done = desk.run("texts", "extract", "greeter.json")
    assert (done.code, done.err) == (0, "llm-fsm: wrote greeter.pot: 2 texts\n")
    written = (tmp_path / "greeter.pot").read_text(encoding="utf-8")
    assert 'msgctxt "/states/bye/reply"\nmsgid "Goodbye!"\nmsgstr ""\n' in written


def test_update_writes_a_file_for_each_language(desk: Desk) -> None:
    done = desk.run("texts", "update", "greeter.json")
    assert done.code == 0
    assert done.err.splitlines() == [
        "llm-fsm: wrote greeter.de.po: 2 texts to translate",
        "llm-fsm: wrote greeter.tr.po: 2 texts to translate",
    ]


def test_update_keeps_translations_and_marks_those_of_changed_texts(
    desk: Desk, tmp_path: Path
) -> None:
    desk.run("texts", "update", "greeter.json")
    translated(tmp_path, "de", ("Goodbye!", "Tschüs!"), ("Say goodbye", "Verabschieden"))
    desk.write("greeter.json", _with_reply("Goodbye, all!"))
    done = desk.run("texts", "update", "greeter.json")
    assert "greeter.de.po: 1 text to translate" in done.err
    written = (tmp_path / "greeter.de.po").read_text(encoding="utf-8")
    assert '#, fuzzy\nmsgctxt "/states/bye/reply"\nmsgid "Goodbye, all!"' in written
    assert 'msgid "Say goodbye"\nmsgstr "Verabschieden"' in written
    desk.run("texts", "update", "greeter.json")
    assert (tmp_path / "greeter.de.po").read_text(encoding="utf-8") == written


def test_check_reports_what_is_missing_and_nothing_else(desk: Desk, tmp_path: Path) -> None:
    desk.run("texts", "update", "greeter.json")
    translated(tmp_path, "de", ("Goodbye!", "Tschüs!"), ("Say goodbye", "Verabschieden"))
    done = desk.run("texts", "check", "greeter.json")
    assert done.code == 1
    assert 'there are no texts in "tr"' in done.out
    assert done.err == "llm-fsm: greeter.json: 1 finding\n"
    translated(tmp_path, "tr", ("Goodbye!", "Hoşça kalın!"), ("Say goodbye", "Vedalaş"))
    assert desk.run("texts", "check", "greeter.json").code == 0


def test_a_file_that_is_no_gettext_is_not_overwritten(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "greeter.de.po").write_text("Guten Tag\n", encoding="utf-8")
    done = desk.run("texts", "update", "greeter.json")
    assert done.code == 1
    assert "greeter.de.po:1:1: error: this is no gettext file" in done.err
    assert (tmp_path / "greeter.de.po").read_text(encoding="utf-8") == "Guten Tag\n"


def _with_reply(text: str) -> object:
    return {**GREETER, "states": {"bye": {**GREETER["states"]["bye"], "reply": text}}}  # type: ignore[index]
