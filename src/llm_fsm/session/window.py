"""The exchanges that a session keeps for its prompts, and the JSON in which a prompt shows them.

A turn adds one exchange, so its JSON is added to that of those before: writing all of them anew takes as long as the
rest of a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable

from llm_fsm._text import escaped, estimate

Exchange = tuple[str | None, str]
"""What the user said, None where nobody did, and what was answered."""
FRAME = 12
"""Tokens of the JSON around an exchange."""


class Window(tuple[Exchange, ...]):
    """Exchanges with what is known of their JSON; they equal the same exchanges without it."""

    text = ""
    """The JSON of all of them; "" while nobody has asked for it."""
    begun = ""
    """That of all but the last, where it is known."""
    tokens: tuple[int, ...] = ()
    """Those of each exchange, as far as anybody has asked for them."""


def longer(window: tuple[Exchange, ...], exchange: Exchange) -> Window:
    """The exchanges and one more."""
    found = Window((*window, exchange))
    if isinstance(window, Window):
        found.begun, found.tokens = window.text, window.tokens
    return found


def shorter(window: tuple[Exchange, ...], dropped: int) -> Window:
    """The exchanges without so many of the oldest."""
    found = Window(window[dropped:])
    if isinstance(window, Window):
        found.tokens = window.tokens[dropped:]
    return found


def tokens_in(window: tuple[Exchange, ...]) -> tuple[int, ...]:
    """The estimated tokens of each exchange in a prompt."""
    known = window.tokens if isinstance(window, Window) else ()
    found = (*known, *(estimate(user or "") + estimate(said) + FRAME for user, said in window[len(known) :]))
    if isinstance(window, Window):
        window.tokens = found
    return found


def in_prompt(window: Iterable[Exchange]) -> str:
    """The exchanges as a prompt shows them; "" where there are none."""
    if not isinstance(window, Window):
        return _json(window)
    if not window.text:
        begun = window.begun  # looked at once, as another thread may be here too
        window.text = f"{begun[:-1]},{_json(window[-1:])[1:]}" if begun else _json(window)
        window.begun = ""
    return window.text


def most_chars(window: tuple[Exchange, ...]) -> int:
    """At least the characters of all exchanges, without a look at those before the last where their JSON is known."""
    begun = window.begun if isinstance(window, Window) else ""
    chars = len(begun)
    for user, system in window[-1:] if begun else window:
        chars += len(system) if user is None else len(user) + len(system)
    return chars


def _json(window: Iterable[Exchange]) -> str:
    messages: list[dict[str, str]] = []
    for user, system in window:
        if user is not None:
            messages.append({"user": user})
        messages.append({"system": system})
    return escaped(messages) if messages else ""
