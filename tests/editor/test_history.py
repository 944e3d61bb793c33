"""The last commit of a file is read from a repository of anybody, which may name commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llm_fsm.editor.history import commits, committed, repository_of

TEXT = '{"name": "bot"}\n'


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one committed file."""
    place = tmp_path / "bots"
    place.mkdir()
    _git(place, "init", "-q")
    (place / "bot.json").write_text(TEXT, encoding="utf-8")
    _git(place, "add", ".")
    assert _git(place, "commit", "-qm", "One").returncode == 0
    return place


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Return the file that a command of the repository writes if it runs."""
    return tmp_path / "ran"


def _command(ran: Path) -> str:
    return f"touch '{ran}'; exit 1"


def _runs_nothing(folder: Path, ran: Path) -> None:
    """Read all that the studio reads of the repository."""
    assert committed(str(folder / "bot.json")) == TEXT
    assert [one.words for one in commits(str(folder / "bot.json"))] == ["One"]
    assert repository_of(str(folder)) == str(folder)
    assert not ran.exists()


SETTINGS = {
    "a monitor": ["core.fsmonitor"],
    "a pager": ["core.pager", "pager.show", "pager.cat-file", "pager.rev-parse"],
    "a text conversion": ["diff.json.textconv"],
    "an external diff": ["diff.json.command", "diff.external"],
    "a filter": ["filter.json.smudge", "filter.json.clean", "filter.json.process"],
    "an alias": ["alias.show", "alias.cat-file", "alias.rev-parse"],
    "programs for the network": ["core.sshCommand", "core.gitProxy", "credential.helper"],
    "programs for signatures": ["gpg.program", "gpg.ssh.program", "gpg.x509.program"],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_a_repository_that_names_commands_runs_none(
    folder: Path, ran: Path, settings: list[str]
) -> None:
    (folder / ".gitattributes").write_text("*.json diff=json filter=json\n", encoding="utf-8")
    _git(folder, "config", "log.showSignature", "true")
    for name in settings:
        _git(folder, "config", name, _command(ran))

    _runs_nothing(folder, ran)


@pytest.mark.parametrize("name", ["post-index-change", "reference-transaction", "post-checkout"])
def test_a_hook_does_not_run(folder: Path, ran: Path, name: str) -> None:
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / name).write_text(f"#!/bin/sh\n{_command(ran)}\n", encoding="utf-8")
    (hooks / name).chmod(0o755)
    _git(folder, "config", "core.hooksPath", str(hooks))

    assert committed(str(folder / "bot.json")) == TEXT
    assert not ran.exists()


@pytest.fixture
def partial(folder: Path) -> Path:
    """Return a folder whose committed file is missing, and is to be fetched."""
    blob = _git(folder, "rev-parse", "HEAD:bot.json").stdout.strip()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        _git(folder, "config", name, value)
    return folder


def _name_remote(folder: Path, kind: str, ran: Path) -> None:
    script = ran.with_name("program.sh")
    script.write_text(f"#!/bin/sh\n{_command(ran)}\n", encoding="utf-8")
    script.chmod(0o755)
    urls = {"ext": f"ext::{script}", "ssh": "ssh://example.invalid/bots", "file": str(folder)}
    _git(folder, "config", "remote.origin.url", urls[kind])
    _git(folder, "config", "core.sshCommand", str(script))
    _git(folder, "config", "remote.origin.uploadpack", str(script))


@pytest.mark.parametrize("kind", ["ext", "ssh", "file"])
def test_a_missing_text_is_not_fetched(partial: Path, ran: Path, kind: str) -> None:
    _name_remote(partial, kind, ran)

    assert committed(str(partial / "bot.json")) is None
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["ext", "ssh", "file"])
def test_git_by_itself_would_have_run_the_program(partial: Path, ran: Path, kind: str) -> None:
    _name_remote(partial, kind, ran)

    _git(partial, "show", "HEAD:./bot.json")
    assert ran.exists()


def test_a_folder_that_is_a_bare_repository_itself_is_not_read(folder: Path, ran: Path) -> None:
    bare = folder.parent / "bare"
    _git(folder, "clone", "-q", "--bare", str(folder), str(bare))

    assert committed(str(bare / "bot.json")) is None
    assert repository_of(str(bare)) is None


def test_another_repository_of_the_environment_is_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("GIT_DIR", str(folder / ".git"))

    assert committed(str(other / "bot.json")) is None
    assert committed(str(folder / "bot.json")) == TEXT


def test_commits_of_a_file_are_listed_newest_first_and_each_is_read(folder: Path) -> None:
    place = folder / "bot.json"
    place.write_text('{"name": "two"}', encoding="utf-8")
    _git(folder, "commit", "-qam", "Two\tnames")
    (folder / "other.json").write_text("{}", encoding="utf-8")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "Another file")
    found = commits(str(place))
    assert [one.words for one in found] == ["Two\tnames", "One"]
    assert [committed(str(place), one.id) for one in found] == ['{"name": "two"}', TEXT]
    assert commits(str(folder / "gone.json")) == []
    assert commits(str(folder / "*.json")) == []
