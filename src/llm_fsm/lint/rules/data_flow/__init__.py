"""Rules about keys: who sets them, and who reads them."""
