"""Try again until an output meets its objective, and read the reply of a judge."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Self

from llm_fsm._text import escaped
from llm_fsm.conditions.coercion import is_number
from llm_fsm.errors import LLMFSMError, ReplyError
from llm_fsm.llm.clients.messages import Message, text_of
from llm_fsm.session.values import to_json_or_text
from llm_fsm.tools.returns import Function
from llm_fsm.turn.reply.parser import document

_VERDICT = ("valid", "is_valid", "passed")
_ADVICE = ("advice", "reason", "feedback")


class RefinementFailed(LLMFSMError, ValueError):
    """No attempt met its objective.

    Args:
        attempts: The number of attempts.
        advice: The advice of the last judgement.
        best: The best output.
    """

    def __init__(self, attempts: int, advice: str | None = None, best: Any = None) -> None:
        self.attempts = attempts
        self.advice = advice
        self.best = best
        tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"the objective was not met in {tried}: {advice or 'no advice was given'}")


class Judgement(tuple[bool, str | None]):
    """(valid, advice). `score` is the quality of the output; None if it has none."""

    score: float | None

    def __new__(cls, valid: bool, advice: str | None, score: float | None = None) -> Self:
        """Make a judgement."""
        made = super().__new__(cls, (valid, advice))
        made.score = score
        return made


def refine(
    attempt: Function, judge: Callable[[Any], Any], retries: int, *, throw: bool
) -> Generator[Any, Any, Any]:
    """Yield attempts and judgements in turn. Return the first valid output, or the best one.

    A judgement is (valid, advice). A `Judgement` may have a score. The highest score is the best,
    then the latest attempt.
    """
    advice: str | None = None
    best, most = None, float("-inf")
    for _ in range(retries + 1):
        output = yield attempt(refinement_advice=advice)
        found = yield judge(output)
        valid, advice = found
        if valid is True:
            return output
        score = found.score if isinstance(found, Judgement) else None
        if score is None or score >= most:
            best, most = output, most if score is None else score
    if throw:
        raise RefinementFailed(retries + 1, advice, best)
    return best


def judged(llm: Any, objective: str, output: Any, context: str) -> Generator[Any, Any, Judgement]:
    """Yield the answer of a model to the question if an output meets an objective, and return its
    judgement.
    """
    answer = yield llm.chat(_messages(objective, output, context), temperature=0.0)
    return _read(str(text_of(answer)))


def _messages(objective: str, output: Any, context: str) -> list[Message]:
    text = escaped(to_json_or_text(text_of(output)))
    system = (
        "You judge whether an output meets its objective. Be strict but fair. Answer with one JSON object: "
        '{"valid": true or false, "advice": "what to do better", "score": 0 to 10}.'
    )
    asked = f"Objective: {escaped(objective)}\n\nOutput: {text}"
    return [
        Message("system", system),
        Message("user", f"{context}\n\n{asked}" if context else asked),
    ]


def _read(text: str) -> Judgement:
    """Read a judge's reply. An unclear reply counts as not valid."""
    plain: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, said_there = line.partition(":")
        if colon and name.strip().lower() in ("valid", "advice"):
            plain[name.strip().lower()] = said_there.strip()
    if "valid" in plain:
        return Judgement(plain["valid"].lower() in ("yes", "true"), plain.get("advice") or None)
    try:
        said = document(text)
    except ReplyError:
        return Judgement(False, text.strip() or None)
    valid = next((said[name] for name in _VERDICT if name in said), None)
    advice = next(
        (said[name] for name in _ADVICE if isinstance(said.get(name), str) and said[name]), None
    )
    score = said.get("score")
    scored = float(score) if is_number(score) else None
    return Judgement(valid is True, advice, scored)
