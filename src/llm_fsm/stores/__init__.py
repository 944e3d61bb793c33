"""Stores of conversations behind one small protocol; see `llm_fsm.stores.base`."""
