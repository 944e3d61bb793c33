"""A model without a provider: it accepts certain values, and says what it did not understand.

Values come from the whole message, or from typed words in it (see `extract`). A move is taken if
the values open it, or if the message is just its name. A mere yes, no or word of leaving takes the
only move whose description matches it. The texts are the definition's own (see `wording`). It
understands English words, a yes and a no in the language of the conversation, and the titles and
labels of the definition. In another language it says the definition's own words and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, json_text, without
from llm_fsm.conditions.compiler import ConditionError, evaluate, truthy
from llm_fsm.errors import ModelError
from llm_fsm.languages import ends_in_question, is_english
from llm_fsm.llm.offline import wording
from llm_fsm.llm.offline.amounts import Message
from llm_fsm.llm.offline.extract import LEAVING, WAYS, folded, read_update, wish, yes_or_no
from llm_fsm.session.context import has
from llm_fsm.session.messages import LLMRequest, ModelReply, PlainTurn, ReplyForm, TransitionView
from llm_fsm.session.quotes import own_quote
from llm_fsm.session.reply_schema import quoted_keys

NOTICE = "offline: no language model is used, and only what is certain is understood"
_LEAVES = re.compile(
    r"\b(?:stop|cancel|quit|abort|goodbye|leave|end the|discard)(?:s|ped|led|ed)?\b", re.IGNORECASE
)
_AFFIRMS = re.compile(
    r"\b(?:yes|agrees?|confirms?|confirmed|accepts?|approves?|clearly says)\b", re.IGNORECASE
)
_DENIES = re.compile(
    r"\b(?:no|not|nothing|never|cannot|declines?|refuses?|rejects?|disagrees?|wrong)\b",
    re.IGNORECASE,
)


class OfflineLLM:
    """The adapter around `answer`. It needs the request's view."""

    reads_view = True
    notice = NOTICE
    """A line that the terminal shows to the user."""

    def reply_form(self, _model: str | None) -> ReplyForm:
        """Return the form that takes values as an object."""
        return "object"

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer by rules. Raises ModelError for a request without a view."""
        if request.view is None:
            raise ModelError(
                "the model `offline` reads the plain view of a turn, and this request has none"
            )
        view = request.view
        text = output(view) if view.task else json_text(answer(view))
        return ModelReply(text=text, model="offline", mode="offline", finish_reason="stop")


def output(view: PlainTurn) -> str:
    """Return the output of a task: a note that nothing works on it here, and its purpose. It never
    calls tools.
    """
    note = wording.NO_WORK if is_english(view.language) else ""
    return wording.join(note, view.purpose) or "–"


def answer(view: PlainTurn) -> JsonDict:
    """Return a reply in the form of models: {"transition": {…}, "message": …}."""
    language = view.language
    english = is_english(language)
    if view.speak or view.user is None:
        words = wording.opening(view.own_words, view.wanted, language)
        return _reply(view.state, {}, words or ("Please go on." if english else "…"))
    if view.refused:
        notices = view.broken or (("That is not possible now",) if english else ())
        words = wording.join(*notices, wording.request(view.wanted, language) or view.own_words)
        return _reply(view.state, {}, words)
    update = read_update(view, _blocking_keys(view))
    if not update and (pattern := _pattern(view)) is not None:
        return _reply(pattern, {}, "")
    choice = _opened(view, update) if update else _named(view)
    if choice is None:
        return _reply(view.state, _quoted(view, update), _stay_words(view, update))
    wanted = without(choice.wanted, update)
    words = "" if choice.fixed else wording.opening(choice.arrival, wanted, language)
    return _reply(choice.target_state, _quoted(view, update), words)


def _pattern(view: PlainTurn) -> str | None:
    """Return the repair pattern that the whole message names, unless a transition of the definition
    matches.
    """
    said = wish(view.user or "")
    name = next(
        (name for name, said_so in WAYS.items() if said in said_so and name in view.patterns), None
    )
    return None if name == "cancel" and _leaving(view) is not None else name


def _opened(view: PlainTurn, update: JsonMap) -> TransitionView | None:
    """Return the first transition that an update opens, else the only one, if the update has all
    its keys.
    """
    before, standing = _open(view, {}), _open(view, update)
    opened = next((choice for choice in standing if choice not in before), None)
    if opened is not None or not view.wanted or any(key not in update for key in view.wanted):
        return opened
    return _only(choice for choice in standing if choice.own)


def _named(view: PlainTurn) -> TransitionView | None:
    """Return the only transition that the message names, agrees to or declines; None for other
    messages.
    """
    said, standing = folded(view.user or ""), _open(view, {})
    named = [
        choice
        for choice in standing
        if said in (folded(choice.target_state), folded(choice.description))
    ]
    if named or said in LEAVING:
        return _only(named) or _leaving(view)
    own = [choice for choice in standing if choice.own]
    meant = yes_or_no(Message(view.user or "", view.language))
    if meant is False:
        return _only(choice for choice in own if _DENIES.search(choice.description))
    if meant and not view.wanted:
        said_so = [choice for choice in standing if choice.description.startswith("Yes")]
        own = [choice for choice in own if not _DENIES.search(choice.description)]
        return _only(
            said_so or [choice for choice in own if _AFFIRMS.search(choice.description)] or own
        )
    return None


def _leaving(view: PlainTurn) -> TransitionView | None:
    """Return the only way out that a word of leaving names; a global one, if there is one."""
    told = [
        (choice, f"{choice.target_state.replace('_', ' ')} {choice.description}")
        for choice in _open(view, {})
    ]
    found = [choice for choice, words in told if _LEAVES.search(words)]
    return _only([choice for choice in found if not choice.own] or found)


def _only(choices: Iterable[TransitionView]) -> TransitionView | None:
    """Return the first of some choices if all lead to the same state; None if there is none."""
    found = [*choices]
    return found[0] if len({choice.target_state for choice in found}) == 1 else None


def _blocking_keys(view: PlainTurn) -> list[str]:
    """Return the known keys on which the state's closed transitions depend."""
    standing = _open(view, {})
    rules = [
        json.dumps(choice.logic, default=str)
        for choice in view.choices
        if choice.own and choice not in standing
    ]
    known = [key for key in view.writable if view.context.get(key) is not None]
    return [key for key in known if any(f'"{key}"' in rule for rule in rules)]


