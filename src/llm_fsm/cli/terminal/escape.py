"""The output of text: nothing that came from outside can move the cursor or hide what it says.

Control characters (C0, C1), bidirectional overrides and isolates, and lone surrogates are shown as escapes.
Python and JSON write the same: `\\x1b`, `\\u202e`. Replies keep their line breaks and tabs.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from typing import TextIO, cast

from llm_fsm._escape import escape_of, visible

PROGRAM = "llm-fsm"

_UNSAFE_IN_WORDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def program() -> str:
    """Return what a user types to start this program again: its name, or its path where PATH lacks it."""
    known = any(os.access(os.path.join(place, PROGRAM), os.X_OK) for place in os.get_exec_path())
    started = sys.argv[0]
    if known or os.path.basename(started) != PROGRAM or not os.path.isfile(started):
        return PROGRAM
    shown = os.path.relpath(started)
    return shown if not shown.startswith(os.pardir) else started


def one_line(text: str) -> str:
    """A text fit for one line of a diagnostic."""
    return visible(text)


def words(text: str) -> str:
    """A text of several lines, such as a reply: line breaks and tabs stay."""
    return _UNSAFE_IN_WORDS.sub(escape_of, text.replace("\r\n", "\n"))


def as_json(document: object, indent: int | None = 2) -> str:
    """A document as JSON, with JSON's own escapes for what cannot be shown; `indent` None: in one line."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def shortened(text: str, chars: int) -> str:
    """One line of at most `chars` characters, marked when something is missing."""
    line = one_line(text)
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def prepare_streams() -> None:
    """Make standard input, output and error usable whatever the caller left of them.

    A stream that is closed becomes one that is empty. A file or a pipe is UTF-8, for the program that reads it. A
    console keeps its encoding, and characters that it lacks come out as escapes.
    """
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=stream.encoding if stream.isatty() else "utf-8", errors="backslashreplace")


def _nowhere(mode: str) -> TextIO:
    return cast(TextIO, open(os.devnull, mode, encoding="utf-8"))


def out(text: str, stream: TextIO | None = None) -> None:
    """Write lines to standard output, or to the stream that stands for it, at once."""
    _write(sys.stdout if stream is None else stream, text)


def err(text: str) -> None:
    """Write lines to standard error, at once."""
    _write(sys.stderr, text)


def note(text: str) -> None:
    """Tell the user something about the program, in one line on standard error."""
    err(f"{PROGRAM}: {one_line(text)}")


def error(text: str) -> None:
    """Tell the user what is wrong, in one line on standard error."""
    note(f"error: {text}")


def _write(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
