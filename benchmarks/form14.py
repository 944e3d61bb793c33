"""A form of 14 keys, and what its prompts and replies take: `python -m benchmarks.form14`.

For each form of a reply: the tokens that a model writes before the first word of its message,
beside what is allowed (20, and 10 for each value that the message gives), the prompt tokens of a
turn that no cache can serve, and the share of tokens that stand in a prefix which an earlier call
of the conversation had. Then the tokens of the system message. The same with `x-said` on three of
the keys, so that a model quotes the user for two of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.prompts import sent, shared
from benchmarks.tokens import counter
from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import LLMRequest, ReplyForm

KEYS: dict[str, dict[str, Any]] = {
    "full_name": {"type": "string", "description": "First and last name"},
    "email": {"type": "string", "format": "email", "description": "E-mail address"},
    "phone": {
        "type": "string",
        "pattern": "^\\+?[0-9 ]{6,20}$",
        "description": "Phone number with area code",
    },
    "street": {"type": "string", "description": "Street and number"},
    "postcode": {"type": "string", "pattern": "^[0-9]{5}$", "description": "Five digits"},
    "city": {"type": "string", "description": "Town or city"},
    "birth_date": {"type": "string", "format": "date", "description": "YYYY-MM-DD"},
    "plan": {
        "enum": ["basic", "plus", "family"],
        "description": "The plan that the customer wants",
    },
    "persons": {
        "type": "integer",
        "minimum": 1,
        "maximum": 8,
        "description": "How many people use it",
    },
    "start_date": {"type": "string", "format": "date", "description": "First day, YYYY-MM-DD"},
    "payment": {"enum": ["invoice", "debit", "card"], "description": "How the customer pays"},
    "iban": {
        "type": "string",
        "minLength": 15,
        "maxLength": 34,
        "description": "Account for a debit",
    },
    "newsletter": {"type": "boolean", "description": "Wants the newsletter"},
    "voucher": {"type": "string", "description": "Code of a voucher"},
}
SAID = {"full_name": "quote", "email": "quote", "phone": "digits"}
"""The keys whose values need proof in the second measurement, and its kind."""
STATES = {
    "person": (
        "May I have your full name, e-mail address and phone number?",
        ("full_name", "email", "phone"),
    ),
    "address": ("Where do you live?", ("street", "postcode", "city")),
    "contract": (
        "Which plan, for how many people and from which day?",
        ("plan", "persons", "start_date"),
    ),
    "payment": ("How would you like to pay?", ("payment",)),
    "extras": (
        "Your date of birth, and would you like our newsletter?",
        ("birth_date", "newsletter"),
    ),
    "confirm": ("Shall I send the application?", ()),
}


class Said(NamedTuple):
    """One message, where it leads, and the values that it gives."""

    text: str
    to: str
    values: dict[str, Any]
    answer: str


CONVERSATION = (
    Said("Hi, I would like to sign up", "person", {}, "Gladly. May I have your full name, e-mail and phone number?"),
    Said("Ada King, ada@example.org", "person", {"full_name": "Ada King", "email": "ada@example.org"},
         "Thank you, Ms King. Under which phone number can we reach you?"),
    Said("030 123456", "address", {"phone": "030 123456"}, "Thank you. Where do you live?"),
    Said("Lindenweg 5 in Berlin", "address",
         {"street": "Lindenweg 5", "city": "Berlin"}, "And which postcode is that?"),
    Said("10115", "contract", {"postcode": "10115"}, "Which plan, for how many people and from which day?"),
    Said("What is the difference between plus and family?", "contract", {}, "Family is for up to eight people."),
    Said("Family for four, from 1 June 2027", "payment",
         {"plan": "family", "persons": 4, "start_date": "2027-06-01"}, "How would you like to pay?"),
    Said("By debit, DE02120300000000202051", "extras", {"payment": "debit", "iban": "DE02120300000000202051"},
         "Your date of birth, and would you like our newsletter?"),
    Said("12 May 1985, no newsletter. And my street number is 7", "confirm",
         {"birth_date": "1985-05-12", "newsletter": False, "street": "Lindenweg 7"}, "Shall I send the application?"),
    Said("Make it five people", "confirm", {"persons": 5}, "Five people, then. Shall I send it?"),
    Said("Yes, please", "done", {}, "It is on its way."),
)  # fmt: skip


def definition(proof: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """The form as a definition. `proof`: keys to their `x-said`."""
    keys_of_form = {name: dict(schema) for name, schema in KEYS.items()}
    for name, kind in proof.items():
        keys_of_form[name]["x-said"] = kind
    names = [*STATES, "done"]
    states: dict[str, Any] = {}
    for place, (name, (purpose, keys)) in enumerate(STATES.items()):
        words = "The customer says yes" if name == "confirm" else "All of it is known"
        conditions = [{"requires_context_keys": list(keys)}] if keys else []
        states[name] = {
            "purpose": purpose,
            "required_context_keys": list(keys),
            "transitions": [
                {"target_state": names[place + 1], "description": words, "conditions": conditions}
            ],
        }
    return {
        "name": "application",
        "description": "Takes an application for an energy contract.",
        "persona": "A calm and friendly clerk.",
        "initial_state": "person",
        "context_schema": {"type": "object", "properties": keys_of_form},
        "states": {**states, "done": {"purpose": "The application is sent. Goodbye!"}},
    }


def written(said: Said, form: ReplyForm, proof: Mapping[str, str] = MappingProxyType({})) -> str:
    """The reply to a message as a model writes it: with a quote for keys that need one."""
    quotes = {key: str(value) for key, value in said.values.items() if proof.get(key) == "quote"}
    update: Any = dict(said.values)
    if form == "list":
        update = []
        for key, value in said.values.items():
            quote = {"quote": quotes[key]} if key in quotes else {}
            update.append({"key": key, "value": value, **quote})
    elif quotes:
        update["_quotes"] = quotes
    document = {
        "transition": {"target_state": said.to, "context_update": update},
        "message": said.answer,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


class _Model(ScriptedLLM):
    """Replies from a list, in one form."""

    def __init__(self, form: ReplyForm, proof: Mapping[str, str]) -> None:
        super().__init__([written(said, form, proof) for said in CONVERSATION])
        self._form = form

    def reply_form(self, model: str | None) -> ReplyForm:
        """The form of this model."""
        del model
        return self._form


async def requests(
    form: ReplyForm, proof: Mapping[str, str] = MappingProxyType({})
) -> list[LLMRequest]:
    """What the model is asked in the conversation."""
    model = _Model(form, proof)
    async with AsyncMachine.from_dict(definition(proof), model=model, store="memory") as machine:
        chat = await machine.start(greet=False)
        for said in CONVERSATION:
            turn = await chat.send(said.text)
            if turn.state != said.to:
                raise RuntimeError(f"{said.text!r} led to {turn.state!r}, not to {said.to!r}")
    return model.requests


class Figures(NamedTuple):
    """Figures of one form: tokens before the first word and what is allowed, by turn; and of the
    prompts.

    `static` is the system message, which is the same in every turn.
    """

    before: list[int]
    allowed: list[int]
    uncached: float
    share: float
    schema: int
    static: int


def figures(
    form: ReplyForm, count: Callable[[str], int], proof: Mapping[str, str] = MappingProxyType({})
) -> Figures:
    """Measure the conversation in one form of a reply. `proof`: keys to their `x-said`."""
    asked = asyncio.run(requests(form, proof))
    whole, known = shared([sent(request) for request in asked], count)
    heads = [written(said, form, proof).partition('"message":"') for said in CONVERSATION]
    schema = asked[0].schema
    return Figures(
        before=[count(head + mark) for head, mark, _ in heads],
        allowed=[20 + 10 * len(said.values) for said in CONVERSATION],
        uncached=(whole - known) / (len(asked) - 1),
        share=known / whole,
        schema=0 if schema is None else count(schema.text),
        static=count(asked[-1].messages[0].content),
    )


def main() -> None:
    """Print the figures."""
    count = counter()
    forms: tuple[ReplyForm, ...] = ("object", "list")
    for form in forms:
        for proof in ({}, SAID):
            name = f"{form}, with x-said" if proof else form
            found = figures(form, count, proof)
            both = zip(found.before, found.allowed, strict=True)
            pairs = ", ".join(f"{before}/{allowed}" for before, allowed in both)
            print(f"{name}: tokens before the first word / allowed, by turn: {pairs}")
            uncached = f"{found.uncached:.0f} prompt tokens a turn that no cache serves"
            print(
                f"{name}: {uncached}, {found.share:.1%} seen before, schema {found.schema} tokens"
            )
            print(f"{name}: {found.static} tokens of the prompt are the same in every turn")


if __name__ == "__main__":
    main()
