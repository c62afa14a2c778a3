"""BYTES <-> FRAMES. Sans-IO: every parser takes (bytes, Stamp) and gives back what those bytes
completed."""
