"""JSON Schemas of context keys, answers and tools: compiled to fast checks, and written in plain words for models."""
