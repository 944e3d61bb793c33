"""Every rule, and how rules are called: by name, by code, or by the beginning of a code (`F`, `F1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from llm_fsm._text import nearest
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.rules import catalogue
from llm_fsm.lint.rules.conditions import (
    bad_check,
    bad_condition,
    constant_condition,
    decide_gap,
    empty_condition,
    odd_operation,
    one_way_confirmation,
    ordering_on_missing_key,
    overlapping_transitions,
    shadowed_transition,
    unjudged_words,
    value_mismatch,
)
from llm_fsm.lint.rules.data_flow import (
    bad_set,
    mapping_never_fits,
    reply_key_may_be_missing,
    scope_hides_required,
    secret_exposed,
    undefined_key,
    unobtainable_key,
    unused_name,
    used_before_set,
)
from llm_fsm.lint.rules.format import (
    bad_choice,
    bad_key,
    bad_reply,
    bad_schema,
    bad_template,
    bad_tool,
    confusable_ids,
    duplicate_entry,
    hidden_characters,
    idle_schema_word,
    missing_setting,
    refused_by_schema,
    setting_without_effect,
)
from llm_fsm.lint.rules.graph import (
    auto_loop,
    missing_flow,
    no_final_state,
    self_transition,
    subflow_recursion,
    trap,
    undefined_name,
    unreachable_state,
)
from llm_fsm.lint.rules.properties import (
    property_malformed,
    property_violated,
)
from llm_fsm.lint.rules.subflows import (
    flow_mapping,
)
from llm_fsm.lint.rules.tasks import (
    hopeless_setting,
    key_result_without_check,
    missing_limit,
    retry_without_idempotence,
    task_without_results,
    tool_out_of_scope,
    unknown_ending,
    wait_without_way_out,
)
from llm_fsm.lint.rules.wording import (
    identical_text,
    missing_text,
    overlong_description,
    parts_asked_apart,
    placeholder,
    prompt_over_budget,
    secret_literal,
    undefined_name_in_text,
    unfinished_words,
)

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "E": "Reading",
        "S": "Form",
        "F": "Graph",
        "C": "Decision",
        "K": "Data flow",
        "W": "Words",
        "T": "Work",
        "P": "Properties",
        "M": "Older forms",
        "R": "Running",
    }
)
"""First letter of a code to the name of its family, in the order of the handbook."""

MODULES: tuple[ModuleType, ...] = (
    bad_check,
    bad_condition,
    constant_condition,
    decide_gap,
    empty_condition,
    odd_operation,
    one_way_confirmation,
    ordering_on_missing_key,
    overlapping_transitions,
    shadowed_transition,
    unjudged_words,
    value_mismatch,
    bad_set,
    mapping_never_fits,
    reply_key_may_be_missing,
    scope_hides_required,
    secret_exposed,
    undefined_key,
    unobtainable_key,
    unused_name,
    used_before_set,
    bad_choice,
    bad_key,
    bad_reply,
    bad_schema,
    bad_template,
    bad_tool,
    confusable_ids,
    duplicate_entry,
    hidden_characters,
    idle_schema_word,
    missing_setting,
    refused_by_schema,
    setting_without_effect,
    auto_loop,
    missing_flow,
    no_final_state,
    self_transition,
    subflow_recursion,
    trap,
    undefined_name,
    unreachable_state,
    property_malformed,
    property_violated,
    flow_mapping,
    hopeless_setting,
    key_result_without_check,
    missing_limit,
    retry_without_idempotence,
    task_without_results,
    tool_out_of_scope,
    unknown_ending,
    wait_without_way_out,
    identical_text,
    missing_text,
    overlong_description,
    parts_asked_apart,
    placeholder,
    prompt_over_budget,
    secret_literal,
    undefined_name_in_text,
    unfinished_words,
)
"""The modules that define rules with `lint_rule`."""

_CODE = re.compile(r"[A-Z][0-9]{0,3}")


def _place(rule: Rule) -> tuple[int, str]:
    return list(FAMILIES).index(rule.code[0]), rule.code


def _all_rules() -> tuple[Rule, ...]:
    found = {value for module in MODULES for value in vars(module).values() if isinstance(value, Rule)}
    return tuple(sorted({*found, *catalogue.RULES.values()}, key=_place))


RULES: tuple[Rule, ...] = _all_rules()
"""Every rule, in the order of codes."""

BY_NAME: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in RULES})


def matches(word: str, name: str, code: str) -> bool:
    """Tell whether a word stands for the rule of this name and code; codes are compared without case."""
    upper = word.upper()
    return word == name or (_CODE.fullmatch(upper) is not None and code.startswith(upper))


def names_a_rule(word: str) -> bool:
    """Tell whether a word stands for at least one rule."""
    return any(matches(word, rule.name, rule.code) for rule in RULES)


def near_rule(word: str) -> str | None:
    """Return the name of the rule that was probably meant."""
    return nearest(word.replace("_", "-"), BY_NAME)


def find_rule(word: str) -> Rule | None:
    """Return the rule of this name or whole code."""
    return next((rule for rule in RULES if word == rule.name or word.upper() == rule.code), None)
