"""The rules that block a machine from running: the only ones that loading a sound file needs.

They are listed apart from `registry`, because importing all rules takes longer than checking a
file.
"""

from __future__ import annotations

from llm_fsm.lint.rule import LintRule
from llm_fsm.lint.rules.conditions.bad_condition import bad_check, bad_condition
from llm_fsm.lint.rules.format.bad_key import bad_key_setting
from llm_fsm.lint.rules.format.duplicate_entry import duplicate_name
from llm_fsm.lint.rules.format.malformed import bad_answer_schema, bad_context_schema, bad_template
from llm_fsm.lint.rules.format.missing_setting import bad_tool, subflow_without_flow
from llm_fsm.lint.rules.graph.undefined_name import (
    unknown_initial_state,
    unknown_target,
    unknown_tool,
)
from llm_fsm.lint.rules.wording.translations import taken_key

BLOCKING: tuple[LintRule, ...] = (
    bad_tool,
    bad_context_schema,
    bad_template,
    bad_answer_schema,
    duplicate_name,
    bad_key_setting,
    taken_key,
    unknown_target,
    unknown_initial_state,
    bad_condition,
    bad_check,
    unknown_tool,
    subflow_without_flow,
)
"""Every rule of level error that blocks and checks documents itself."""
