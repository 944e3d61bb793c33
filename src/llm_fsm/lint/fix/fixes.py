"""Corrections that are safe: spelling of keys, quotes, ids, old names, repeated members.

A change is kept only if its finding disappears and no new one appears. The rest of the text is
unchanged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from llm_fsm._json import json_text, steps, value_at
from llm_fsm.definition.json_source import Member, Scan, parse, scan
from llm_fsm.errors import Finding
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.fix.edits import Edit, removal

Checker = Callable[[str], list[Finding]]
"""A text to its findings, with pointers and positions."""

_HINTED = re.compile(r'did you mean "([^"]+)"\?')
_UNQUOTED = re.compile(r"write (\S+) without quotes")
_NEAR = 0.75
_NEEDED = frozenset({"name", "states", "initial_state", "target_state"})
"""Required keys: if one of them is missing, a misspelt key surely means it."""
_ROUNDS = 100
_RENAMED = {"llm_description": "description", "read_keys": "read"}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A corrected text, and its changes, in order."""

    text: str
    changes: tuple[str, ...]


def fix(text: str, check: Checker) -> Fixed:
    """Correct a text; `check` finds its faults before and after each change.

    A text that cannot be parsed, or that has no safe correction, is returned unchanged.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    now = text.removeprefix("\ufeff")
    done = []
    refused: set[tuple[str, str]] = set()
    findings = check(now)
    for _ in range(_ROUNDS):
        steps_now = _apart(_candidates(now, findings, refused))
        if not steps_now:
            break
        for batch in (steps_now, *([step] for step in steps_now)):
            after = now
            for step in batch:
                after = step.edit.apply(after)
            later = check(after)
            if _better(batch, findings, later):
                now = after
                findings = later
                done += [
                    f"{step.found.line}:{step.found.column}: {step.words}"
                    for step in reversed(batch)
                ]
                break
            if len(batch) == 1:
                refused.add((batch[0].found.name, batch[0].found.pointer))
    return Fixed(mark + now, tuple(done))


@dataclass(frozen=True, slots=True)
class _FixStep:
    """A change, the finding that it corrects, and a description for the author."""

    found: Finding
    edit: Edit
    words: str


def _apart(candidates: Iterable[_FixStep]) -> list[_FixStep]:
    """Return changes in different places, from the end of the text to its beginning.

    Repeated members come first, because they are equal only until one of them is changed.
    """
    every = list(candidates)
    twice = [step for step in every if step.found.name == "duplicate-key"]
    kept: list[_FixStep] = []
    for step in sorted(twice or every, key=lambda step: step.edit.start, reverse=True):
        if not kept or step.edit.end <= kept[-1].edit.start:
            kept.append(step)
    return kept


def _better(batch: list[_FixStep], before: list[Finding], after: list[Finding]) -> bool:
    """Return true if the corrected findings are gone, and there are no more errors than before."""
    errors_before = sum(found.level == "error" for found in before)
    errors_after = sum(found.level == "error" for found in after)
    was = Counter((found.name, found.pointer) for found in before)
    now = Counter((found.name, found.pointer) for found in after)
    wanted = Counter((step.found.name, step.found.pointer) for step in batch)
    return errors_after <= errors_before and all(now[key] < was[key] for key in wanted)


class _Draft(NamedTuple):
    """A text without byte order mark, and its scan."""

    text: str
    scan: Scan

    def at(self, pointer: str) -> Member:
        """Return the value at a pointer that exists."""
        return self.scan.way(pointer)[-1]

    def renamed(self, pointer: str, name: str) -> _Mended:
        """Return the edit that renames the key at a pointer, and its description."""
        member = self.at(pointer)
        edit = Edit(member.start, member.key_end, json_text(name))
        return edit, f"key {quoted(member.key)} renamed to {quoted(name)}"


def _candidates(
    text: str, findings: list[Finding], refused: set[tuple[str, str]]
) -> Iterator[_FixStep]:
    """Yield possible changes."""
    draft = None
    for found in findings:
        mender = _MENDERS.get(found.name)
        if mender is None or found.line is None or (found.name, found.pointer) in refused:
            continue
        if draft is None:
            draft = _Draft(text, scan(text))
        mended = mender(draft, found)
        if mended is not None:
            yield _FixStep(found, *mended)


_Mended = tuple[Edit, str] | None


def _rename_key(draft: _Draft, found: Finding) -> _Mended:
    """Rename a misspelt key, if exactly one missing key is similar, or required."""
    hinted = _HINTED.search(found.hint or "")
    owner = value_at(draft.scan.value, found.pointer.rpartition("/")[0])
    written = steps(found.pointer)[-1]
    if hinted is None or not isinstance(owner, dict) or hinted[1] in owner or written not in owner:
        return None
    near = SequenceMatcher(None, written.casefold(), hinted[1]).ratio()
    if near < _NEAR and hinted[1] not in _NEEDED:
        return None
    return draft.renamed(found.pointer, hinted[1])


def _unquote(draft: _Draft, found: Finding) -> _Mended:
    """Remove quotes around a number or boolean, and put brackets around a text that should be a
    list.
    """
    value = value_at(draft.scan.value, found.pointer)
    if not isinstance(value, str) or found.hint is None:
        return None
    member = draft.at(found.pointer)
    plain = _UNQUOTED.search(found.hint)
    if plain is not None:
        edit = Edit(member.offset, member.end, json.dumps(json.loads(plain[1])))
        return edit, f"{quoted(value)} written without quotes"
    if found.hint.startswith("put it in brackets"):
        edit = Edit(member.offset, member.end, f"[{draft.text[member.offset : member.end]}]")
        return edit, f"{quoted(value)} put in brackets"
    return None


def _one_member(draft: _Draft, found: Finding) -> _Mended:
    """Remove the second of two equal members."""
    for twice in draft.scan.duplicates:
        if twice.pointer == found.pointer and twice.position == (found.line, found.column):
            first, second = (
                parse(draft.text[one.offset : one.end]) for one in (twice.before, twice.again)
            )
            if first != second:
                return None
            edit = _without(draft.text, twice.again)
            return edit, f"the second, equal {quoted(twice.key)} removed"
    return None


def _without(text: str, member: Member) -> Edit:
    """Return the edit that removes a member with its comma, which may be the one before it."""
    if member.comma is not None:
        return removal(text, member)
    before = text[: member.start].rstrip()
    return Edit(len(before) - 1 if before.endswith(",") else member.start, member.end, "")


def _old_name(draft: _Draft, found: Finding) -> _Mended:
    """Rename a key of an earlier version, or replace `is_terminal` by `kind`."""
    written = ""
    if found.pointer:
        written = steps(found.pointer)[-1]
    owner = value_at(draft.scan.value, found.pointer.rpartition("/")[0])
    if not isinstance(owner, dict) or written not in owner:
        return None
    now = _RENAMED.get(written)
    if now is not None and now not in owner:
        return draft.renamed(found.pointer, now)
    if written in ("is_terminal", "is_final") and owner[written] is True and "kind" not in owner:
        member = draft.at(found.pointer)
        edit = Edit(member.start, member.end, '"kind": "final"')
        return edit, f'{quoted(written)} written as "kind": "final"'
    return None


_MENDERS: Mapping[str, Callable[[_Draft, Finding], _Mended]] = {
    "unknown-key": _rename_key,
    "idle-schema-word": _rename_key,
    "wrong-type": _unquote,
    "duplicate-key": _one_member,
    "older-form": _old_name,
}
