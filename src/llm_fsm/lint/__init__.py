"""The checker of definitions: one rule, one module; see `llm_fsm.lint.rule`."""
