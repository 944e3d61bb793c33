"""The arguments of a model's tool call: JSON text that may be anything."""

from __future__ import annotations

import json
import math
from typing import Any

from llm_fsm.conditions.coercion import all_mended, may_be_halved

MAX_ARGUMENTS = 1_000_000
"""Characters of one call's arguments."""


class ArgumentsFault(ValueError):
    """The arguments of a call cannot be read or do not fit; the message tells the model why."""


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments object of a call. Nothing at all is no arguments; JSON inside a JSON text is read too.

    Half a JSON is not repaired: what a call does may depend on what is missing. Raises ArgumentsFault.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_ARGUMENTS:
        raise ArgumentsFault(f"the arguments have {len(text)} characters; at most {MAX_ARGUMENTS} are read")
    value = _parsed(text)
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = _parsed(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentsFault('the arguments are not a JSON object such as {"name": "value"}')
    return value


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        return all_mended(value) if may_be_halved(text) else value
    except RecursionError as error:
        raise ArgumentsFault("the arguments are nested too deep") from error
    except ValueError as error:
        raise ArgumentsFault(f"the arguments are not JSON: {error}") from error


def _finite(number: str) -> float:
    found = float(number)
    return found if math.isfinite(found) else _refuse(number)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant:.50} is no JSON number")
