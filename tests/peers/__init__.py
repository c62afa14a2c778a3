"""The other ends: real programs and scripted servers that tests talk to over loopback.

One module a peer. Each is a context manager that starts on a free loopback port, returns when it
accepts, and is gone when the block ends.
"""
