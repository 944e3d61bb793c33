"""Pictures of a machine: one neutral picture, and one pure renderer for each form of it."""
