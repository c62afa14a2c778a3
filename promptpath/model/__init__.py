"""WHAT WE KNOW: frozen data and the append-only event log. Imports nothing of ours but errors."""
