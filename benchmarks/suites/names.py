"""The names of an SGD schema, as they are or changed by a table of words."""

from __future__ import annotations

import re

NONE = "NONE"
"""The state without an intent, as SGD calls it."""
WORDS = {
    **{"number": "count", "date": "day", "time": "hour", "city": "town", "location": "place"},
    **{"name": "title", "type": "kind", "price": "cost", "amount": "sum", "receiver": "payee"},
    **{"restaurant": "eatery", "hotel": "lodging", "alarm": "wake_up_call", "event": "show"},
    **{"payment": "transfer", "method": "means", "destination": "goal", "ride": "trip"},
    **{"seats": "places", "rooms": "chambers", "tickets": "passes", "category": "cuisine"},
    **{"appointment": "meeting", "therapist": "counsellor", "private": "hidden", "new": "next"},
    **{
        "visibility": "view",
        "stay": "visit",
        "length": "nights",
        "check": "arrive",
        "star": "grade",
    },
    **{"rating": "class", "smoking": "tobacco", "allowed": "permitted", "range": "level"},
    **{"vegetarian": "meatless", "options": "dishes", "seating": "tables", "outdoors": "open_air"},
    **{"get": "fetch", "add": "create", "find": "look_up", "search": "seek", "book": "schedule"},
    **{
        "buy": "purchase",
        "reserve": "hold",
        "make": "send",
        "request": "claim",
        "provider": "expert",
    },
    **{"show": "list", "alarms": "wake_up_calls", "events": "shows", "restaurants": "eateries"},
}
"""Words of names and descriptions, and those that take their place."""


class Names:
    """The names of a schema, as they are or changed by a table."""

    def __init__(self, renamed: bool) -> None:
        self._renamed = renamed

    def slot(self, name: str) -> str:
        """Return the name of the key of a slot."""
        return "_".join(map(self._word, name.split("_")))

    def intent(self, name: str) -> str:
        """Return the name of the state of an intent."""
        if name == NONE:
            return NONE
        words = re.findall("[A-Z][a-z0-9]*|[a-z0-9]+", name)
        return "".join(self._word(word.lower()).title().replace("_", "") for word in words)

    def words(self, text: str) -> str:
        """Return a description."""
        return re.sub("[A-Za-z]+", lambda found: self._word(found[0]).replace("_", " "), text)

    def _word(self, word: str) -> str:
        return WORDS.get(word.lower(), word) if self._renamed else word
