"""Catalogue_pages."""
