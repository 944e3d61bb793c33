"""Mongodb."""
