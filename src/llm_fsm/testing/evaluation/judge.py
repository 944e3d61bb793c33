"""Compare a turn that a real model played with the labels of a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm._json import JsonMap, of_kind
from llm_fsm._text import estimate
from llm_fsm.session import events as ev
from llm_fsm.session.quotes import find_quote
from llm_fsm.testing.evaluation.labels import Label, fits, found_in

_MESSAGE = re.compile(r'"message"\s*:\s*"')
"""The beginning of the words for the user in a reply."""
SPENT = ("input_tokens", "cached_tokens", "output_tokens", "seconds", "cost")
"""What replies cost, as they and turns name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """A turn and its judgement.

    Attributes:
        say: The user's message; None for another event.
        text: The text of the turn.
        state: The state after it.
        wanted: The allowed states; none: any.
        judged: False for a step without labels.
        moved: True if the state is an allowed one.
        kept: True if all values that this turn's labels name are as labelled.
        worded: True if the text is as labelled.
        acted: True if all labelled acts were done.
        wrong: Keys with labels that are not as labelled.
        invented: Keys that the model set and that no label names.
        lost: Keys that were right before this turn and are not any more.
        harmful: Acts that no label has, and keys that the model set to a value that nobody said.
        refused: Values and moves that the machine refused.
        rejected: Replies that could not be read.
        calls: Calls of the model.
        input_tokens: Tokens of the prompts.
        cached_tokens: Those of them that the provider's cache served.
        output_tokens: Tokens of the replies.
        tokens_before_words: Estimated tokens of the replies before their first word for the user.
        seconds: Seconds of waiting for the model.
        cost: US dollars.
        error: The error that ended the turn; "" if none did.
    """

    say: str | None
    text: str
    state: str
    wanted: tuple[str, ...]
    judged: bool
    moved: bool
    kept: bool
    worded: bool
    acted: bool = True
    wrong: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    harmful: tuple[str, ...] = ()
    refused: int = 0
    rejected: int = 0
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    tokens_before_words: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    error: str = ""

    @property
    def right(self) -> bool:
        """True if state, new values and acts are right, and nothing was invented, lost or harmed."""
        wrong = self.invented or self.lost or self.harmful or self.error
        return self.moved and self.kept and self.acted and not wrong

    @property
    def why(self) -> str:
        """Say how the turn differs from its labels; "" if it does not, or has none."""
        if self.right or not self.judged:
            return ""
        kinds = {
            "the state should be": () if self.moved else (" or ".join(self.wanted),),
            "wrong:": () if self.kept else self.wrong,
            "invented:": self.invented,
            "lost:": self.lost,
            "harmful:": self.harmful,
        }
        told = [f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names]
        return "; ".join((*filter(None, (self.error,)), *told)) or "an act is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The facts that a step left, which are judged."""

    text: str = ""
    state: str
    context: JsonMap
    events: Sequence[ev.Event] = ()
    error: str = ""


def judge(
    label: Label,
    known: JsonMap,
    before: JsonMap,
    after: StepOutcome,
    words: Sequence[tuple[int, str]] = (),
) -> JudgedTurn:
    """Judge a turn.

    Args:
        label: The step, with its labels.
        known: All labelled values up to this step, its own included.
        before: The context before it.
        after: The result.
        words: All that was said up to the step, each with a number.
    """
    context = after.context
    wrong = tuple(key for key, wanted in known.items() if not fits(context.get(key), wanted))
    earlier = [key for key in wrong if key not in label.values]
    written = _written(after.events, context)
    invented = tuple(key for key in written if key not in known) if label.whole else ()
    unsaid = [key for key in written if key in wrong or key in invented]
    moved = not label.states or after.state in label.states
    acts = [event.act for event in of_kind(after.events, ev.Acted)]
    expected = label.acts
    if expected is None:
        expected = acts if moved else ()
    replies = of_kind(after.events, ev.ModelReplied)
    refused = [
        event for event in after.events if isinstance(event, ev.ContextRefused | ev.MoveRefused)
    ]
    rejected = of_kind(after.events, ev.ReplyRejected)
    return JudgedTurn(
        say=label.step.say,
        text=after.text,
        state=after.state,
        wanted=label.states,
        judged=label.judged,
        moved=moved,
        kept=not any(key in wrong for key in label.values),
        worded=all(found_in(pattern, after.text) for pattern in label.texts),
        acted=all(act in acts for act in expected),
        wrong=wrong,
        invented=invented,
        lost=tuple(key for key in earlier if fits(before.get(key), known[key])),
        harmful=(
            *(act for act in acts if act not in expected),
            *(key for key in unsaid if not _was_said(context[key], words)),
        ),
        refused=len(refused),
        rejected=len(rejected),
        calls=len(replies),
        tokens_before_words=sum(map(_before_words, replies)),
        error=after.error,
        **{name: sum(getattr(reply, name) for reply in replies) for name in SPENT},
    )


def _written(events: ev.Events, context: JsonMap) -> list[str]:
    """Return the keys that the model set in these events and that are still set, in order.

    Further facts, such as those of `_extra`, are no values.
    """
    written = {}
    for event in events:
        if isinstance(event, ev.ContextSet) and event.source == "model":
            written.update(dict.fromkeys(event.values))
    return [key for key in written if key in context and not key.startswith("_")]


def _was_said(value: Any, words: Sequence[tuple[int, str]]) -> bool:
    """Return true if a value stands in the words; numbers and objects never do."""
    return isinstance(value, str) and find_quote(value, words) is not None


def _before_words(reply: ev.ModelReplied) -> int:
    """Estimate the tokens of a reply before its first word for the user; 0 for a reply without
    words.
    """
    found = _MESSAGE.search(reply.text)
    return 0 if found is None else estimate(reply.text[: found.end()])
