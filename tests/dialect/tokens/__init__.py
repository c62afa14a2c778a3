"""Tests of promptpath.dialect.tokens."""
