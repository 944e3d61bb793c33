"""Model adapters behind one small protocol; see `llm_fsm.llm.base`."""
