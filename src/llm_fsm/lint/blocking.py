"""The rules that tell whether a machine can be run at all: all that loading a sound file needs.

The other rules need not even be imported then, which is most of what a program that loads one file would pay.
"""

from __future__ import annotations

from llm_fsm.lint.rule import Rule
from llm_fsm.lint.rules.conditions import bad_check, bad_condition
from llm_fsm.lint.rules.format import (
    bad_answer_schema,
    bad_key_setting,
    bad_schema,
    bad_template,
    bad_tool,
    duplicate_entry,
    mismatched_id,
    subflow_without_flow,
)
from llm_fsm.lint.rules.graph import undefined_name, unknown_initial_state, unknown_tool

BLOCKING: tuple[Rule, ...] = (
    mismatched_id.RULE,
    bad_tool.RULE,
    bad_schema.RULE,
    bad_template.RULE,
    bad_answer_schema.RULE,
    duplicate_entry.RULE,
    bad_key_setting.RULE,
    undefined_name.RULE,
    unknown_initial_state.RULE,
    bad_condition.RULE,
    bad_check.RULE,
    unknown_tool.RULE,
    subflow_without_flow.RULE,
)
"""Every rule of level error that blocks and looks at documents itself."""
