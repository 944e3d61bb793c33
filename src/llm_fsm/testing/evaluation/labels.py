"""The labels of a case: for each step, what a person says must be so after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonMap, is_same
from llm_fsm.conditions.compiler import evaluate
from llm_fsm.testing.scenarios.loader import Play
from llm_fsm.testing.scenarios.models import CaseStep, Expect, LabelledTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One step and its labels.

    Attributes:
        step: The event from outside.
        states: The allowed states after it; none: any.
        values: The keys that must be known from this step on. None: the key must not be set.
        texts: Regular expressions (RE2) that must be found in the text.
        acts: The names of all tools and tasks that act behind a yes; None: those that the states
            need.
        said: The words of another system in place of the machine's, for the later history.
        whole: True if every value that the user gave has a label. Then any other value is invented.
        judged: False for a step without labels. It is played, and not counted.
    """

    step: CaseStep
    states: tuple[str, ...] = ()
    values: JsonMap = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    acts: Sequence[str] | None = None
    said: str | None = None
    whole: bool = False
    judged: bool = True


def labels_of(play: Play) -> tuple[Label, ...]:
    """Return the steps of a case with their labels.

    The labels are those of `turns`. Without them, the expectations of `steps` count: the state, the
    context and the regular expressions. A real model is free to choose its own words and its number
    of calls.
    """
    if play.case.turns:
        return tuple(_of_turn(turn) for turn in play.case.turns)
    return tuple(_of_step(step) for step in play.case.steps)


def _of_turn(turn: LabelledTurn) -> Label:
    return Label(
        step=CaseStep(say=turn.say),
        states=tuple(turn.state or ()),
        values=turn.values,
        texts=() if turn.text is None else (f"(?i){turn.text}",),
        acts=turn.acts,
        said=turn.said,
        whole=True,
    )


def _of_step(step: CaseStep) -> Label:
    expect = step.expect or Expect()
    texts = () if expect.text is None else tuple(expect.text.matches)
    values = {**expect.context, **(expect.context_exact or {}), **dict.fromkeys(expect.absent)}
    states = tuple(expect.state or ())
    whole = expect.context_exact is not None
    judged = bool(states or values or texts)
    return Label(step=step, states=states, values=values, texts=texts, whole=whole, judged=judged)


def fits(value: Any, label: Any) -> bool:
    """Return true if a value is what a label says.

    Numbers, texts and truth values must have the same type. An object may have further parts that
    are null. The label {"like": "…"} is a regular expression (RE2) that must be found in a text;
    case is ignored. With {"maybe": …} the value may be missing, too.

    Example:
        >>> fits("Ada Lovelace", {"like": "^ada"}), fits(1, True), fits(None, {"maybe": 1})
        (True, False, True)
    """
    match label:
        case dict() if set(label) == {"maybe"}:
            return value is None or fits(value, label["maybe"])
        case dict() if set(label) == {"like"}:
            return isinstance(value, str) and found_in(f"(?i){label['like']}", value)
        case dict():
            if not isinstance(value, dict):
                return False
            known = {key for key, item in value.items() if item is not None}
            return known == set(label) and all(
                fits(value[key], item) for key, item in label.items()
            )
        case list():
            if not isinstance(value, list) or len(value) != len(label):
                return False
            return all(fits(one, wanted) for one, wanted in zip(value, label, strict=True))
    return is_same(value, label)


def found_in(pattern: str, text: str) -> bool:
    """Return true if a regular expression is found in a text, as the condition `matches` finds it."""
    return bool(
        evaluate(
            {"matches": [{"var": "text"}, {"var": "pattern"}]}, {"text": text, "pattern": pattern}
        )
    )
