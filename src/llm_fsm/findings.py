"""What a check has to say about a definition: one frozen value per problem.

A finding answers three questions: what is wrong, where it stands, and what would be right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

Level = Literal["error", "warning", "info"]

NO_FILE = "<definition>"
"""Stands for the file name of a definition that was given as a value."""

_LONGEST_WORD = 200
_CUTOFF = 0.6


class Place(NamedTuple):
    """Where something stands: its JSON pointer, and its line and column if it was read from a text."""

    pointer: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem of a definition.

    `code` is short and stable (`F101`), `name` is readable (`unknown-target`). `message` says what is
    wrong, `hint` what would be right. `line` and `column` count from 1, columns in characters.
    `pointer` is the JSON pointer (RFC 6901) of the value that is meant; `path` names states, if the
    finding is about a way through the machine; `where` are the places of these states, which the JSON form leaves out.
    It has no slots, for the sake of `llm_fsm.copies`: a hopeless file has thousands of findings.
    """

    code: str
    name: str
    level: Level
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str = ""
    path: tuple[str, ...] = ()
    where: tuple[Place, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as `llm-fsm validate --format json` prints it."""
        return {
            "code": self.code,
            "name": self.name,
            "level": self.level,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "pointer": self.pointer,
            "path": list(self.path),
        }

    def __str__(self) -> str:
        """`file:line:column: level: message; hint (name code)`, without the parts that are not known."""
        place = NO_FILE if self.file is None else self.file
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        text = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{place}: {self.level}: {text} ({self.name} {self.code})"


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None when none is close.

    Letter case does not count, except between candidates that are otherwise equally close; of those
    that are still equal the first one wins. Words over 200 characters have no near neighbour.
    """
    if len(word) > _LONGEST_WORD:
        return None
    folded = word.casefold()
    loose = SequenceMatcher(b=folded, autojunk=False)
    exact = SequenceMatcher(b=word, autojunk=False)
    best: str | None = None
    best_score = (_CUTOFF, 0.0)
    for candidate in candidates:
        bare = candidate.casefold()
        length = len(bare) + len(folded)
        if length and 2.0 * min(len(bare), len(folded)) / length < best_score[0]:
            continue  # at most so much of them can be alike
        loose.set_seq1(bare)
        if loose.quick_ratio() < best_score[0]:
            continue
        exact.set_seq1(candidate)
        score = (loose.ratio(), exact.ratio())
        if score > best_score:
            best, best_score = candidate, score
    return best
