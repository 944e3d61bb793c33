"""Json_schema."""
