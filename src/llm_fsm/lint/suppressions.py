"""Suppressions in a file, under `x-lint`: findings that its author has accepted.

    "x-lint": {"ignore": ["rule-name", {"rule": "rule-name", "at": "/states/x", "reason": "…"}],
               "token_budget": 6000}

A rule is given by its name, its code or the beginning of a code. `at` is a JSON pointer, and
everything below it is included. Errors cannot be suppressed, because they must be fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, grouped, list_at, places_of, step
from llm_fsm.conditions.coercion import is_whole
from llm_fsm.definition.codes import finding
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.facts.suggestions import near_hint, quoted
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


@dataclass(frozen=True)
class Suppressions:
    """The entries of a file, and their own faults."""

    entries: Sequence[Suppression] = ()
    faults: Sequence[Finding] = ()

    @cached_property
    def _rules_at(self) -> Mapping[str, list[str]]:
        """Pointer to the rules that entries suppress below it."""
        return grouped((entry.at, entry.rule) for entry in self.entries)

    def _covering(self, found: Finding) -> list[tuple[str, str]]:
        """Return (rule, pointer) of the entries that stand for a finding."""
        if not self.entries or found.name in _TOLD:
            return []
        covering = []
        for at in places_of(found.pointer):
            for rule in self._rules_at.get(at, ()):
                if matches(rule, found.name, found.code):
                    covering.append((rule, at))
        return covering

    def kept(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that no entry suppresses. Errors are always kept."""
        return [found for found in findings if found.level == "error" or not self._covering(found)]

    def remarks(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings about the entries themselves; `findings` are all findings of the file."""
        yield from self.faults
        levels: dict[tuple[str, str], set[Level]] = {}
        for found in findings:
            for entry in self._covering(found):
                levels.setdefault(entry, set()).add(found.level)
        for written in self.entries:
            remark = _remark(written, levels.get((written.rule, written.at), set()))
            if remark is not None:
                yield remark


def _remark(entry: Suppression, covered: Set[Level]) -> Finding | None:
    """Return the finding about an entry that covers findings of these levels, if there is one."""
    rule = quoted(entry.rule)
    if not covered:
        where = ""
        if entry.at:
            where = f" at {quoted(entry.at)}"
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


def read_suppressions(document: JsonMap) -> Suppressions:
    """Read the entries of a document, whatever their form."""
    settings = document.get("x-lint")
    if not isinstance(settings, dict):
        return Suppressions()
    entries = []
    faults = [_unknown_setting(name) for name in settings if name not in _SETTINGS]
    listed = settings.get("ignore")
    if listed is not None and not isinstance(listed, list):
        fault = finding(
            "unknown-rule", '"ignore" is a list of rules', pointer=f"{_PLACE}/ignore", hint=_FORM
        )
        return Suppressions((), (*faults, fault))
    guessed: dict[str, str | None] = {}
    for index, item in enumerate(list_at(settings, "ignore")):
        pointer = f"{_PLACE}/ignore/{index}"
        entry = _entry(item, pointer)
        if entry is None:
            message = "this entry names no rule"
            faults.append(finding("unknown-rule", message, pointer=pointer, hint=_FORM))
        elif not names_a_rule(entry.rule):
            if entry.rule not in guessed:
                guessed[entry.rule] = near_rule(entry.rule) if len(guessed) < _GUESSED else None
            meant = guessed[entry.rule]
            hint = (
                "docs/rules.md lists the rules"
                if meant is None
                else f"did you mean {quoted(meant)}?"
            )
            message = f"there is no rule {quoted(entry.rule)}"
            faults.append(finding("unknown-rule", message, pointer=pointer, hint=hint))
        else:
            entries.append(entry)
    budget = settings.get("token_budget")
    if budget is not None and (not is_whole(budget) or budget < 1):
        message = '"token_budget" is a whole number of tokens, at least 1'
        faults.append(finding("unknown-rule", message, pointer=f"{_PLACE}/token_budget"))
    return Suppressions(tuple(entries), tuple(faults))


def _entry(item: Any, pointer: str) -> Suppression | None:
    match item:
        case str():
            return Suppression(pointer, item, "", "")
        case {"rule": str(rule)}:
            at = item.get("at")
            reason = item.get("reason")
            return Suppression(
                pointer,
                rule,
                at.rstrip("/") if isinstance(at, str) else "",
                reason.strip() if isinstance(reason, str) else "",
            )
    return None


def _unknown_setting(name: str) -> Finding:
    hint = near_hint(name, _SETTINGS) or f"the settings are {', '.join(_SETTINGS)}"
    message = f'"x-lint" has no setting {quoted(name)}'
    return finding("unknown-rule", message, pointer=_PLACE + step(name), hint=hint)
