"""Postgresql."""
