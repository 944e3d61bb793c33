"""One rule, one module, whose docstring is its page; `llm_fsm.lint.registry` lists them all."""
