"""The routes of the studio: one module a subject, each with a function that returns its router."""