def _open(view: PlainTurn, update: JsonMap) -> list[TransitionView]:
    """Return the transitions that are open after an update."""
    data = {**view.context, **update, **view.system}
    return [
        choice
        for choice in view.choices
        if all(has(data, key) for key in choice.requires)
        and all(_is_true(rule, data) for rule in choice.logic)
    ]


def _is_true(rule: Any, data: JsonMap) -> bool:
    try:
        return bool(truthy(evaluate(rule, data)))
    except ConditionError:
        return False


def _stay_words(view: PlainTurn, update: JsonMap) -> str:
    """Return what to say where the conversation stays: what was understood, and the open question."""
    language = view.language
    english = is_english(language)
    missing = without(view.wanted, update)
    understood = wording.noted(update, {**view.writable, **view.wanted}, language)
    if missing:
        # A purpose that is a question is asked by the machine, behind this message.
        asks = ends_in_question(view.purpose)
        further = "" if asks else wording.request(missing, language)
        unknown = wording.not_found(missing, language, form=asks)
        words = wording.join(understood or unknown, further)
        return words or ("" if asks else view.own_words)
    notice = understood
    if english and _is_closed(view, update):
        notice = wording.join(understood, "I cannot continue with that")
    elif english and not understood:
        notice = "I did not understand that"
    # a fixed text shows the old values, and is said anew by itself
    if update and view.own_words != view.purpose:
        return notice
    return wording.join(notice, view.own_words)


def _is_closed(view: PlainTurn, update: JsonMap) -> bool:
    """Return True if a rule closes a transition of the state whose keys are known."""
    data = {**view.context, **update, **view.system}
    for choice in view.choices:
        known = choice.own and all(has(data, key) for key in choice.requires)
        if known and not all(_is_true(rule, data) for rule in choice.logic):
            return True
    return False


def _quoted(view: PlainTurn, update: JsonMap) -> JsonMap:
    """Return an update with the words of the message for each value that needs a quote."""
    keys = [key for key in quoted_keys(view.writable) if key in update]
    quotes = {key: own_quote(update[key], view.user or "") for key in keys}
    return {**update, "_quotes": quotes} if quotes else update


def _reply(target: str, update: JsonMap, message: str) -> JsonDict:
    return {
        "transition": {"target_state": target, "context_update": dict(update)},
        "message": message,
    }
