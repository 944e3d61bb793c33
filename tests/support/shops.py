"""A release of a small shop: its two definitions and its file, for tests."""

from __future__ import annotations

import json


def _way(target, item):
    conditions = [{"logic": {"==": [{"var": "item"}, item]}}]
    return {"target_state": target, "description": f"The item is {item}", "conditions": conditions}


STABLE = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {
            "item": {"enum": ["tea", "nothing"]},
            "plan": {"type": "string", "x-source": "host"},
        },
    },
    "states": {
        "ask": {
            "reply": "Which item?",
            "required_context_keys": ["item"],
            "transitions": [_way("booked", "tea"), _way("lost", "nothing")],
        },
        "booked": {"reply": "Thanks.", "outcome": "booked"},
        "lost": {"reply": "Bye.", "outcome": "lost"},
    },
}
CANDIDATE = json.loads(json.dumps(STABLE).replace("Which item?", "What may it be?"))
RELEASE = {
    "release": "shop",
    "stable": "shop.json",
    "candidate": "shop-2.json",
    "share": 0.5,
    "salt": "one",
}


def write_release(folder, stable=STABLE, candidate=CANDIDATE, **changes):
    """Write the three files, and return the path of the release."""
    path = folder / "shop.release.json"
    (folder / "shop.json").write_text(json.dumps(stable))
    if candidate is not None:
        (folder / "shop-2.json").write_text(json.dumps(candidate))
    path.write_text(json.dumps({**RELEASE, **changes}))
    return path
