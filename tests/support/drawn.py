"""What tests of pictures share: documents with any text in them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

WORDS = [
    "end",
    "note",
    "state",
    "direction",
    "class",
    "default",
    "__proto__",
    "a-b",
    "TB",
    "go_direction",
    "graph",
    "node",
]
IDS = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True), st.sampled_from(WORDS)
)
NASTY = [
    "%% {init}", "a --> b", "[*]", "end note", "direction LR", "<b>x</b>", '"quoted"', "semi;colon", "a:b", "#35;",
    "<<choice>>", "}", "{", "\\", '\\"', "\\N", "line\nbreak", "-->", "```", "note right of a : x", "style x:#f;",
    "日本語 🎉",
]  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=40), st.lists(st.sampled_from(NASTY), min_size=1, max_size=3).map(" ".join)
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A document of today's form: at most six states, any texts."""
    ids = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    move = st.fixed_dictionaries(
        {"target_state": st.sampled_from(ids), "description": TEXTS},
        optional={
            "auto": st.booleans(),
            "conditions": st.lists(st.fixed_dictionaries({"description": TEXTS}), max_size=2),
        },
    )
    state = st.fixed_dictionaries(
        {"purpose": TEXTS, "transitions": st.lists(move, max_size=3)},
        optional={
            "kind": st.sampled_from(["converse", "decide"]),
            "required_context_keys": st.lists(TEXTS, max_size=2),
        },
    )
    document = {
        "name": draw(TEXTS),
        "initial_state": draw(st.sampled_from(ids)),
        "states": {name: draw(state) for name in ids},
    }
    if draw(st.booleans()):
        document["global_transitions"] = draw(st.lists(move, max_size=2))
    return document
