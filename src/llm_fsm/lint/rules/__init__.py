"""Every rule, listed by hand and grouped by family. A rule is a module; its docstring is its page."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from llm_fsm.lint.rule import Rule
from llm_fsm.lint.rules import (
    bad_answer_schema,
    bad_check,
    bad_condition,
    bad_context_schema,
    bad_json,
    bad_key,
    bad_key_setting,
    bad_number,
    bad_state_id,
    bad_template,
    bad_text,
    bad_tool,
    bad_value,
    confusable_ids,
    duplicate_key,
    duplicate_name,
    empty_file,
    final_with_transitions,
    ignore_without_reason,
    mismatched_id,
    missing_key,
    no_effect,
    no_keys,
    not_a_definition,
    not_json,
    not_mapped,
    not_runnable_yet,
    not_utf8,
    older_form,
    repeated_entry,
    reserved_name,
    return_without_effect,
    self_transition,
    too_deep,
    too_large,
    undeclared_key,
    unknown_initial_state,
    unknown_key,
    unknown_rule,
    unknown_state,
    unknown_target,
    unknown_tool,
    unreadable_file,
    unused_ignore,
    unwritable_key,
    wrong_type,
)

MODULES: tuple[ModuleType, ...] = (
    # E: reading
    unreadable_file,
    too_large,
    empty_file,
    not_utf8,
    bad_json,
    too_deep,
    bad_number,
    not_a_definition,
    not_json,
    bad_text,
    # S: form
    unknown_key,
    wrong_type,
    missing_key,
    bad_value,
    duplicate_key,
    mismatched_id,
    bad_state_id,
    bad_tool,
    bad_context_schema,
    bad_template,
    bad_answer_schema,
    confusable_ids,
    reserved_name,
    duplicate_name,
    repeated_entry,
    bad_key_setting,
    unknown_rule,
    ignore_without_reason,
    unused_ignore,
    # F: graph
    unknown_target,
    unknown_initial_state,
    final_with_transitions,
    self_transition,
    return_without_effect,
    # C: decision
    bad_condition,
    bad_check,
    # K: data flow
    bad_key,
    undeclared_key,
    unwritable_key,
    no_keys,
    # T: work
    unknown_tool,
    unknown_state,
    # M: older forms
    older_form,
    not_mapped,
    no_effect,
    # R: running
    not_runnable_yet,
)

RULES: tuple[Rule, ...] = tuple(module.RULE for module in MODULES)
BY_NAME: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in RULES})
