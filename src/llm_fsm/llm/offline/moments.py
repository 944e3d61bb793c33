"""Dates and times of day in English words and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

COUNTS = (
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
"""The words for 0 to 20."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
ISO_DATE = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH},?(?: (\d{{4}}))?\b", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,?(?: (\d{{4}}))?\b", re.IGNORECASE)
_NEAR_DAY = re.compile(rf"\b(today|tomorrow|{'|'.join(_DAYS)})\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\b(\d{1,2})(?:[:.](\d{2}))?(?::(\d{2}))?\s*(am|pm|a\.m\.|p\.m\.|o'clock)?(?!\w)", re.IGNORECASE
)
_HALF_PAST = re.compile(rf"\b(half|quarter) (past|to) ({'|'.join(COUNTS[1:13])}|\d{{1,2}})\b", re.IGNORECASE)
_NOON = re.compile(r"\b(noon|midday|midnight)\b", re.IGNORECASE)


def dates(text: str, now: float | None) -> Iterator[tuple[str, int, int]]:
    """ISO dates with their places; `now`: seconds since the epoch, from which "tomorrow" counts."""
    today = None if now is None else datetime.fromtimestamp(now, UTC).date()
    for pattern, order in (
        (ISO_DATE, "ymd"),
        (_DOTTED_DATE, "dmy"),
        (_DAY_MONTH, "dmy"),
        (_MONTH_DAY, "mdy"),
    ):
        for match in pattern.finditer(text):
            parts = dict(zip(order, match.groups(), strict=True))
            month = parts["m"].lower()[:3]
            number = _MONTHS.index(month) + 1 if month in _MONTHS else int(parts["m"])
            found = _day(parts["y"], number, int(parts["d"]), today)
            if found is not None:
                yield found.isoformat(), match.start(), match.end()
    for match in _NEAR_DAY.finditer(text) if today else ():
        yield _near(match.group().lower(), today or date.min).isoformat(), match.start(), match.end()


def _day(year: str | None, month: int, day: int, today: date | None) -> date | None:
    """A date; without a year the next one that is not past."""
    if year is None and today is None:
        return None
    try:
        found = date(int(year) if year else (today or date.min).year, month, day)
        return found.replace(year=found.year + 1) if not year and today and found < today else found
    except ValueError:
        return None


def _near(word: str, today: date) -> date:
    if word in _DAYS:
        return today + timedelta(days=(_DAYS.index(word) - today.weekday() - 1) % 7 + 1)
    return today + timedelta(days=1 if word == "tomorrow" else 0)


def clock_times(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Times of day as (hour, minute, start, end)."""
    for match in _HALF_PAST.finditer(text):
        part, side, spoken = (group.lower() for group in match.groups())
        hour = int(spoken) if spoken.isdecimal() else COUNTS.index(spoken)
        minute = 30 if part == "half" else 15
        minutes = hour * 60 + (minute if side == "past" else -minute)
        yield minutes // 60 % 24, minutes % 60, match.start(), match.end()
    for match in _NOON.finditer(text):
        yield (0 if match.group().lower() == "midnight" else 12), 0, match.start(), match.end()
    for match in _CLOCK.finditer(text):
        hour, minute, half = int(match[1]), int(match[2] or 0), (match[4] or "").lower()
        if not (match[2] or half) or hour > 23 or minute > 59:
            continue
        if half[:1] in {"a", "p"}:
            hour = hour % 12 + (12 if half[0] == "p" else 0)
        yield hour, minute, match.start(), match.end()
