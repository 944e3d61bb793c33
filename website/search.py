"""Order what the search of the site finds: rules of the checker come last.

The search sorts by the field in which it finds a word, titles first, then by the place of the word
in it, then by the order of its index. The names of 150 rules hold common words, such as
`on-timeout-without-timeout`. So they stand at the end of the text of their sections.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_RULES = "rules.html"


def order(site: Path) -> None:
    """Change the index of a built site, in both of its files."""
    place = site / "search.json"
    index = json.loads(place.read_text(encoding="utf-8"))
    index["items"] = ordered(index["items"])
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    place.write_text(text, encoding="utf-8")
    script = site / "search.js"
    around = re.fullmatch(r"([^{]*){.*}([^}]*)", script.read_text(encoding="utf-8"), re.DOTALL)
    if around is None:
        raise ValueError(f"{script} holds no index")
    script.write_text(f"{around[1]}{text}{around[2]}", encoding="utf-8")


def ordered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sections with those of rules last, and the names of rules in their text."""
    rules = [item for item in items if item["location"].startswith(_RULES)]
    others = [item for item in items if not item["location"].startswith(_RULES)]
    return [*others, *(_named_in_text(rule) for rule in rules)]


def _named_in_text(rule: dict[str, Any]) -> dict[str, Any]:
    text = f"{rule['text']} <p><code>{rule['title']}</code></p>"
    return {**rule, "title": "Rules of the checker", "text": text}
