"""Where a result goes that a command writes to a file."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cli_command import Desk, desk
from llm_fsm.cli.exit_codes import OUTPUT, Failure
from llm_fsm.cli.output import write_new, write_output

__all__ = ["desk"]


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_file_is_made_or_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for words in ("one", "two"):
        write_output(str(tmp_path / "x"), words)
        assert content_of(tmp_path) == {"x": words}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this system has no files in /dev")
def test_a_file_that_lies_in_dev_is_replaced_and_not_written_on() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        for words in ("one", "two"):
            write_output(f"{folder}/x", words)
            assert content_of(Path(folder)) == {"x": words}


def test_what_a_killed_process_of_the_same_number_left_is_no_hindrance(tmp_path: Path) -> None:
    left = tmp_path / f".llm-fsm.{os.getpid()}"
    left.write_text("half")
    write_output(str(tmp_path / "x"), "new")
    assert content_of(tmp_path) == {"x": "new", left.name: "half"}


def test_a_file_that_was_there_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old")
    kept.chmod(0o640)
    link.symlink_to(kept)
    write_output(str(link), "new")
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode), link.is_symlink()) == (
        "new",
        0o640,
        True,
    )


def test_what_is_no_regular_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    hearing = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    hearing.start()
    write_output(str(pipe), "words")
    hearing.join(20)
    assert (heard, stat.S_ISFIFO(pipe.stat().st_mode)) == (["words"], True)


def test_standard_output_by_name_is_where_the_result_goes(desk: Desk) -> None:
    done = desk.process("show", "greeter.json", "--format", "mermaid", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout[:15]) == (0, b"stateDiagram-v2")


@pytest.mark.parametrize("refused", [errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_file_that_cannot_be_replaced_is_written_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    (tmp_path / "x").write_text("old and longer")

    def busy(*_: object) -> None:
        raise OSError(refused, "no")

    monkeypatch.setattr(os, "replace", busy)
    write_output(str(tmp_path / "x"), "new")
    assert content_of(tmp_path) == {"x": "new"}


def test_what_cannot_be_written_whole_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Failure, match="x: cannot be written: no space left on device") as caught:
        write_output(str(tmp_path / "x"), "new")
    assert caught.value.code == OUTPUT
    assert content_of(tmp_path) == {"x": "old"}


@pytest.mark.parametrize("path", ["", ".", "/", "no/such/folder/x", "x" * 300])
@pytest.mark.parametrize("command", [("show",), ("convert", "--to", "xstate"), ("validate",)])
def test_what_is_no_place_for_a_file_is_said_in_a_sentence(
    desk: Desk, command: tuple[str, ...], path: str
) -> None:
    done = desk.run(*command, "greeter.json", "-o", path)
    assert (done.code, "cannot be written: " in done.err, "internal" in done.err) == (
        OUTPUT,
        True,
        False,
    )


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(Failure, match="x: cannot be written: file too large"):
            write_new(path, "more than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()
    write_new(path, "one")
    with pytest.raises(Failure, match="exists already and is not overwritten"):
        write_new(path, "two")
    assert content_of(tmp_path) == {"x": "one"}
