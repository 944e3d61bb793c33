"""Store_contract."""
