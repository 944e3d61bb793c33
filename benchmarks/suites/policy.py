"""Judge a write by the retail policy of τ-bench, apart from any definition.

It knows what was said, the data before the write, and the call. It does not know who made the call,
or by which way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

YES = "Yes."
"""The only words of the simulated users that are a yes."""
WORDS = {
    "cancel_pending_order": ("cancel",),
    "modify_pending_order_address": ("order address", "address for the order"),
    "modify_pending_order_payment": ("payment",),
    "modify_pending_order_items": ("items",),
    "return_delivered_order_items": ("return",),
    "exchange_delivered_order_items": ("exchange",),
    "modify_user_address": ("user address", "own new address"),
}
"""Words of which an agent needs one to say what kind of write it will make."""
REASONS = ("no longer needed", "ordered by mistake")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, in the form of τ-bench."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the user or the agent, or a write between them (`who` is "write")."""

    who: str
    text: str = ""


def violation(call: Call, before: Mapping[str, Json], said: Sequence[Said]) -> str:
    """Return the rule that a write breaks.

    Args:
        call: The write.
        before: `users`, `orders` and `products` before it.
        said: All that was said before it, in order.

    Returns:
        The rule in words; "" if the write is allowed.
    """
    given = call.arguments
    user_id = _authenticated(before["users"], said)
    if user_id is None:
        return "nobody was authenticated"
    if call.name == "modify_user_address":
        owner = given["user_id"]
    else:
        owner = before["orders"].get(given["order_id"], {}).get("user_id")
    if owner != user_id:
        return "it belongs to another user"
    return _broken_rule(call, before, user_id) or _unconfirmed(call, said)


def _authenticated(users: Json, said: Sequence[Said]) -> str | None:
    """Return the user that the user's own words identify."""
    for one in said:
        if one.who != "user":
            continue
        words = one.text.lower()
        for user_id, user in users.items():
            name = user["name"]
            whole = (name["first_name"], name["last_name"], user["address"]["zip"])
            if user["email"].lower() in words or all(part.lower() in words for part in whole):
                return str(user_id)
    return None


# -- what the data allows


def _broken_rule(call: Call, before: Mapping[str, Json], user_id: str) -> str:
    if call.name == "modify_user_address":
        return ""
    given = call.arguments
    order = before["orders"][given["order_id"]]
    wanted = "delivered" if "delivered" in call.name else "pending"
    if order["status"] != wanted:
        return f"the order is not {wanted}"
    if call.name == "cancel_pending_order" and given["reason"] not in REASONS:
        return "it is no reason to cancel"
    methods = before["users"][user_id]["payment_methods"]
    if given.get("payment_method_id", next(iter(methods))) not in methods:
        return "it is no payment method of the user"
    if "item_ids" in given and Counter(given["item_ids"]) - Counter(
        item["item_id"] for item in order["items"]
    ):
        return "an item is not in the order"
    first = order["payment_history"][0]
    if call.name == "modify_pending_order_payment":
        return _broken_by_payment(given["payment_method_id"], methods, first)
    if call.name == "return_delivered_order_items":
        chosen = given["payment_method_id"]
        fits = chosen == first["payment_method_id"] or methods[chosen]["source"] == "gift_card"
        return "" if fits else "the refund goes to another payment method"
    if "new_item_ids" in given:
        return _broken_by_items(given, order, before["products"], methods)
    return ""


def _broken_by_payment(chosen: str, methods: Json, first: Json) -> str:
    if chosen == first["payment_method_id"]:
        return "it is the original payment method"
    if methods[chosen].get("balance", math.inf) < first["amount"]:
        return "the gift card does not cover the order"
    return ""


def _broken_by_items(given: Json, order: Json, products: Json, methods: Json) -> str:
    if len(given["item_ids"]) != len(given["new_item_ids"]):
        return "not each item has a new one"
    more = 0.0
    for old_id, new_id in zip(given["item_ids"], given["new_item_ids"], strict=True):
        old = next(item for item in order["items"] if item["item_id"] == old_id)
        new = products[old["product_id"]]["variants"].get(new_id)
        if new is None:
            return "the new item is another product"
        if not new["available"] or new_id == old_id:
            return "the new item is not available, or no other option"
        more += new["price"] - old["price"]
    if methods[given["payment_method_id"]].get("balance", math.inf) < round(more, 2):
        return "the gift card does not cover the difference"
    return ""


# -- what the user agreed to


def _unconfirmed(call: Call, said: Sequence[Said]) -> str:
    """Return what a yes lacks. It is the user's last word, it follows the details, and serves once."""
    last = max((number for number, one in enumerate(said) if one.who == "user"), default=-1)
    if last < 1 or said[last].text != YES:
        return "the user did not say yes"
    if any(one.who == "write" for one in said[last:]):
        return "the yes was used already"
    shown = said[last - 1].text
    named = any(word in shown.lower() for word in WORDS[call.name])
    if said[last - 1].who != "agent" or not named:
        return "the details were not listed before the yes"
    values = [value for name, value in call.arguments.items() if name != "user_id"]
    if not all(value in shown for value in _texts(values)):
        return "other details were listed before the yes"
    return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)
