"""Compare a turn that a real model played with the labels of a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_fsm._json import JsonMap
from llm_fsm._text import estimate
from llm_fsm.session import events as ev
from llm_fsm.session.turn_record import of_kind
from llm_fsm.testing.evaluation.labels import Label, fits, found_in

_MESSAGE = re.compile(r'"message"\s*:\s*"')
"""The beginning of the words for the user in a reply."""


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
        wrong: Keys with labels that are not as labelled.
        invented: Keys that the model set and that no label names.
        harmed: Keys that were right before this turn and are not any more.
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
    wrong: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    harmed: tuple[str, ...] = ()
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
        """True if state and new values are right, nothing was invented, and nothing was harmed."""
        return self.moved and self.kept and not self.invented and not self.harmed and not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The facts that a step left, which are judged."""

    text: str = ""
    state: str
    context: JsonMap
    events: Sequence[ev.Event] = ()
    error: str = ""


def judge(label: Label, known: JsonMap, before: JsonMap, after: StepOutcome) -> JudgedTurn:
    """Judge a turn.

    Args:
        label: The step, with its labels.
        known: All labelled values up to this step, its own included.
        before: The context before it.
        after: The result.
    """
    context = after.context
    wrong = tuple(key for key, wanted in known.items() if not fits(context.get(key), wanted))
    earlier = [key for key in wrong if key not in label.values]
    harmed = tuple(key for key in earlier if fits(before.get(key), known[key]))
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
        moved=not label.states or after.state in label.states,
        kept=not any(key in wrong for key in label.values),
        worded=all(found_in(pattern, after.text) for pattern in label.texts),
        wrong=wrong,
        invented=_invented(after.events, known, context) if label.whole else (),
        harmed=harmed,
        refused=len(refused),
        rejected=len(rejected),
        calls=len(replies),
        input_tokens=sum(reply.input_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        output_tokens=sum(reply.output_tokens for reply in replies),
        tokens_before_words=sum(map(_before_words, replies)),
        seconds=sum(reply.seconds for reply in replies),
        cost=sum(reply.cost for reply in replies),
        error=after.error,
    )


def _invented(events: Iterable[ev.Event], known: JsonMap, context: JsonMap) -> tuple[str, ...]:
    """Return the keys that the model set in these events, and that no label names."""
    written: dict[str, None] = {}  # in the order in which they were set
    for event in events:
        if isinstance(event, ev.ContextSet) and event.source == "model":
            written.update(dict.fromkeys(event.values))
    unlabelled = written.keys() - known.keys()
    kept = [key for key in written if key in unlabelled]
    return tuple(key for key in kept if _is_shown(key, context))


def _is_shown(key: str, context: JsonMap) -> bool:
    """Return true for a declared key that is still set. Further facts, such as those of `_extra`,
    are no values.
    """
    return key in context and not key.startswith("_")


def _before_words(reply: ev.ModelReplied) -> int:
    """Estimate the tokens of a reply before its first word for the user; 0 for a reply without
    words.
    """
    found = _MESSAGE.search(reply.text)
    return 0 if found is None else estimate(reply.text[: found.end()])
