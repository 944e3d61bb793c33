"""Litellm."""
