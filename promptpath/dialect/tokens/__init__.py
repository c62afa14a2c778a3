"""Tokens: the o200k_base vocabulary as package data, counting, and estimates that say so."""
