"""Rules about tasks, waits and tools."""
