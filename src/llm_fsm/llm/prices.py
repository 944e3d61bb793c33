"""The cost of a reply, by a small copy of litellm's price list.

    python -m llm_fsm.llm.prices       makes a new copy from the installed litellm, without
    importing it

The copy is `prices.json`: {"date": …, "prices": {provider: {model: [input, output, cached
input]}}}. Prices are US dollars a token.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import files
from pathlib import Path

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.llm.providers import PROVIDERS

Prices = Mapping[str, tuple[float, float, float]]
"""A model to the prices of a token of the input, the output, and the input from a cache."""
_FILE = Path(__file__).with_name("prices.json")
_LIST = "model_prices_and_context_window_backup.json"
_MODES = ("chat", "responses")


def cost_of(
    provider: str, model: str, input_tokens: int, output_tokens: int, cached_tokens: int
) -> float:
    """Price one reply.

    Args:
        provider: The provider's name in the list.
        model: The model's name without its provider. A dated version has the price of its model.
        input_tokens: Tokens of the prompt, with those from a cache.
        output_tokens: Tokens of the reply.
        cached_tokens: Tokens of the prompt that a cache served.

    Returns:
        US dollars; 0 for a model that the list does not have.
    """
    known = _prices().get(provider, {})
    price = known.get(model)
    if price is None:
        older = [name for name in known if model.startswith(f"{name}-")]
        price = known[max(older, key=len)] if older else None
    if price is None:
        return 0.0
    fresh = max(0, input_tokens - cached_tokens)
    return fresh * price[0] + output_tokens * price[1] + cached_tokens * price[2]


@cache
def _prices() -> Mapping[str, Prices]:
    document: JsonDict = json.loads(_FILE.read_text(encoding="utf-8"))
    found: Mapping[str, Prices] = document["prices"]
    return found


def _copied(listed: JsonMap) -> dict[str, dict[str, list[float]]]:
    """Return the prices of the providers that are called directly."""
    wanted = {provider.prices for provider in PROVIDERS.values()} - {""}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in sorted(wanted)}
    for name, entry in listed.items():
        provider = entry.get("litellm_provider")
        costs = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
        if (
            provider not in wanted
            or entry.get("mode") not in _MODES
            or None in costs
            or not any(costs)
        ):
            continue
        cached = entry.get("cache_read_input_token_cost")
        model = name.removeprefix(f"{provider}/")
        found[provider][model] = [*costs, costs[0] if cached is None else cached]
    return found


def main() -> int:
    """Write a new copy."""
    source = next((path for path in files("litellm") or () if path.name == _LIST), None)
    if source is None:
        print(f"litellm is installed without {_LIST}", file=sys.stderr)
        return 1
    listed = json.loads(source.read_text(encoding="utf-8"))
    today = datetime.now(UTC).date().isoformat()
    lines = [
        f" {json.dumps(provider)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(model)}: {json.dumps(prices)}"
            for model, prices in sorted(models.items())
        )
        + "\n }"
        for provider, models in _copied(listed).items()
    ]
    text = f'{{"date": "{today}", "prices": {{\n' + ",\n".join(lines) + "\n}}\n"
    _FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
