"""Never more acts than vouchers, whatever a model, a user and a program do.

A machine that pays is played at random: values with and without the user's words, corrections, yeses
and noes, calls of its tool with right and wrong arguments, updates, undos, forks, words of the
program, what was heard, other versions of the definition, and kills between the act and its record.
The bank keeps its own book, and knows each act by its key. What must hold is judged from the events
and from what the user could read, by slow code of this file.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_fsm import ConversationConflict, ConversationEnded, Machine, StoreError
from llm_fsm.events import (
    Acted,
    Agreed,
    AnswersChanged,
    BotSaid,
    ContextRefused,
    ContextSet,
    Event,
    FlowPushed,
    FlowReturned,
    Migrated,
    Started,
    StateEntered,
    TurnUndone,
    Updated,
    UserSaid,
    ValuesReadBack,
    WordsHeard,
)
from llm_fsm.records.transfer import fork
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.tools.schema import CallInfo

EXAMPLES = int(os.environ.get("LLM_FSM_VOUCHERS", "200"))
AMOUNTS = st.sampled_from([5, 50, 50.5, 500])
NAMES = st.sampled_from(["Ada", "Eve", "Ada Byron"])
YES = ["yes", "yes please", "Pay it", "ok, pay it", "ja"]
NO_YES = [
    "no",
    "No, do not pay it!",
    "Pay it?",
    "yes, but only if it is free",
    "Yes… no, wait",
    "Pay it. Or not.",
    "hm",
    "stop",
]
REPLIES = [
    "{{ amount }} euros to {{ name }}. Shall I pay?",
    "Shall I pay {{ '%.2f' | format(amount) }}?",
    "{{ amount }} to {{ name }}, and {{ fee }} for us. Shall I pay?",
    None,
]
SUMS = {"keys": {"amount": "sum"}}
CHANGES = ["", "value", "clear", "lots", "fee", "same"]
VERSIONS: list[Any] = ["migrate", SUMS, {"keys": {"sum": "amount"}}]


class Mortal:
    """A store as one process sees it: nothing that a killed process does reaches it any more."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not inspect.iscoroutinefunction(found) or name == "close":
            return found

        async def alive(*given: Any, **named: Any) -> Any:
            if self.dead:
                raise StoreError("this process was killed")
            return await found(*given, **named)

        return alive

    async def close(self) -> None:
        """Leave the store open for the next process."""


class Model:
    """A model that replies what the test tells it, and stays where it is told nothing."""

    def __init__(self) -> None:
        self.next: list[ModelReply] = []

    async def complete(self, request: LLMRequest) -> ModelReply:
        if self.next:
            return self.next.pop(0)
        stay = request.targets[-1] if request.targets else "done"
        return ModelReply(text=json.dumps({"target_state": stay, "message": "Well."}))


class Payment(NamedTuple):
    key: str
    amount: float
    name: str


def written(target: str, update: dict[str, Any]) -> ModelReply:
    document = {"target_state": target, "context_update": update, "message": "", "question": ""}
    return ModelReply(text=json.dumps(document))


def called(*arguments: dict[str, Any]) -> ModelReply:
    wanted = [
        ToolCall(id=f"c{number}", name="pay", arguments=json.dumps(one))
        for number, one in enumerate(arguments)
    ]
    return ModelReply(text="", tool_calls=tuple(wanted))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def stands_in(value: Any, text: str) -> bool:
    """Find a value in a text in the slowest way: at every place of it."""
    if isinstance(value, str):
        wanted, there = words(value), words(text)
        return any(there[at : at + len(wanted)] == wanted for at in range(len(there)))
    numbers = map(float, re.findall(r"\d+(?:\.\d+)?", text))
    return any(abs(number - value) < 0.005 for number in numbers)


def lasting(turns: Any) -> list[tuple[int, Event]]:
    """The events of a conversation that were not undone, each with the number of its record."""
    kept: list[tuple[int, Event]] = []
    for number, turn in enumerate(turns, 1):
        for event in turn.events:
            if isinstance(event, TurnUndone):
                kept = [one for one in kept if one[0] < event.record]
            else:
                kept.append((number, event))
    return kept


