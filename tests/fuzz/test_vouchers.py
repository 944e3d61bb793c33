"""Never more acts than vouchers, whatever a model, a user and a program do.

A machine that pays is played at random: values, corrections, yeses with and without words, calls of
its tool with right and wrong arguments, updates, undos, forks, words of the program and what was
heard. The bank keeps its own book, and knows each act by its key.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_fsm import ConversationConflict, ConversationEnded, Machine
from llm_fsm.events import Acted, Agreed, StateEntered, ValuesReadBack
from llm_fsm.records.transfer import fork
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.tools.schema import CallInfo

EXAMPLES = int(os.environ.get("LLM_FSM_VOUCHERS", "200"))
AMOUNTS = st.sampled_from([5, 50, 50.5, 500])
NAMES = st.sampled_from(["Ada", "Eve", "Ada Byron"])
KEYS: dict[str, Any] = {
    "properties": {
        "amount": {"type": "number", "minimum": 1, "maximum": 1000},
        "name": {"type": "string"},
        "fee": {"type": "number", "x-source": "host"},
    }
}
YES = ["yes", "yes please", "Pay it", "ok, pay it", "ja"]
NO_YES = ["no", "No, do not pay it!", "Pay it?", "yes, but only if it is free", "hm", "stop"]
REPLIES = [
    "{{ amount }} euros to {{ name }}. Shall I pay?",
    "Shall I pay {{ '%.2f' | format(amount) }}?",
    "{{ amount }} to {{ name }}, and {{ fee }} for us. Shall I pay?",
    None,
]


class Model:
    """A model that replies what the test tells it, and stays where it is told nothing."""

    def __init__(self) -> None:
        self.next: list[ModelReply] = []

    async def complete(self, request: LLMRequest) -> ModelReply:
        if self.next:
            return self.next.pop(0)
        stay = request.targets[-1] if request.targets else "done"
        return ModelReply(text=json.dumps({"target_state": stay, "message": "Well."}))


def written(target: str, update: dict[str, Any]) -> ModelReply:
    document = {"target_state": target, "context_update": update, "message": "", "question": ""}
    return ModelReply(text=json.dumps(document))


def called(*arguments: dict[str, Any]) -> ModelReply:
    wanted = [
        ToolCall(id=f"c{number}", name="pay", arguments=json.dumps(one))
        for number, one in enumerate(arguments)
    ]
    return ModelReply(text="", tool_calls=tuple(wanted))


class Vouchers(RuleBasedStateMachine):
    """One conversation that pays, and its forks."""

    @initialize(
        act=st.sampled_from(["function", "tool", "talk"]),
        text=st.sampled_from(REPLIES),
        picked=st.booleans(),
        subflow=st.booleans(),
        handled=st.sampled_from(["", "pre_processing", "post_transition", "post_processing"]),
    )
    def begin(self, act: str, text: str | None, picked: bool, subflow: bool, handled: str) -> None:
        self.paid: list[tuple[str, float, str]] = []
        self.act = act
        self.picked = picked
        self.handled = handled
        self.model = Model()
        self.store = MemoryStore()
        confirms = ["amount", "name"] + (["fee"] if text is not None and "fee" in text else [])
        known = [{"requires_context_keys": ["amount", "name"]}]
        states: dict[str, Any] = {
            "ask": {
                "purpose": "How much, and to whom?",
                "required_context_keys": ["amount", "name"],
                "transitions": [{"target_state": "confirm", "conditions": known}],
            },
            "confirm": {
                "purpose": "Shall I pay?",
                "reply": text,
                "confirms": confirms,
                "transitions": [
                    {"target_state": "act", "agrees": "picked" if picked else True},
                    {"target_state": "ask", "description": "Something else"},
                ],
            },
            "act": self._act(act),
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
        tools = {"pay": {"registered": "pay", "acts": True, "free": ["note"]}}
        document: dict[str, Any] = {
            "name": "pay",
            "initial_state": "ask",
            "context_schema": KEYS,
            "patterns": ["correct", "back", "cancel"],
            "tools": tools,
            "states": states,
        }
        flows = {}
        if subflow:
            inner = {
                "kind": "subflow",
                "flow": "payment",
                "transitions": [{"target_state": "done"}],
            }
            payment = {
                "name": "payment",
                "initial_state": "act",
                "context_schema": KEYS,
                "tools": tools,
                "states": {
                    "act": self._act(act, done="paid", failed="paid"),
                    "paid": {"kind": "final"},
                },
            }
            inner["input"] = {"amount": "amount", "name": "name"}
            flows["payment"] = payment
            document["states"] = {**states, "act": inner}
        self.machine = Machine.from_dict(
            document, model=self.model, store=self.store, flows=flows, allow_unsafe=True
        )
        self.machine.function(self._by_function, name="pay")
        self.machine.tool(self._by_tool, name="pay")
        if handled:
            self.machine.on(handled)(self._handle)
        self.chats = [self.machine.start({"fee": 1}, conversation_id="c0", greet=False)]

    def _act(self, kind: str, done: str = "done", failed: str = "failed") -> dict[str, Any]:
        task = {"kind": "task", "acts": True, "on_exhausted": failed, "purpose": "Pay it"}
        ways = [{"target_state": done}]
        if kind == "function":
            return {**task, "execute": "pay", "transitions": ways}
        if kind == "tool":
            return {**task, "tools": ["pay"], "max_retries": 1, "transitions": ways}
        talk = {"purpose": "Pay, then say so", "tools": ["pay"]}
        return {**talk, "transitions": [{"target_state": done, "description": "Go on"}]}

    def _by_function(self, ctx: Any) -> str:
        self.paid.append((ctx.key, ctx.context["amount"], ctx.context["name"]))
        return "done"

    def _by_tool(self, amount: float, name: str, info: CallInfo, note: str = "") -> str:
        """Pay somebody."""
        self.paid.append((info.key, amount, name))
        return f"paid {amount}"

    def _handle(self, context: Any) -> Any:
        """Change a value at its point, now and then."""
        self.fee = getattr(self, "fee", 1) % 3 + 1
        if self.handled == "post_processing":
            return None
        return {"fee": self.fee}

    # -- what happens

    def _say(self, text: str, *replies: ModelReply) -> None:
        chat = self.chats[-1]
        self.model.next = list(replies)
        try:
            chat.send(text)
        except (ConversationEnded, ConversationConflict):
            chat.undo()
        self.model.next = []

    @rule(amount=AMOUNTS, name=NAMES, to=st.sampled_from(["confirm", "ask", "done", "correct"]))
    def gives_values(self, amount: float, name: str, to: str) -> None:
        self._say(f"{amount} to {name}", written(to, {"amount": amount, "name": name}))

    @rule(
        text=st.sampled_from([*YES, *NO_YES]),
        quote=st.sampled_from([None, "Pay it", "yes", "do not pay it"]),
        update=st.sampled_from(
            [{}, {"amount": 60}, {"_clear": ["amount"]}, {"amount": "lots"}, {"fee": 9}]
        ),
        calls=st.lists(st.tuples(AMOUNTS, NAMES), max_size=3),
    )
    def agrees(
        self, text: str, quote: str | None, update: dict[str, Any], calls: list[tuple[float, str]]
    ) -> None:
        quotes = {} if quote is None else {"_quotes": {"_yes": quote}}
        replies = [written("act", {**update, **quotes})]
        if calls:
            replies.append(called(*({"amount": one, "name": other} for one, other in calls)))
        self._say(text, *replies)

    @rule(
        amount=AMOUNTS, name=NAMES, yes=st.sampled_from(["yes", "Pay it"]), times=st.integers(1, 2)
    )
    def pays_as_people_do(self, amount: float, name: str, yes: str, times: int) -> None:
        values = {"amount": amount, "name": name}
        if self.chats[-1].ended:
            return
        if self.chats[-1].state != "ask":
            self._say("another one", written("ask", {}))
        self._say(f"{amount} to {name}", written("confirm", values))
        calls = called(*([values] * times))
        yes = "1" if self.picked else yes
        self._say(yes, written("act", {"_quotes": {"_yes": "Pay it"}}), calls, calls)
        self._say("go on", calls, written("act", {}))

    @rule(text=st.sampled_from(["1", "2", "act", "ask", "confirm"]))
    def picks(self, text: str) -> None:
        self._say(text)

    @precondition(lambda self: self.chats[-1].choices)
    @rule(number=st.integers(0, 1))
    def presses_a_button(self, number: int) -> None:
        choices = self.chats[-1].choices
        self.model.next = []
        self.chats[-1].send(choices[min(number, len(choices) - 1)])

    @rule(calls=st.lists(st.tuples(AMOUNTS, NAMES), min_size=1, max_size=3), agreed=st.booleans())
    def calls_the_tool(self, calls: list[tuple[float, str]], agreed: bool) -> None:
        known = self.chats[-1].context
        wanted = [{"amount": one, "name": other} for one, other in calls]
        if agreed and {"amount", "name"} <= known.keys():
            wanted.append({"amount": known["amount"], "name": known["name"], "note": "x"})
        self._say("go on", called(*wanted))

    @rule(to=st.sampled_from(["ask", "confirm", "done", "act", "back", "cancel"]))
    def names_a_state(self, to: str) -> None:
        self._say("go there", written(to, {}))

    @rule(amount=AMOUNTS)
    def the_program_changes_a_value(self, amount: float) -> None:
        if not self.chats[-1].ended:
            self.chats[-1].update(context={"amount": amount})

    @rule(state=st.sampled_from(["confirm", "act", "done"]))
    def the_program_moves(self, state: str) -> None:
        if not self.chats[-1].ended:
            try:
                self.chats[-1].update(state=state)
            except ConversationConflict:
                assert state == "act"

    @rule(words=st.integers(0, 6))
    def hears_a_part(self, words: int) -> None:
        turn = self.chats[-1].turns[-1]
        if turn.text:
            self.chats[-1].heard(turn.number, " ".join(turn.text.split()[:words]))

    @rule()
    def the_program_speaks(self) -> None:
        if not self.chats[-1].ended:
            self.chats[-1].say("We close soon.")

    @rule()
    def undoes(self) -> None:
        try:
            self.chats[-1].undo()
        except ConversationConflict:
            return

    @precondition(lambda self: len(self.chats) < 3)
    @rule(data=st.data())
    def forks(self, data: st.DataObject) -> None:
        chat = self.chats[-1]
        turns = sorted({turn.number for turn in chat.turns})
        name = f"c{len(self.chats)}"
        turn = data.draw(st.sampled_from([None, *turns]))
        try:
            self.machine._portal.run(fork(self.store, chat.id, name, turn))
        except ValueError:
            return
        self.chats.append(self.machine.resume(name))

    # -- what must hold

    @invariant()
    def no_act_twice_and_none_without_its_voucher(self) -> None:
        if not hasattr(self, "chats"):
            return
        keys = [key for key, _, _ in self.paid]
        assert len(keys) == len(set(keys)), self.paid
        events = [event for chat in self.chats for turn in chat.turns for event in turn.events]
        yeses = [dict(event.values) for event in events if isinstance(event, Agreed)]
        agreed = {(one.get("amount"), one.get("name")) for one in yeses}
        assert all((amount, name) in agreed for _, amount, name in self.paid), (self.paid, yeses)
        assert {event.key for event in events if isinstance(event, Acted)} == set(keys)

    @invariant()
    def each_yes_is_to_what_was_read_back_last(self) -> None:
        for chat in getattr(self, "chats", ()):
            shown = False
            for turn in chat.turns:
                for event in turn.events:
                    if isinstance(event, ValuesReadBack):
                        shown = True
                    elif isinstance(event, Agreed):
                        assert shown, turn

    @invariant()
    def no_state_behind_an_act_without_its_record(self) -> None:
        for chat in getattr(self, "chats", ()):
            for turn in chat.turns:
                passed = [
                    event
                    for event in turn.events
                    if isinstance(event, StateEntered) and event.previous == "act"
                ]
                if self.act != "talk" and any(
                    one.by == "task" and one.state == "done" for one in passed
                ):
                    assert self.paid

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.close()


Vouchers.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=12,
    deadline=None,
    derandomize=EXAMPLES == 200,
    suppress_health_check=list(HealthCheck),
)
TestVouchers = Vouchers.TestCase
