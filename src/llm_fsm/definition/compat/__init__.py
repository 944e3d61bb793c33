"""Older and foreign forms of a definition, mapped to the form of today before anything else reads them."""
