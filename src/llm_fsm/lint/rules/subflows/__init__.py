"""Subflows."""
