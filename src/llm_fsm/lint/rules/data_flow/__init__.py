"""Data_flow."""
