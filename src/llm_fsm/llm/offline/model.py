"""A partner without a language model: it reads the plain view of the turn and answers by rules.

Values come from the user's words by their schemas and simple patterns, moves from the definition's
conditions and from words that the message shares with the transitions' descriptions, and its own words from
the definition. It understands English only, and says that it is no model when it greets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llm_fsm.conditions.compiler import ConditionError, evaluate, truthy
from llm_fsm.errors import ModelError
from llm_fsm.llm.offline import wording
from llm_fsm.llm.offline.extract import MAX_CHARS, read_update
from llm_fsm.llm.offline.patterns import pattern_of
from llm_fsm.llm.offline.vocabulary import is_question, meanings, polarity, words_of
from llm_fsm.session.context import has
from llm_fsm.session.messages import Choice, LLMRequest, ModelReply, TurnView

_GROUP_WEIGHT, _WORD_WEIGHT, _ARRIVAL_WEIGHT = 2.0, 1.0, 0.5
_ASIDE = frozenset({"@yes", "@no", "@cancel", "@help", "@human", "@back", "@change"})
"""What is taken only when it is said."""

_SKIP = frozenset({"skip", "none", "later", "nothing"})
_CLEAR = 2.0
"""The likeness from which on a choice is meant although something is still wanted."""


class OfflineLLM:
    """The adapter around `answer`; it needs the request's view."""

    reads_view = True

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer by rules. Raises ModelError for a request without a view."""
        if request.view is None:
            raise ModelError("the model `offline` reads the plain view of a turn, and this request has none")
        view = request.view
        text = output(view) if view.task else json.dumps(answer(view), ensure_ascii=False)
        return ModelReply(text=text, model="offline", mode="offline", finish_reason="stop")


def output(view: TurnView) -> str:
    """What a task is answered: that nothing works on it here, and what it was to do. Tools are never called."""
    return wording.join(wording.NO_WORK, view.purpose or view.description or view.state.replace("_", " "))


def answer(view: TurnView) -> dict[str, Any]:
    """A reply in the form that is asked of models: {"transition": {…}, "message": …}."""
    if view.speak or view.user is None:
        notice = wording.NOTICE if view.user is None else ""
        words = wording.join(notice, wording.opening(view.own_words, view.wanted)) or "Please go on."
        return _reply(view.state, {}, words)
    if view.refused:
        words = wording.join("That is not possible now", wording.request(view.wanted) or _options(view, {}))
        return _reply(view.state, {}, words)
    pattern = pattern_of(view.user, view.patterns, (_named(choice) for choice in view.choices))
    if pattern is not None:
        return _reply(pattern, {}, "")
    update = read_update(view)
    choice = pick(view, update)
    if choice is None:
        return _reply(view.state, update, _stay_words(view, update))
    wanted = {key: schema for key, schema in choice.wanted.items() if key not in update}
    arrival = "" if choice.fixed else wording.opening(choice.arrival, wanted)
    return _reply(choice.target_state, update, arrival)


def pick(view: TurnView, update: Mapping[str, Any]) -> Choice | None:
    """The choice to take after the update; None to stay.

    What the message clearly names comes first, then what the update made possible. Otherwise it goes on when
    all that is wanted is known, or the user declines to tell it.
    """
    text = (view.user or "")[:MAX_CHARS]
    after = {**view.context, **update, **view.system}
    before = {**view.context, **view.system}
    standing = [choice for choice in view.choices if _holds(choice, after)]
    missing = [key for key in view.wanted if key not in update]
    meant = _most_like(text, standing, _CLEAR if missing else _WORD_WEIGHT)
    if meant is not None:
        return meant
    for choice in standing:
        if not _holds(choice, before):
            return choice
    declines = polarity(text) is False or bool(_SKIP.intersection(words_of(text)))
    if is_question(text) or declines is not bool(missing):
        return None
    return _onward(standing, alone=bool(missing))


def _onward(standing: Sequence[Choice], *, alone: bool) -> Choice | None:
    """Where it goes on when nothing points elsewhere: the first choice with conditions, else the only one."""
    onward = [choice for choice in standing if not _ASIDE & _named(choice)]
    guarded = [choice for choice in onward if choice.requires or choice.logic]
    if guarded and not alone:
        return guarded[0]
    return onward[0] if len(onward) == 1 else None


def _holds(choice: Choice, data: Mapping[str, Any]) -> bool:
    return all(has(data, key) for key in choice.requires) and all(
        _is_true(rule, data) for rule in choice.logic
    )


def _is_true(rule: Any, data: Mapping[str, Any]) -> bool:
    try:
        return bool(truthy(evaluate(rule, data)))
    except ConditionError:
        return False


def _most_like(text: str, choices: Sequence[Choice], least: float) -> Choice | None:
    """The choice that shares the most telling words with the message, if one stands out.

    A bare yes or no is clear only where nothing is wanted.
    """
    said = meanings(text) - {"@yes", "@no"}
    agreed = polarity(text)
    if agreed is not None and least < _CLEAR:
        said.add("@yes" if agreed else "@no")
    scores = sorted(((_likeness(said, choice), choice) for choice in choices), key=lambda item: -item[0])
    if not scores or scores[0][0] < least:
        return None
    best, meant = scores[0]
    rivals = [score for score, choice in scores if choice.target_state != meant.target_state]
    return meant if not rivals or rivals[0] < best else None


def _likeness(said: set[str], choice: Choice) -> float:
    named = _named(choice)
    arrival = meanings(choice.arrival) - named
    groups = {meaning for meaning in said & named if meaning.startswith("@")}
    if named & _ASIDE and not groups:
        return 0.0
    likeness = _GROUP_WEIGHT * len(groups) + _WORD_WEIGHT * len((said & named) - groups)
    return likeness + _ARRIVAL_WEIGHT * len({word for word in said & arrival if not word.startswith("@")})


def _named(choice: Choice) -> set[str]:
    return meanings(f"{choice.target_state.replace('_', ' ')} {choice.description}")


def _stay_words(view: TurnView, update: Mapping[str, Any]) -> str:
    missing = {key: schema for key, schema in view.wanted.items() if key not in update}
    understood = wording.noted(update, {**view.writable, **view.wanted})
    if missing:
        missed = "" if update else wording.not_found(missing)
        return wording.join(understood or missed, wording.request(missing))
    if understood:
        return wording.join(understood, _options(view, update))
    return wording.join("I did not understand what to do with that", _options(view, update) or view.own_words)


def _options(view: TurnView, update: Mapping[str, Any]) -> str:
    after = {**view.context, **update, **view.system}
    return wording.menu(choice for choice in view.choices if _holds(choice, after))


def _reply(target: str, update: Mapping[str, Any], message: str) -> dict[str, Any]:
    return {"transition": {"target_state": target, "context_update": dict(update)}, "message": message}
