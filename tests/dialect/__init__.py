"""Tests of promptpath.dialect."""
