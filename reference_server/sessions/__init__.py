"""Conversations that the server remembers, so that a client sends only what is new."""
