"""Suppressions in a file, under `x-lint`: findings that its author has accepted.

    "x-lint": {"ignore": ["rule-name", {"rule": "rule-name", "at": "/states/x", "reason": "…"}],
               "token_budget": 6000}

A rule is given by its name, its code or the beginning of a code. `at` is a JSON pointer, and everything below it is
included. Errors cannot be suppressed, because they must be fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from llm_fsm._json import places_of, step
from llm_fsm._text import nearest
from llm_fsm.definition.codes import finding
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.registry import matches, names_a_rule, near_rule

_PLACE = "/x-lint"
_SETTINGS = ("ignore", "token_budget")
_FORM = 'write ["rule-name", {"rule": "rule-name", "at": "/states/x", "reason": "…"}]'
_GUESSED = 100
_TOLD = frozenset({"unknown-rule", "ignore-without-reason", "unused-ignore"})


class Suppression(NamedTuple):
    """One entry: the rule, the pointer below which its findings are suppressed, and the reason."""

    pointer: str
    rule: str
    at: str
    reason: str


class Suppressions(NamedTuple):
    """The entries of a file, and their own faults."""

    entries: tuple[Suppression, ...]
    faults: tuple[Finding, ...]

    def kept(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that no entry suppresses. Errors are always kept."""
        closed: dict[tuple[str, str], set[str]] = {}
        kept = []
        for found in findings:
            kind = (found.name, found.code)
            if kind not in closed:
                closed[kind] = {entry.at for entry in self.entries if _covers(entry.rule, *kind)}
            if found.level == "error" or closed[kind].isdisjoint(places_of(found.pointer)):
                kept.append(found)
        return kept

    def remarks(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings about the entries themselves; `findings` are all findings of the file."""
        yield from self.faults
        if not self.entries:
            return
        levels: dict[tuple[str, str], dict[str, set[Level]]] = {}
        for found in findings:
            below = levels.setdefault((found.name, found.code), {})
            for place in places_of(found.pointer):
                below.setdefault(place, set()).add(found.level)
        kinds: dict[str, list[tuple[str, str]]] = {}
        for entry in self.entries:
            if entry.rule not in kinds:
                kinds[entry.rule] = [kind for kind in levels if _covers(entry.rule, *kind)]
            covered = {level for kind in kinds[entry.rule] for level in levels[kind].get(entry.at, ())}
            remark = _remark(entry, covered)
            if remark is not None:
                yield remark


def _covers(word: str, name: str, code: str) -> bool:
    return name not in _TOLD and matches(word, name, code)


def _remark(entry: Suppression, covered: Set[Level]) -> Finding | None:
    """Return the finding about an entry that covers findings of these levels, if there is one."""
    rule = quoted(entry.rule)
    if not covered:
        where = f" at {quoted(entry.at)}" if entry.at else ""
        message = f"{rule} finds nothing{where}: this entry is not needed"
        return finding("unused-ignore", message, pointer=entry.pointer, hint="remove it")
    if covered == {"error"}:
        message = f"{rule} is an error here, and errors cannot be left out"
        return finding("unused-ignore", message, pointer=entry.pointer, hint="mend it instead")
    if not entry.reason:
        hint = f'write {{"rule": {rule}, "reason": "…"}}'
        message = f"{rule} is left out without a reason"
        return finding("ignore-without-reason", message, pointer=entry.pointer, hint=hint)
    return None


def read_suppressions(document: Mapping[str, Any]) -> Suppressions:
    """Read the entries of a document, whatever their form."""
    settings = document.get("x-lint")
    if not isinstance(settings, dict):
        return Suppressions((), ())
    entries: list[Suppression] = []
    faults = [_unknown_setting(name) for name in settings if name not in _SETTINGS]
    listed = settings.get("ignore")
    if listed is not None and not isinstance(listed, list):
        fault = finding("unknown-rule", '"ignore" is a list of rules', pointer=f"{_PLACE}/ignore", hint=_FORM)
        return Suppressions((), (*faults, fault))
    guessed: dict[str, str | None] = {}
    for index, item in enumerate(listed or ()):
        pointer = f"{_PLACE}/ignore/{index}"
        entry = _entry(item, pointer)
        if entry is None:
            message = "this entry names no rule"
            faults.append(finding("unknown-rule", message, pointer=pointer, hint=_FORM))
        elif not names_a_rule(entry.rule):
            if entry.rule not in guessed:
                guessed[entry.rule] = near_rule(entry.rule) if len(guessed) < _GUESSED else None
            meant = guessed[entry.rule]
            hint = "docs/rules.md lists the rules" if meant is None else f"did you mean {quoted(meant)}?"
            message = f"there is no rule {quoted(entry.rule)}"
            faults.append(finding("unknown-rule", message, pointer=pointer, hint=hint))
        else:
            entries.append(entry)
    budget = settings.get("token_budget")
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 1):
        message = '"token_budget" is a whole number of tokens, at least 1'
        faults.append(finding("unknown-rule", message, pointer=f"{_PLACE}/token_budget"))
    return Suppressions(tuple(entries), tuple(faults))


def _entry(item: object, pointer: str) -> Suppression | None:
    if isinstance(item, str):
        return Suppression(pointer, item, "", "")
    if not isinstance(item, dict) or not isinstance(item.get("rule"), str):
        return None
    at, reason = item.get("at"), item.get("reason")
    return Suppression(
        pointer,
        item["rule"],
        at.rstrip("/") if isinstance(at, str) else "",
        reason.strip() if isinstance(reason, str) else "",
    )


def _unknown_setting(name: str) -> Finding:
    meant = nearest(name, _SETTINGS)
    hint = f"the settings are {', '.join(_SETTINGS)}" if meant is None else f"did you mean {quoted(meant)}?"
    message = f'"x-lint" has no setting {quoted(name)}'
    return finding("unknown-rule", message, pointer=_PLACE + step(name), hint=hint)
