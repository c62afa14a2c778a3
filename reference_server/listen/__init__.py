"""Our listener: asyncio, HTTP/1.1 (h11), HTTP/2 (h2) and HTTP/3 (aioquic).

The first two over TLS and in clear text, the third beside TLS only.

It exists beside the public ASGI servers because it writes each event at once and tells the
application when exactly it writes.
"""
