"""Twins of promptpath/wire."""
