"""Twins of the files in `reference_server/text/`."""
