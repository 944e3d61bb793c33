"""`llm-fsm conversations`: stored conversations listed, replayed, transferred and migrated, a module each."""