class Vouchers(RuleBasedStateMachine):
    """One conversation that pays, and its forks."""

    @initialize(
        act=st.sampled_from(["function", "tool", "talk", "approved"]),
        text=st.sampled_from(REPLIES),
        picked=st.booleans(),
        subflow=st.booleans(),
        said=st.booleans(),
        handled=st.sampled_from(
            ["", "pre_processing", "pre_transition", "post_transition", "post_processing", "silent"]
        ),
        on_disk=st.sampled_from([False, False, False, True]),
    )
    def begin(  # noqa: PLR0917 - hypothesis calls it by name
        self,
        act: str,
        text: str | None,
        picked: bool,
        subflow: bool,
        said: bool,
        handled: str,
        on_disk: bool,
    ) -> None:
        self.paid: list[Payment] = []
        self.edited: list[float] = []
        self.last: dict[str, Any] = {"amount": 5, "name": "Ada"}
        self.killed = 0
        self.dies = ""
        self.act = act
        self.text = text
        self.picked = picked
        self.subflow = subflow
        self.said = said
        self.handled = handled
        self.calls = 0
        self.model = Model()
        self.folder = TemporaryDirectory()
        place = Path(self.folder.name) / "pay.db"
        self.store: Any = SQLiteStore(place) if on_disk else MemoryStore()
        self.names: list[str] = []
        self._open("amount", "pin")
        chat = self.machine.start({"fee": 1}, conversation_id="c0", greet=False)
        self.chats = [chat]

    # -- the machine

    def _open(self, key: str, on_change: Any) -> None:
        """Begin a process, with a version of the definition that calls the amount `key`."""
        self.key = key
        self.mortal = Mortal(self.store)
        self.machine = Machine.from_dict(
            self._document(key),
            model=self.model,
            store=self.mortal,
            flows={"payment": self._flow(key)} if self.subflow else {},
            allow_unsafe=True,
            on_change=on_change,
        )
        self.machine.function(self._by_function, name="pay")
        self.machine.tool(self._by_tool, name="pay")
        if self.handled:
            point = "post_processing" if self.handled == "silent" else self.handled
            self.machine.on(point)(self._handle)

    def _reopen(self, key: str, on_change: Any) -> None:
        names = [chat.id for chat in self.chats]
        self.machine.close()
        self._open(key, on_change)
        self.chats = [self.machine.resume(name) for name in names]

    def _keys(self, key: str) -> dict[str, Any]:
        digits, quote = ({"x-said": "digits"}, {"x-said": "quote"}) if self.said else ({}, {})
        return {
            "properties": {
                key: {"type": "number", "minimum": 1, "maximum": 1000, **digits},
                "name": {"type": "string", **quote},
                "fee": {"type": "number", "x-source": "host"},
            }
        }

    def _tools(self, key: str) -> dict[str, Any]:
        asks = {"approval": True} if self.act == "approved" else {}
        binds = {"amount": key, "name": "name"}
        return {
            "pay": {"registered": "pay", "acts": True, "binds": binds, "free": ["note"], **asks}
        }

    def _document(self, key: str) -> dict[str, Any]:
        text = None if self.text is None else re.sub(r"\bamount\b", key, self.text)
        confirms = [key, "name"] + (["fee"] if text is None or "fee" in text else [])
        known = [{"requires_context_keys": [key, "name"]}]
        inner = {"kind": "subflow", "flow": "payment", "transitions": [{"target_state": "done"}]}
        inner["input"] = {key: key, "name": "name"}
        states: dict[str, Any] = {
            "ask": {
                "purpose": "How much, and to whom?",
                "required_context_keys": [key, "name"],
                "transitions": [{"target_state": "confirm", "conditions": known}],
            },
            "confirm": {
                "purpose": "Shall I pay?",
                "reply": text,
                "confirms": confirms,
                "transitions": [
                    {"target_state": "act", "agrees": "picked" if self.picked else True},
                    {"target_state": "ask", "description": "Something else"},
                ],
            },
            "act": inner if self.subflow else self._act(),
            "done": {
                "reply": "Anything else?",
                "transitions": [
                    {"target_state": "ask", "description": "Another one"},
                    {"target_state": "confirm", "description": "The same again"},
                ],
            },
            "failed": {
                "purpose": "It failed",
                "transitions": [{"target_state": "ask", "description": "Again"}],
            },
        }
        return {
            "name": "pay",
            "initial_state": "ask",
            "context_schema": self._keys(key),
            "patterns": ["correct", "back", "cancel"],
            "tools": self._tools(key),
            "states": states,
        }

    def _flow(self, key: str) -> dict[str, Any]:
        keys = self._keys(key)
        del keys["properties"]["fee"]
        return {
            "name": "payment",
            "initial_state": "act",
            "context_schema": keys,
            "tools": self._tools(key),
            "states": {"act": self._act(done="paid", failed="paid"), "paid": {"kind": "final"}},
        }

    def _act(self, done: str = "done", failed: str = "failed") -> dict[str, Any]:
        task = {"kind": "task", "acts": True, "on_exhausted": failed, "purpose": "Pay it"}
        ways = [{"target_state": done}]
        if self.act == "function":
            return {**task, "execute": "pay", "transitions": ways}
        if self.act == "talk":
            talk = {"purpose": "Pay, then say so", "tools": ["pay"]}
            return {**talk, "transitions": [{"target_state": done, "description": "Go on"}]}
        return {**task, "tools": ["pay"], "max_retries": 1, "transitions": ways}

    def _by_function(self, ctx: Any) -> str:
        key = "sum" if ctx.agreed is not None and "sum" in ctx.agreed.keys else "amount"
        return self._pay(Payment(ctx.key, ctx.context.get(key), ctx.context.get("name")))

    def _by_tool(self, amount: float, name: str, info: CallInfo, note: str = "") -> str:
        """Pay somebody."""
        return self._pay(Payment(info.key, amount, name))

    def _pay(self, payment: Payment) -> str:
        dies, self.dies = self.dies, ""
        if dies:
            self.mortal.dead = True
        if dies == "before":
            raise ConnectionError("killed before the bank has heard of it")
        self.paid.append(payment)
        if dies:
            self.killed += 1
        return f"paid {payment.amount}"

    def _handle(self, occasion: Any) -> Any:
        """Change a value at its point, now and then, or what is said."""
        self.calls += 1
        if self.handled == "silent":
            return "Shall I pay?" if self.calls % 2 else None
        if self.handled == "post_processing":
            return {"fee": None if self.calls % 3 else 1}
        if (
            self.handled.endswith("transition")
            and not self.calls % 2
            and self.key in occasion.context
        ):
            return {self.key: 7}
        return {"fee": self.calls % 3 + 1}

    # -- what happens

    def _say(self, text: str, *replies: ModelReply) -> None:
        chat = self.chats[-1]
        self.model.next = list(replies)
        try:
            chat.send(text)
        except (ConversationEnded, ConversationConflict):
            self._undo()
        except StoreError:
            assert self.mortal.dead
        self.model.next = []

    def _undo(self) -> None:
        try:
            self.chats[-1].undo()
        except ConversationConflict:
            return

    def _values(self, amount: float, name: str) -> dict[str, Any]:
        return {self.key: amount, "name": name, "_quotes": {"name": name}}

    @rule(amount=AMOUNTS, name=NAMES, to=st.sampled_from(["confirm", "ask", "done", "correct"]))
    def gives_values(self, amount: float, name: str, to: str) -> None:
        self._say(f"{amount} to {name}", written(to, self._values(amount, name)))

    @rule(amount=AMOUNTS, name=NAMES, other=NAMES, quote=st.sampled_from(["all", "value", "name"]))
    def invents_values(self, amount: float, name: str, other: str, quote: str) -> None:
        text = f"I owe {name} something"
        quotes = {"all": text, "value": other, "name": name}
        update = {self.key: amount, "name": other, "_quotes": {"name": quotes[quote]}}
        self._say(text, written("confirm", update))

    def _change(self, change: str) -> dict[str, Any]:
        """What a reply writes beside the yes."""
        changes: dict[str, dict[str, Any]] = {
            "value": {self.key: 60},
            "clear": {"_clear": [self.key]},
            "lots": {self.key: "lots"},
            "fee": {"fee": 9},
            "same": {self.key: self.chats[-1].context.get(self.key)},
        }
        return changes.get(change, {})

    @rule(
        text=st.sampled_from([*YES, *NO_YES]),
        quote=st.sampled_from([None, "Pay it", "yes", "do not pay it", "no"]),
        change=st.sampled_from(CHANGES),
        calls=st.lists(st.tuples(AMOUNTS, NAMES), max_size=3),
    )
    def agrees(
        self, text: str, quote: str | None, change: str, calls: list[tuple[float, str]]
    ) -> None:
        quotes: dict[str, str] = {"_clear": text}
        if quote is not None:
            quotes["_yes"] = quote
        replies = [written("act", {**self._change(change), "_quotes": quotes})]
        if calls:
            replies.append(called(*({"amount": one, "name": other} for one, other in calls)))
        self._say(text, *replies)

    @rule(
        amount=AMOUNTS,
        name=NAMES,
        times=st.integers(1, 2),
        between=st.sampled_from(["", "", "", "", "words", "a part", "another value"]),
        text=st.sampled_from(["Pay it", "Pay it", "Pay it", *NO_YES[:-2], "stop"]),
        change=st.sampled_from(["", "", "", *CHANGES]),
        dies=st.sampled_from(["", "", "", "before", "after"]),
    )
    def pays_as_people_do(  # noqa: PLR0917 - hypothesis calls it by name
        self, amount: float, name: str, times: int, between: str, text: str, change: str, dies: str
    ) -> None:
        chat = self.chats[-1]
        if chat.ended or chat.paused:
            return
        if chat.state != "ask":
            self._say("another one", written("ask", {}))
        self._say(f"{amount} to {name}", written("confirm", self._values(amount, name)))
        self.last = {"amount": amount, "name": name}
        if between == "words" and not chat.ended:
            chat.say("We close soon.")
        elif between == "a part" and chat.turns[-1].text:
            chat.heard(chat.turns[-1].number, "Hm")
        elif between == "another value" and not chat.ended:
            chat.update(context={self.key: 5})
        self.dies = dies
        self._agree(change, times, text)
        self._say("go on", called(*([self.last] * times)), written("act", {}))
        self.dies = ""
        if self.mortal.dead:
            self._reopen(self.key, "pin")

    def _agree(self, change: str = "", times: int = 1, text: str = "Pay it") -> None:
        """Say yes to what was given last, or what is none, and call the tool for it."""
        calls = called(*[self.last, {**self.last, "amount": 6}][:times])
        text = "1" if self.picked and text == "Pay it" else text
        quotes = {"_yes": " ".join(words(text)[:2]), "_clear": text}
        self._say(text, written("act", {**self._change(change), "_quotes": quotes}), calls, calls)

    @precondition(lambda self: self.paid)
    @rule(back=st.booleans(), change=st.sampled_from(["", "", *CHANGES]))
    def agrees_once_more(self, back: bool, change: str) -> None:
        for _ in range(4):
            if back and self.chats[-1].state != "confirm":
                self._undo()
        self._agree(change)

    @precondition(lambda self: self.chats[-1].choices)
    @rule(number=st.integers(0, 1))
    def presses_a_button(self, number: int) -> None:
        choices = self.chats[-1].choices
        self.model.next = []
        self.chats[-1].send(choices[min(number, len(choices) - 1)])

    @rule(calls=st.lists(st.tuples(AMOUNTS, NAMES), max_size=2), agreed=st.booleans())
    def calls_the_tool(self, calls: list[tuple[float, str]], agreed: bool) -> None:
        wanted: list[dict[str, Any]] = [{"amount": one, "name": other} for one, other in calls]
        if agreed:
            wanted.append({**self.last, "note": "x"})
        if wanted:
            self._say("go on", called(*wanted))

    @precondition(lambda self: self.chats[-1].paused)
    @rule(approved=st.booleans(), amount=st.sampled_from([None, 5, 50]))
    def a_person_answers(self, approved: bool, amount: float | None) -> None:
        answer: dict[str, Any] = {"approved": approved}
        if amount is not None:
            answer["arguments"] = {"amount": amount, "name": "Eve"}
            self.edited.append(amount)
        self.model.next = []
        self.chats[-1].answer(answer)

    @rule(
        to=st.sampled_from(["ask", "confirm", "done", "act", "back", "cancel"]), typed=st.booleans()
    )
    def names_a_state(self, to: str, typed: bool) -> None:
        if typed:
            self._say(to)
        else:
            self._say("go there", written(to, {}))

    @rule(
        to=st.sampled_from(["confirm", "act", "act", "done", ""]),
        amount=AMOUNTS,
        agreed=st.booleans(),
    )
    def the_program_changes_something(self, to: str, amount: float, agreed: bool) -> None:
        chat = self.chats[-1]
        if chat.ended:
            return
        if not to:
            chat.update(context={self.key: amount})
            return
        try:
            chat.update(state=to, agreed=agreed)
        except ConversationConflict:
            assert chat.paused or (to == "act" and not agreed)

    @rule(part=st.integers(-2, 6))
    def hears_a_part_or_more(self, part: int) -> None:
        chat = self.chats[-1]
        turn = chat.turns[-1]
        if part < 0 and not chat.ended:
            chat.say("We close soon.")
        elif part >= 0 and turn.text:
            chat.heard(turn.number, " ".join(turn.text.split()[:part]))

    @rule()
    def undoes(self) -> None:
        self._undo()

    @rule(version=st.sampled_from(VERSIONS))
    def another_version_is_deployed(self, version: Any) -> None:
        key = "sum" if version == SUMS else "amount"
        self._reopen(key, version)

    @precondition(lambda self: len(self.chats) < 3)
    @rule(data=st.data())
    def forks(self, data: st.DataObject) -> None:
        chat = self.chats[-1]
        turns = sorted({turn.number for turn in chat.turns})
        name = f"c{len(self.chats)}"
        turn = data.draw(st.sampled_from([None, *turns]))
        try:
            self.machine._portal.run(fork(self.mortal, chat.id, name, turn))
        except ValueError:
            return
        self.chats.append(self.machine.resume(name))
        self._agree()

    # -- what must hold

    @invariant()
    def what_must_hold_holds(self) -> None:
        """Judge the conversation that was played last; the others stay as they were."""
        if not hasattr(self, "chats"):
            return
        turns = self.chats[-1].turns
        events = lasting(turns)
        self._acts_once(events)
        self._keeps_to_vouchers(events)
        self._agrees_to_what_was_said_last(events)
        self._passes_no_act(events)
        self._agrees_to_what_is_so(events)
        if self.said:
            self._says_what_the_user_said(turns)

    def _acts_once(self, events: list[tuple[int, Event]]) -> None:
        """Each act is done once, and again only after a kill, with the same key."""
        keys = [one.key for one in self.paid]
        assert len(set(self.paid)) == len(set(keys)), self.paid
        assert len(keys) - len(set(keys)) <= self.killed, (self.paid, events)

    def _keeps_to_vouchers(self, events: list[tuple[int, Event]]) -> None:
        """Each act has a yes of its own before it, and does what was read back."""
        agreed: dict[str, Any] | None = None
        done: set[str] = set()
        for _, event in events:
            if isinstance(event, ValuesReadBack):
                agreed = None
            elif isinstance(event, Agreed):
                agreed, done = dict(event.values), set()
            elif isinstance(event, ContextSet) and agreed:
                gone = set(event.removed)
                gone |= {key for key, value in event.values.items() if agreed.get(key) != value}
                agreed = None if gone & agreed.keys() else agreed
            elif isinstance(event, Acted):
                payments = [one for one in self.paid if one.key == event.key]
                assert payments, (event, events)
                assert event.act not in done, (self.paid, events)
                done.add(event.act)
                value = None
                if agreed is not None:
                    value = (agreed.get("amount", agreed.get("sum")), agreed.get("name"))
                for _, amount, name in payments:
                    is_edited = amount in self.edited and name == "Eve"
                    assert is_edited or (amount, name) == value, (self.paid, events)

    def _agrees_to_what_was_said_last(self, events: list[tuple[int, Event]]) -> None:
        """Each yes is in the user's words, to values that the user could read just before."""
        said: dict[int, str] = {}
        touched: set[str] = set()
        message = ""
        record = 0
        for number, event in events:
            if number != record:
                record = number
                touched.clear()
            if isinstance(event, UserSaid):
                message = event.text
            elif isinstance(event, BotSaid):
                said[number] = event.text
            elif isinstance(event, WordsHeard):
                said[event.record] = event.text
            elif isinstance(event, ContextRefused) and event.kept_in is None:
                touched.add(event.key)
            elif isinstance(event, ContextSet):
                touched |= {*event.values, *event.removed}
            elif isinstance(event, Agreed) and event.by == "user":
                last = said[max(said)]
                assert set(event.keys) == event.values.keys(), events
                assert set(event.keys) & {"amount", "sum"}, events
                for value in event.values.values():
                    assert stands_in(value, last), (event, last, events)
                assert not touched & set(event.keys), (event, touched, events)
                assert message in (["1", "act"] if self.picked else [*YES, "act"]), events

    def _agrees_to_what_is_so(self, events: list[tuple[int, Event]]) -> None:
        """A yes is taken only while the values are those that were read back."""
        known: dict[str, Any] = {}
        depth = 0
        for _, event in events:
            if isinstance(event, Started):
                known = dict(event.context)
            elif isinstance(event, FlowPushed | FlowReturned) and event.kind == "subflow":
                depth += 1 if isinstance(event, FlowPushed) else -1
            elif isinstance(event, AnswersChanged) or (isinstance(event, ContextSet) and not depth):
                known |= event.values
                for key in event.removed:
                    known.pop(key, None)
            elif isinstance(event, Migrated):
                known = {event.keys.get(key, key): value for key, value in known.items()}
            elif isinstance(event, Agreed) and event.by == "user":
                now = {key: known.get(key) for key in event.keys}
                assert event.values == now, (event, known, events)

    def _says_what_the_user_said(self, turns: Any) -> None:
        """Each value that needs proof stands in a message of the user."""
        heard: list[str] = []
        given: list[Any] = []
        for turn in turns:
            for event in turn.events:
                if isinstance(event, UserSaid):
                    heard.append(event.text)
                elif isinstance(event, Updated) or getattr(event, "source", "") == "host":
                    given += event.values.values()
                elif isinstance(event, ContextSet) and event.source == "model":
                    for key in event.values.keys() & {"amount", "sum", "name"}:
                        value = event.values[key]
                        is_said = any(stands_in(value, text) for text in heard)
                        assert is_said or value in given, (event, heard)

    def _passes_no_act(self, events: list[tuple[int, Event]]) -> None:
        """No state behind an act is reached by a task without a record of the act, undone or not."""
        agreed: dict[str, Any] = {}
        done = False
        for _, event in events:
            if isinstance(event, Agreed):
                agreed, done = dict(event.values), False
            elif isinstance(event, Acted):
                done = True
            elif isinstance(event, StateEntered) and event.previous == "act" and event.by == "task":
                value = (agreed.get("amount", agreed.get("sum")), agreed.get("name"))
                assert done or value in [(amount, name) for _, amount, name in self.paid], events

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.close()
            self.folder.cleanup()


Vouchers.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=12,
    deadline=None,
    derandomize=EXAMPLES == 200,
    suppress_health_check=list(HealthCheck),
)
TestVouchers = Vouchers.TestCase
