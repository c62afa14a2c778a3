"""Our listener: asyncio, HTTP/1.1 (h11) and HTTP/2 (h2), over TLS and in clear text.

It exists beside the public ASGI servers because it writes each event at once and tells the
application when exactly it writes.
"""
