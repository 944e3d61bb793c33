"""What all models of a `*.test.json` file have in common: no unknown key is accepted, short forms are spelled out."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from llm_fsm._json import escape
from llm_fsm.conditions.compiler import ConditionError, compile_rule

JsonObject = dict[str, JsonValue]


def _listed(value: object) -> object:
    """One item may stand for a list of one."""
    return value if isinstance(value, list) else [value]


def _rule(value: object) -> object:
    try:
        compile_rule(value)
    except ConditionError as error:
        raise wrong(f"this is no rule: {error}") from error
    return value


def wrong(reason: str) -> PydanticCustomError:
    """What to raise for a value that cannot be; the reason is a sentence."""
    return PydanticCustomError("value", "{reason}", {"reason": reason})


Texts = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]
Rule = Annotated[JsonValue, BeforeValidator(_rule)]


class Written(BaseModel):
    """An object of such a file. Keys that begin with `x-` are free."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    short: ClassVar[str] = ""
    """The key that a value stands for which is no object."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        given = value if isinstance(value, dict) or not cls.short else {cls.short: value}
        if not isinstance(given, dict):
            return given
        known = cls.known_keys()
        if given.keys() <= known:
            return given
        given = {key: item for key, item in given.items() if not key.startswith("x-")}
        for key in given:
            if key not in known:
                where = {"key": key, "known": sorted(known), "pointer": escape(key)}
                raise PydanticCustomError("unknown_key", "unknown key", where)
        return given

    @classmethod
    @cache
    def known_keys(cls) -> frozenset[str]:
        """The keys that may stand in such an object."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())
