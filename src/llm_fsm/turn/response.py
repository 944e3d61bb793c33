"""What is said in a turn: by a model that is asked for words, by the definition where no model's words will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from llm_fsm._copies import changed, made
from llm_fsm._text import each_escaped, escaped
from llm_fsm.definition.models import Scope
from llm_fsm.definition.names import is_foreign, label
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.dotted_keys import part_schema
from llm_fsm.session.events import FlowPushed, FlowReturned
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.session.redaction import blotted
from llm_fsm.session.session import Frame
from llm_fsm.turn.available import asides, lacking, outlook, own_words
from llm_fsm.turn.compiled import Outlook, Program
from llm_fsm.turn.corrections import holds
from llm_fsm.turn.fixed_replies import own_question, sentence
from llm_fsm.turn.prompt.render import is_whole, turn_prompt
from llm_fsm.turn.prompt.state_summary import StateWords, name_tokens
from llm_fsm.turn.prompt.tasks import buckets_of
from llm_fsm.turn.repair.patterns import words_of
from llm_fsm.turn.repair.questions import puts, question_in
from llm_fsm.turn.reply.parser import parse_words
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.transitions import Moving
from llm_fsm.turn.turn_state import Run

CANNOT_GO_ON = "Sorry, I cannot continue with this."
_UNREADABLE = (" does not match ", " is not a text", " is not a list", " is not an object")
"""What reasons say that nobody reads: regular expressions, types of JSON."""
UPDATE = "context_update"
"""What a fault of a whole update is noted under: the model is told, and no user."""
_SPOKEN = ("passed", "cancelled", "handover", "given_up", "silent")
"""Ends that need no apology."""


class Speaking(Moving):
    """The part of a turn that speaks."""

    __slots__ = ()

    def request(self, look: Outlook, *, words_only: bool, greeting: bool = False) -> LLMRequest:
        program, session, plan = self.program, self.session, self.plan
        scope = plan.state.context_scope
        context = program.keys.shown(session.context, None if scope is None else scope.read)
        further = self.further_lines(context)
        if further and scope is None:
            context = {key: value for key, value in context.items() if key not in further}
        asked = program.questions[plan.id]
        user, sizes = turn_prompt(
            program.prompts,
            asked.sizes,
            StateWords(id=plan.id, tokens=name_tokens(plan.id)) if program.prompts.whole else plan.words,
            session.window,
            look.items,
            look.valid,
            self.heard(words_only=words_only),
            session.time,
            keys="\n".join(further.values()),
            context=context,
            missing=self.lacking(),
            refused=self.refused(scope),
            words_only=words_only,
            greeting=greeting,
            summary=blotted(self.secrets(), session.summary) if session.summary else "",
            memory=blotted(self.secrets(), buckets_of(session)) if plan.state.memory else None,
            earlier="" if words_only or not session.flow else self.earlier(),
            said=blotted(self.secrets(), "\n\n".join(filter(None, self.said))) if words_only else "",
            outcome=self.outcome() if words_only else "",
        )
        return changed(
            asked,
            messages=(*asked.messages, made(LLMMessage, role="user", content=user)),
            schema=program.schema_of(plan, self.further() if words_only and session.stack else look.further),
            conversation_id=session.conversation_id,
            tools=() if words_only else self.offered(),
            sizes=sizes,
        )

    def further(self) -> tuple[str, ...]:
        """What else the next turn here may name: words are asked for with its schema, which a cache may then serve."""
        return outlook(self.program, self.session, asides(self.root, self.session)).further

    def heard(self, *, words_only: bool) -> str | None:
        """The user's message: without secrets of flows that were left, and for words alone without any."""
        user = self.session.user_input
        if user is None or not (words_only or self.hidden):
            return user
        shown: str = blotted(self.secrets() if words_only else sorted(self.hidden, key=len, reverse=True), user)
        return shown

    def refused(self, scope: Scope | None) -> list[Mapping[str, Any]]:
        """What a prompt tells of refused values, and of parts of objects that are collected here and wait for others.

        `scope`: what alone may be shown.
        """
        keys, told = self.program.keys, self.refusals()
        begun = {key: parts for key, parts in self.session.begun.items() if not keys.is_secret(key)}
        for name in self.plan.collects if begun else ():
            key = name.partition(".")[0]
            if key in begun and name not in self.session.skipped and all(key != known for known, _ in told):
                told.append((key, keys.fault(key, begun[key]) or "it lacks parts"))
        shown = begun if scope is None else {key: begun[key] for key in scope.read if key in begun}
        return [
            {"key": key, "reason": why, **({"so_far": shown[key]} if key in shown else {})} for key, why in told
        ]

    def refusals(self) -> list[tuple[str, str]]:
        """Values that were refused, and why; of a list or an object nothing is kept, but for parts that wait."""
        keys, begun = self.program.keys, self.session.begun
        notes = {key: why for key, why in self.session.notes if key in begun}
        return [
            (key, f"{why}; nothing of it was kept" if is_whole(keys.schema(key)) else why)
            for key, why in self.session.notes
            if key not in begun
        ] + [(key, f"{why}; its other parts are kept") for key, why in notes.items()]

    def outcome(self) -> str:
        """What the last work of this turn in the definition at work came to, as JSON without secrets; else ""."""
        for event in reversed(self.events):
            if isinstance(event, ev.TaskPassed):
                return escaped(shortened(blotted(self.secrets(), self.session.input)))
            if isinstance(event, FlowPushed | FlowReturned) and event.kind == "subflow":
                break  # between definitions crosses what `input` and `output` name alone
        return ""

    def further_lines(self, context: Mapping[str, Any]) -> Mapping[str, str]:
        """What the system message of a large machine does not list, and is known: a line for each such key.

        `context`: what is shown of it. Where a state narrows that, the lines are those of bounded keys, without values.
        """
        told, listed, offered = self.program.bounds_told, self.plan.listed, self.program.keys.offered
        if len(listed) == len(offered):
            return {}
        if self.plan.state.context_scope is not None:
            return {key: f"{key}{told[key]}" for key in self.session.context if key in told and key not in listed}
        known = {key: value for key, value in context.items() if key in offered and key not in listed}
        values = each_escaped(known.values())
        return {key: f"{key} = {value}{told.get(key, '')}" for key, value in zip(known, values, strict=False)}

    def earlier(self) -> str:
        """The key list of answers that a correction may change in the definitions that wait for this one."""
        session = self.session
        lines: dict[str, str] = {}
        for place in session.callers() if self.has("correct") else ():
            caller = session.of_caller(place)
            told = self.root.of(caller).key_lines
            for key in caller.context:
                if holds(self.root, session, place, key):
                    lines.setdefault(key, told.get(key, key))
        return "\n".join(lines.values())

    # -- words

    def of_pattern(self, piece: Program, state: str, data: Mapping[str, Any]) -> str:
        """What a repair pattern says in a state; English words of its own only where they are not foreign."""
        return words_of(piece, state, {**data, "_english": self.program.english})

    def say_cannot_go_on(self) -> None:
        self.fallback = True
        self.said = [self.plan.model.on_failure or CANNOT_GO_ON]

    def say_stopped(self) -> None:
        """Nothing where a run has done its work, an apology where it cannot go on."""
        if self.stopped not in _SPOKEN and not self.program.alone:
            self.say_cannot_go_on()

    def say_paused(self) -> None:
        """What a user is told who waits with the run, where nothing was said yet."""
        pause = self.session.pause
        if pause is None or self.program.alone or any(self.said):
            return
        if pause.kind == "wait":
            self.said.append(self.own_question(sorry=False))
        else:
            self.said.append("Before I can go on, somebody has to answer a question about this.")

    def complete_words(self, *, spoken_for: bool = False) -> Run:
        """Add what is still to be said. `spoken_for`: the message was written for where the run has arrived."""
        if self.stopped:
            self.say_stopped()
        elif self.paused:
            self.say_paused()
        elif self.reopened is not None and self.plan.id == self.reopened.kept["state"]:
            if not (any(self.said) and self.is_answered(self.reopened)):
                self.ask_again(self.reopened.asked)
        elif self.turned_back and self.plan.kind == "converse":
            if self.plan.fixed is None:
                self.said.append(self.own_question(sorry=False))
        elif not spoken_for and self.plan.fixed is None:
            yield from self.words("words")
        elif not any(self.said):
            self.said.append(self.own_question(sorry=False))

    def words(self, asked_for: Literal["greeting", "words"]) -> Run:
        """One call for words alone: nothing else in its reply counts."""
        look = self.no_look()
        request = self.request(look, words_only=True, greeting=asked_for == "greeting")
        for _ in range(2):
            reply = yield from self.call(asked_for, request, look)
            if reply is None:
                break
            try:
                words = parse_words(reply.text)
            except ReplyError as error:
                self.note(ev.ReplyRejected(fault=error.fault, reason=str(error)))
                request = self.again(request, reply.text, str(error))
            else:
                self.said.append(words)
                return
        self.fallback = True
        self.said.append(self.plan.model.on_failure or self.own_question(sorry=False))

    def lacking(self) -> tuple[str, ...]:
        return lacking(self.session, self.plan)

    def own_question(self, *, sorry: bool) -> str:
        state = self.plan.state
        wanted = {key: part_schema(self.program.keys.offered, key) for key in self.lacking()}
        english = self.program.english
        question = own_question(state.purpose or state.description, wanted, english=english)
        return f"Sorry, I did not get that.\n\n{question}" if sorry and english else question

    def open_question(self, asked: str = "") -> str:
        """What is asked here: the fixed reply, the question in what was said last, else a plain sentence."""
        if self.plan.fixed is not None:
            return own_words(self.program, self.plan, self.session)
        return question_in(asked) or self.own_question(sorry=False)

    def ask_again(self, asked: str) -> None:
        """The open question, unless the words of this turn ask something already. `asked`: what was asked last."""
        if self.plan.fixed is not None or any(map(puts, self.said)):
            return
        question = self.open_question(asked)
        if not any(self.ends_in(question, words) for words in self.said):
            self.said.append(question)

    def ends_in(self, question: str, words: str) -> bool:
        """True where words ask something, or end in the question or the purpose, which ask without a mark, too."""
        ends = filter(None, (question, sentence(self.plan.state.purpose)))
        return puts(words) or words.casefold().rstrip().endswith(tuple(map(str.casefold, ends)))

    def is_answered(self, left: Frame) -> bool:
        """True where all that was asked for in a place is known since it was left."""
        return bool(left.wanted) and not set(left.wanted) & set(self.lacking())

    def complain(self) -> None:
        """Say which values were refused, and why, where no model's words will."""
        for key, reason in self.session.notes:
            if key == UPDATE:
                continue
            schema = self.program.keys.offered.get(key, {})
            name, words = label(key, schema), str(schema.get("description") or "")
            english = self.program.english
            if english and not any(said in reason for said in _UNREADABLE):
                words = reason[reason.index(": ") + 2 :] if reason.startswith("at /") else reason
            begin = f"That does not fit ({name})" if english else f"✗ {name}"
            named = words.casefold().startswith(name.casefold()) or ("title" not in schema and is_foreign(key, words))
            if not english and words and named:
                self.said.append(sentence(f"✗ {words}"))
            else:
                self.said.append(sentence(f"{begin}: {words or reason}"))

    def last_resort(self) -> None:
        """What the definition says when nothing was understood, or its own question."""
        self.fallback = True
        self.complain()
        words = self.plan.model.on_failure
        if words is None and self.plan.fixed is not None:
            words = own_words(self.program, self.plan, self.session)
        self.said.append(words or self.own_question(sorry=True))
