"""Retail: a customer's own orders, with every write behind a yes to what was read back.

Run:  llm-fsm chat examples/retail/retail.json --tools examples/retail/retail.py --model
      openai/gpt-4o-mini

The rules are those of the retail shop of τ-bench. The definition says what is asked, in which order,
and that nothing is written without a yes. `Shop` says what the rules allow for the data: whose order
it is, in which status, which items and which payment method. It is asked twice: before the details
are read back, and again before they are written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "shop.json"
"""The shop of this example: a few products, users and orders, in the form of τ-bench."""

Json = dict[str, Any]


class Refused(Exception):
    """The rules of the shop do not allow a request. The message is for the customer."""


class Shop:
    """Products, users and orders, and what the rules allow.

    Args:
        data: `products`, `users` and `orders`, each by id. Writes change it.
    """

    def __init__(self, data: Json) -> None:
        self.products: Json = data["products"]
        self.users: Json = data["users"]
        self.orders: Json = data["orders"]
        self.done: dict[str, str] = {}
        """Key of an act to its news: an act that is repeated after a crash writes nothing more."""

    def find(self, known: Json) -> str | None:
        """Find a user by e-mail address, or by whole name and zip code."""
        for user_id, user in self.users.items():
            if _is_user(user, known):
                return str(user_id)
        return None

    def own(self, user_id: str) -> Json:
        """Return what a customer may be told of themselves, as context keys."""
        user = self.users[user_id]
        mine = {name: order for name, order in self.orders.items() if order["user_id"] == user_id}
        return {
            "user_id": user_id,
            "profile": {"address": user["address"], "payment_methods": user["payment_methods"]},
            "payment_ids": list(user["payment_methods"]),
            "orders": {name: _told(order) for name, order in mine.items()},
            "order_ids": list(mine),
        }

    # -- the rules

    def details(self, user_id: str, request: str, given: Json) -> str:
        """Return what a request comes to, in words.

        Raises:
            Refused: The rules do not allow it.
        """
        if request == "modify_user_address":
            return "It becomes your default address."
        order = self._own_order(user_id, given["order_id"], _STATUS[request])
        return _RULES[request](self, order, given)

    def _own_order(self, user_id: str, order_id: str, status: str) -> Json:
        order: Json | None = self.orders.get(order_id)
        if order is None or order["user_id"] != user_id:
            raise Refused(f"{order_id} is none of your orders.")
        if order["status"] != status:
            raise Refused(f"Order {order_id} is {order['status']}, so that cannot be done.")
        return order

    def payment(self, order: Json, name: str) -> Json:
        """Return a payment method of the customer of an order. Raises Refused."""
        found: Json | None = self.users[order["user_id"]]["payment_methods"].get(name)
        if found is None:
            raise Refused(f"{name} is none of your payment methods.")
        return found

    def difference(self, order: Json, given: Json) -> float:
        """Return what the new items cost more than the old ones. Raises Refused."""
        _has_items(order, [swap["item_id"] for swap in given["swaps"]])
        more = 0.0
        for swap in given["swaps"]:
            old = _item(order, swap["item_id"])
            new = self.products[old["product_id"]]["variants"].get(swap["new_item_id"])
            if new is None or not new["available"]:
                raise Refused(f"{swap['new_item_id']} is not available as {old['name']}.")
            if swap["new_item_id"] == swap["item_id"]:
                raise Refused(f"{swap['item_id']} would stay the same item.")
            more += new["price"] - old["price"]
        more = round(more, 2)
        method = self.payment(order, given["payment_method_id"])
        if method["source"] == "gift_card" and method["balance"] < more:
            raise Refused("The balance of the gift card does not cover the difference.")
        return more

    # -- writes

    def write(self, user_id: str, request: str, given: Json, key: str) -> str:
        """Do what a request asks for, once for each key. Return the news for the customer.

        Raises:
            Refused: The rules do not allow it any more.
        """
        if key not in self.done:
            self.details(user_id, request, given)
            self.perform(user_id, request, given)
            self.done[key] = f"{_TITLE[request]}: done."
        return self.done[key]

    def perform(self, user_id: str, request: str, given: Json) -> None:
        """Write."""
        if request == "modify_user_address":
            self.users[user_id]["address"] = _address(given)
            return
        _WRITES[request](self, self.orders[given["order_id"]], given)


def _is_user(user: Json, known: Json) -> bool:
    if "email" in known:
        return bool(user["email"].lower() == known["email"].lower())
    name = user["name"]
    return bool(
        name["first_name"].lower() == known.get("first_name", "").lower()
        and name["last_name"].lower() == known.get("last_name", "").lower()
        and user["address"]["zip"] == known.get("zip_code")
    )


def _told(order: Json) -> Json:
    shown = ("status", "address", "items", "payment_history", "fulfillments")
    return {name: order[name] for name in shown if name in order}


def _item(order: Json, item_id: str) -> Json:
    found: Json = next(item for item in order["items"] if item["item_id"] == item_id)
    return found


def _has_items(order: Json, item_ids: Sequence[str]) -> None:
    there = Counter(item["item_id"] for item in order["items"])
    for item_id, times in Counter(item_ids).items():
        if times > there[item_id]:
            raise Refused(f"Item {item_id} is not in the order.")


def _address(given: Json) -> Json:
    names = ("address1", "address2", "city", "state", "country", "zip")
    return {name: given["address"].get(name) or "" for name in names}


# -- what each request needs, and what it writes


def _may_cancel(_shop: Shop, order: Json, _given: Json) -> str:
    paid = sum(payment["amount"] for payment in order["payment_history"])
    return f"{paid:.2f} go back to the original payment method."


def _may_move(_shop: Shop, _order: Json, _given: Json) -> str:
    return "The order goes to the new address."


def _may_repay(shop: Shop, order: Json, given: Json) -> str:
    [paid, *others] = order["payment_history"]
    method = shop.payment(order, given["payment_method_id"])
    if others or paid["payment_method_id"] == given["payment_method_id"]:
        raise Refused("It must be another payment method than the one that was used.")
    if method["source"] == "gift_card" and method["balance"] < paid["amount"]:
        raise Refused("The balance of the gift card does not cover the order.")
    return f"{paid['amount']:.2f} are charged to it, and the first payment goes back."


def _may_swap(shop: Shop, order: Json, given: Json) -> str:
    more = shop.difference(order, given)
    paid = f"You get {-more:.2f} back" if more < 0 else f"You pay {more:.2f} more"
    return f"{paid}. This is possible only once for an order."


def _may_return(shop: Shop, order: Json, given: Json) -> str:
    _has_items(order, given["item_ids"])
    name = given["payment_method_id"]
    method = shop.payment(order, name)
    first = order["payment_history"][0]["payment_method_id"]
    if method["source"] != "gift_card" and name != first:
        raise Refused("The money goes to the original payment method, or to a gift card.")
    back = sum(_item(order, item_id)["price"] for item_id in given["item_ids"])
    return f"{back:.2f} go back. You get an e-mail about how to send the items."


def _cancel(shop: Shop, order: Json, given: Json) -> None:
    refunds = []
    for payment in order["payment_history"]:
        name = payment["payment_method_id"]
        refunds.append(_entry("refund", payment["amount"], name))
        _credit(shop, order, name, payment["amount"])
    order["status"] = "cancelled"
    order["cancel_reason"] = given["reason"]
    order["payment_history"].extend(refunds)


def _move(_shop: Shop, order: Json, given: Json) -> None:
    order["address"] = _address(given)


def _repay(shop: Shop, order: Json, given: Json) -> None:
    [paid] = order["payment_history"]
    name, amount = given["payment_method_id"], paid["amount"]
    order["payment_history"].extend(
        [_entry("payment", amount, name), _entry("refund", amount, paid["payment_method_id"])]
    )
    _credit(shop, order, name, -amount)
    _credit(shop, order, paid["payment_method_id"], amount)


def _change(shop: Shop, order: Json, given: Json) -> None:
    more = shop.difference(order, given)
    name = given["payment_method_id"]
    kind = "payment" if more > 0 else "refund"
    order["payment_history"].append(_entry(kind, abs(more), name))
    _credit(shop, order, name, -more)
    for swap in given["swaps"]:
        item = _item(order, swap["item_id"])
        variant = shop.products[item["product_id"]]["variants"][swap["new_item_id"]]
        item["item_id"] = swap["new_item_id"]
        item["price"] = variant["price"]
        item["options"] = variant["options"]
    order["status"] = "pending (item modified)"


def _return(_shop: Shop, order: Json, given: Json) -> None:
    order["status"] = "return requested"
    order["return_items"] = sorted(given["item_ids"])
    order["return_payment_method_id"] = given["payment_method_id"]


def _exchange(shop: Shop, order: Json, given: Json) -> None:
    order["exchange_price_difference"] = shop.difference(order, given)
    order["status"] = "exchange requested"
    order["exchange_items"] = sorted(swap["item_id"] for swap in given["swaps"])
    order["exchange_new_items"] = sorted(swap["new_item_id"] for swap in given["swaps"])
    order["exchange_payment_method_id"] = given["payment_method_id"]


def _entry(kind: str, amount: float, name: str) -> Json:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": name}


def _credit(shop: Shop, order: Json, name: str, amount: float) -> None:
    """Add to the balance of a gift card; other payment methods have none."""
    method = shop.payment(order, name)
    if method["source"] == "gift_card":
        method["balance"] = round(method["balance"] + amount, 2)


_STATUS = {
    "cancel_pending_order": "pending",
    "modify_pending_order_address": "pending",
    "modify_pending_order_payment": "pending",
    "modify_pending_order_items": "pending",
    "return_delivered_order_items": "delivered",
    "exchange_delivered_order_items": "delivered",
}
_RULES: dict[str, Callable[[Shop, Json, Json], str]] = {
    "cancel_pending_order": _may_cancel,
    "modify_pending_order_address": _may_move,
    "modify_pending_order_payment": _may_repay,
    "modify_pending_order_items": _may_swap,
    "return_delivered_order_items": _may_return,
    "exchange_delivered_order_items": _may_swap,
}
_WRITES: dict[str, Callable[[Shop, Json, Json], None]] = {
    "cancel_pending_order": _cancel,
    "modify_pending_order_address": _move,
    "modify_pending_order_payment": _repay,
    "modify_pending_order_items": _change,
    "return_delivered_order_items": _return,
    "exchange_delivered_order_items": _exchange,
}
_TITLE = {
    "cancel_pending_order": "Cancellation",
    "modify_pending_order_address": "New address of the order",
    "modify_pending_order_payment": "New payment method of the order",
    "modify_pending_order_items": "New items of the order",
    "return_delivered_order_items": "Return",
    "exchange_delivered_order_items": "Exchange",
    "modify_user_address": "Your new address",
}


# -- what the definition names


def functions(shop: Shop) -> list[Callable[..., Any]]:
    """Return the functions for `execute` of the definition, over a shop."""

    async def find_customer(ctx: Any) -> str:
        """Find the customer, and show the model what they may be told."""
        user_id = shop.find(ctx.context)
        if user_id is None:
            return "There is no such customer."
        ctx.set_context(**shop.own(user_id))
        return "The customer is known."

    async def check_request(ctx: Any) -> str:
        """Ask the rules, and set `details`, or `news` if they refuse."""
        known = ctx.context
        try:
            details = shop.details(known["user_id"], known["request"], known)
        except Refused as refused:
            ctx.set_context(details=None, news=str(refused))
            return str(refused)
        ctx.set_context(details=details)
        return details

    async def write_request(ctx: Any) -> str:
        """Write what was agreed to, with the values of the yes."""
        agreed = ctx.agreed.values
        user_id = ctx.context["user_id"]
        news = shop.write(user_id, agreed["request"], agreed, ctx.key)
        ctx.set_context(news=news, **shop.own(user_id))
        return news

    return [find_customer, check_request, write_request]


def tools(shop: Shop) -> list[Callable[..., Any]]:
    """Return the tools that look products up. They show nothing of any customer."""

    async def list_all_product_types() -> dict[str, str]:
        """List the names of all products with their ids."""
        return {product["name"]: name for name, product in sorted(shop.products.items())}

    async def get_product_details(product_id: str) -> Json:
        """Look up the options, prices and availability of a product."""
        if product_id not in shop.products:
            raise ValueError(f"there is no product {product_id!r}")
        found: Json = shop.products[product_id]
        return found

    return [list_all_product_types, get_product_details]


SHOP = Shop(json.loads(DATA.read_text(encoding="utf-8")))
FUNCTIONS = functions(SHOP)
TOOLS = tools(SHOP)
