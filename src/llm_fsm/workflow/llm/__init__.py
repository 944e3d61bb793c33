"""Adapters of models for workflows; each SDK is imported when its adapter is made."""
