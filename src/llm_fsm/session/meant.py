"""The one name that a model means, among the names that it was given: of states, patterns and
tools.

Case, blanks, separators, marks around a name and a prefix before a `.` or `:` do not count, where
only one name is left. Models were trained on `functions.NAME` and `default_api:NAME`, and servers
leave marks of their own in names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from llm_fsm.definition.names import UNSEEN
from llm_fsm.session.normalize import letters

_AROUND = "`'\"*<>[](){}.:,|#$@!/\\" + UNSEEN
"""Characters that models write around a name."""
_MARK = re.compile(r"<\||\||\(|\{|\[|<")
"""The beginning of a mark after a name: a token of a model's own format, or arguments."""
_NUMBER = re.compile(r"[:#.]\d{1,4}$")
"""The number of a call after its name."""
_PREFIX = re.compile(r"[.:/]+")
_LONGEST = 300


def meant_name(said: str, names: Collection[str]) -> str | None:
    """Return the name that is meant.

    Args:
        said: The name as a model wrote it.
        names: The names that it may mean.

    Returns:
        One of them; None if it means none of them, or may mean several.

    Example:
        >>> meant_name("functions.Stock:0", ["stock", "hours"])
        'stock'
    """
    if said in names:
        return said
    for form in _forms(said[:_LONGEST]):
        if form in names:
            return form
        plain = letters(form)
        same = [name for name in names if letters(name) == plain]
        if same:
            return same[0] if len(same) == 1 else None
    return None


def _forms(said: str) -> Iterator[str]:
    """Yield shorter and shorter forms of a name, without empty ones."""
    bare = said.strip(_AROUND)
    whole = [bare]
    found = _MARK.search(bare)
    if found is not None and found.start() > 0:
        bare = bare[: found.start()].strip(_AROUND)
        whole.append(bare)
    unnumbered = _NUMBER.sub("", bare).strip(_AROUND)
    whole.append(unnumbered)
    parts = list(_PREFIX.finditer(unnumbered))
    whole += [unnumbered[part.end() :].strip(_AROUND) for part in parts]
    yield from filter(None, dict.fromkeys(whole))
