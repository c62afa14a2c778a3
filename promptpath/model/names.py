"""The names of facts, marks and spans: the seam between what probes record and what analysis reads.

A name is written once, here, with the shape of its value. Times inside values are integer ns named
`*_ns`. A fact may be repeated (several DNS queries, several redirects); order is order of
recording.
"""

from __future__ import annotations

from typing import Final

# --- failure and limits -------------------------------------------------------------------------
FAILURE: Final = "failure"
"""{"stage", "code", "what", "expected", "where", "hint"}: why the run could not go on."""
LIMIT: Final = "limit"
"""{"name": connect-timeout | first-token-timeout | idle-timeout | timeout | max-bytes | interrupt,
"value": ns or bytes | null}: which limit of ours ended the run."""
RUN: Final = "run"
"""{"kind": "cold" | "warm", "index": int, "reused": bool}."""

# --- dns ----------------------------------------------------------------------------------------
DNS_HOST: Final = "dns.host"
"""str: the name asked for, as A-label."""
DNS_SOURCE: Final = "dns.source"
"""literal | hosts | system | resolver | override: who gave the addresses that were dialled."""
DNS_ADDRESSES: Final = "dns.addresses"
"""[str]: the addresses in the order they are dialled."""
DNS_QUERY: Final = "dns.query"
"""{"type": A | AAAA | HTTPS, "server": "addr:port", "transport": udp | tcp, "outcome": answered |
timed-out | refused | malformed, "rcode": str | null, "answers": [str], "ttl_s": int | null,
"cname": [str], "rtt_ns": int | null, "rtt_error_ns": int | null, "truncated": bool,
"attempts": int}; off the critical path unless dns.source is resolver."""
DNS_DIFFERS: Final = "dns.differs"
"""{"system": [str], "resolver": [str]}: the two gave disjoint or different address sets."""
DNS_HTTPS: Final = "dns.https"
"""{"target", "priority", "alpn": [str], "port": int | null, "ipv4hint": [str], "ipv6hint": [str],
"ech": bool}: an HTTPS record (RFC 9460)."""

# --- tcp ----------------------------------------------------------------------------------------
TCP_PEER: Final = "tcp.peer"
"""{"address", "port", "family": ipv4 | ipv6}."""
TCP_LOCAL: Final = "tcp.local"
"""{"address", "port"}."""
TCP_RTT: Final = "tcp.rtt"
"""{"rtt_ns", "rttvar_ns"}: tcpi_rtt just after connect: the SYN exchange as the kernel saw it."""
TCP_INFO: Final = "tcp.info"
"""A TCP_INFO snapshot: {"when": connected | tls | request-sent | head | end, ...named fields};
times in the kernel's own units with the unit in the name (rtt_us, rto_us, busy_time_us ...)."""

# --- proxy --------------------------------------------------------------------------------------
PROXY: Final = "proxy"
"""{"kind": http | https | socks5 | socks5h, "address": "host:port", "source": option |
environment, "mode": tunnel | absolute-form, "status": int | null, "credentials": bool}."""
PROXY_BYPASSED: Final = "proxy.bypassed"
"""{"why": str}: the environment names a proxy and NO_PROXY exempts this host."""

# --- tls (prefix "proxy.tls." instead of "tls." for the leg to an HTTPS proxy) ---
TLS_VERSION: Final = "tls.version"
"""TLSv1.2 | TLSv1.3."""
TLS_CIPHER: Final = "tls.cipher"
"""Cipher suite by its IANA name, for example TLS_AES_128_GCM_SHA256."""
TLS_GROUP: Final = "tls.group"
"""Key exchange group, for example x25519; null when not seen."""
TLS_SIGNATURE: Final = "tls.signature"
"""Signature algorithm of the handshake, for example ecdsa_secp256r1_sha256."""
TLS_ALPN: Final = "tls.alpn"
"""str | null: the protocol agreed."""
TLS_ALPN_OFFERED: Final = "tls.alpn_offered"
"""[str]: what we offered."""
TLS_SNI: Final = "tls.sni"
TLS_HELLO_RETRY: Final = "tls.hello_retry"
"""{"group": str | null}: the server answered HelloRetryRequest (RFC 8446, 4.1.4)."""
TLS_CHAIN: Final = "tls.chain"
"""[{"subject", "issuer", "names": [str], "not_before_unix_s", "not_after_unix_s", "serial", "key",
"signature", "sha256"}], the leaf first, as sent."""
TLS_VERIFY: Final = "tls.verify"
"""{"verified": bool, "error": str | null, "code": cert-expired | cert-not-yet-valid |
cert-self-signed | cert-unknown-ca | cert-wrong-host | cert-invalid | null, "checked": bool}; with
--insecure what verification would have said; `checked` is false where nothing could be judged."""
TLS_CLIENT_CERT_REQUESTED: Final = "tls.client_certificate_requested"
"""bool | null: null where TLS 1.3 hides it from us (a Python without the message hook)."""
TLS_TICKET: Final = "tls.ticket"
"""{"lifetime_s", "max_early_data_bytes": int | null}: one NewSessionTicket; null: it offers no
early data."""
TLS_RESUMED: Final = "tls.resumed"
"""{"offered": bool, "accepted": bool}."""
TLS_ALERT: Final = "tls.alert"
"""{"direction": sent | received, "level", "description"}; close_notify is no fact, only a mark."""

# --- quic ---------------------------------------------------------------------------------------
QUIC_PEER: Final = "quic.peer"
"""{"address", "port", "family": ipv4 | ipv6}: where the datagrams of the connection went."""
QUIC_HANDSHAKE: Final = "quic.handshake"
"""{"version": v1 | v2 | hex, "round_trips": int, "retry": bool, "version_negotiation": [str] (what
the server offered) | null, "initials": int (datagrams of ours until its first answer), "resumed":
bool, "early_data": not-offered | accepted | rejected, "alpn": str | null}."""
QUIC_PARAMETERS: Final = "quic.parameters"
"""{name: number or bool}: the server's transport parameters (RFC 9000, 18.2), times in ms as sent;
`effective_idle_ms`: the lower of its and our max_idle_timeout, null where neither limits."""
QUIC_RTT: Final = "quic.rtt"
"""{"conn", "samples", "first_ns", "min_ns", "last_ns"}: from our own packet log, the peer's ACK
delay inside; null without a sample."""
QUIC_PACKETS: Final = "quic.packets"
"""{"conn", "sent", "received", "lost", "dropped", "duplicates"}: packets, not datagrams."""
QUIC_ECN: Final = "quic.ecn"
"""{"conn", "not_ect", "ect1", "ect0", "ce"}: datagrams received by ECN codepoint (RFC 3168, 5).
We send not-ECT: aioquic does not validate ECN, so it may not use it (RFC 9000, 13.4.2)."""
QUIC_CLOSE: Final = "quic.close"
"""{"conn", "by": peer | us | timer, "how": close | idle | stateless-reset | no-common-version |
malformed | icmp | unconfirmed (the handshake, by the connect timeout), "code": int,
"application": bool, "reason": str}."""
QUIC_EARLY_DATA: Final = "quic.early_data"
"""{"offered": bool, "accepted": bool | null, "retried": bool, "why": str | null, "request": str,
"status": int | null, "head_ns": int | null, "saved_ns": int | null}: what --early-data found on a
second connection: first datagram to response head, and how long before the end of the handshake the
request left."""
QUIC_RACE: Final = "quic.race"
"""{"winner": quic | tcp, "why": str | null (why QUIC did not stand within its head start),
"cost_ns": int | null (what waiting for it cost)}: --http race."""
QUIC_UDP: Final = "quic.udp"
"""{"address", "port", "answered": bool | null, "what": answered | silence | icmp | failed,
"rtt_ns": int | null, "version": str | null}: whether a QUIC Initial gets through, tried after an
HTTP/1.1 or HTTP/2 run whose server offers h3."""

# --- http ---------------------------------------------------------------------------------------
HTTP_REQUEST: Final = "http.request"
"""{"method", "target" (redacted), "version": "1.1" | "2" | "3", "head_bytes", "body_bytes",
"accept_encoding"}."""
HTTP_STATUS: Final = "http.status"
"""int: the final response's status."""
HTTP_HEADERS: Final = "http.headers"
"""[[name, value]]: the final response's headers, redacted, names in lower case."""
HTTP_INFORMATIONAL: Final = "http.informational"
"""{"status", "headers": [[name, value]]}: a 1xx response."""
HTTP_VERSION: Final = "http.version"
""""1.0" | "1.1" | "2" | "3"."""
HTTP_FRAMING: Final = "http.framing"
"""chunked | content-length | until-close | h2-data | h3-data."""
HTTP_SETTINGS: Final = "http.settings"
"""{"header_table_size", "max_concurrent_streams", "initial_window_size", ...}: the peer's
SETTINGS."""
HTTP_REDIRECT: Final = "http.redirect"
"""{"status", "from", "to"} (redacted URLs)."""
HTTP_TRAILERS: Final = "http.trailers"
"""[[name, value]], redacted."""
HTTP_END: Final = "http.end"
"""{"how": clean | fin | close-notify | rst | timed-out | reset | goaway | protocol-error |
cut-by-us, "code": int | null, "complete": bool, "detail": str | null}; `complete`: HTTP framing
says whole; timed-out: TCP keepalives found the path dead."""
HTTP_RATE_LIMIT: Final = "http.rate_limit"
"""{"retry_after_s": float | null, "headers": [[name, value]]}."""
HTTP_REQUEST_ID: Final = "http.request_id"
"""{"header", "value"}: the vendor's id for this request."""
HTTP_ALT_SVC: Final = "http.alt_svc"
"""[{"protocol", "authority", "max_age_s"}]."""
HTTP_ERROR_BODY: Final = "http.error_body"
"""{"type", "code", "message"}: what an error response's JSON said, cut to 300 characters,
redacted."""
HTTP_CONTENT_DECODER: Final = "http.content_decoder"
"""{"encoding", "encoded_bytes", "decoded_bytes", "error": str | null}."""

# --- stream and tokens --------------------------------------------------------------------------
STREAM_FRAMING: Final = "stream.framing"
"""sse | ndjson | json | raw."""
STREAM_DIALECT: Final = "stream.dialect"
"""{"name", "because": content-type | payload | url | option}."""
STREAM_MODEL: Final = "stream.model"
"""str: the model the endpoint says answered."""
STREAM_RESPONSE_ID: Final = "stream.response_id"
STREAM_FINISH: Final = "stream.finish"
"""str: the finish reason in the endpoint's own words."""
STREAM_ERROR: Final = "stream.error"
"""{"code", "type", "message" (redacted, cut to 300), "shape": data-error | event-error |
error-beside-choices | error-field | json-body}."""
STREAM_END: Final = "stream.end"
"""{"marker_expected": bool, "marker_seen": bool, "pending_bytes": int, "after_marker_ns": int |
null}: bytes of an unfinished frame at the end; how long the response stayed open after the
marker."""
STREAM_QUIET: Final = "stream.quiet"
"""{"since_ns", "quiet_ns", "peer": alive | unanswered | unknown, "last_ack_ns": int | null}: noted
while nothing came, after 7, 14, 28 ... s. alive: the connection's other end answered a TCP
keepalive meanwhile; unanswered: it did not; last_ack_ns: the age of its last ACK. Over HTTP/2 also
"peer_http": answered | unanswered | null, "ping_rtt_ns": int | null: what came of the one PING of
this silence (RFC 9113, 6.7), noted once more when it is answered; null: none was sent, or it is too
early to say."""
STREAM_USAGE: Final = "stream.usage"
"""{"input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens"}, each int | null; the last
snapshot wins."""
PROMPT_TOKENS: Final = "prompt.tokens"
"""{"count", "source": usage | o200k_base | estimate}."""
OUTPUT_TOKENS: Final = "output.tokens"
"""{"counted", "source": o200k_base | estimate, "per_event": counted | one-each | scaled}: what the
tool counted itself over all content; how the tokens of single events were had
(docs/commands/tokens.md)."""

# --- what the far side reports about itself -------------------------------------------------------
SERVER_TIMING: Final = "server.timing"
"""{"scope": auth | limits | session | tokenize | queue | prefill | decode | ttft | total | edge |
gateway | upstream | other, "duration_ns", "name" (raw), "place": header | chunk | final}."""
SERVER_COUNT: Final = "server.count"
"""{"name": prompt_n | cached_n | predicted_n | batch ..., "value"}."""
SERVER_CLOCK: Final = "server.clock"
"""{"offset_ns", "error_ns", "exchanges"}: their monotonic clock minus ours."""

# --- active tests ---
TEST: Final = "test"
"""This run is one stream of an active test. {"command": idle, "at": head | body | stream | kept,
"keepalive": none | comment | event | busy, "silence_ns", "longest_ns", "interval_ns": int | null,
"last_sent_ns"}: where the silence lies, what breaks it and how often, the longest timer sought, and
how long after the request the server goes quiet; or
{"command": calibrate, "kind": ramp | single | sweep | variant, "gap_ns": int | null, "name": str
(of a variant), "preamble_bytes": int (of a sweep)}."""
TEST_KEPT: Final = "test.kept"
"""{"idle_ns": int | null, "closed": fin | rst | close-notify | goaway | timed-out | error | null,
"reused": bool | null}: how long the connection was idle between two requests, how the peer ended
it meanwhile, and whether it took another request; idle_ns null: it was not kept open at all."""

# --- measuring machine ---
VANTAGE: Final = "vantage"
"""{"platform", "kernel", "python", "openssl"}."""

# --- marks ---
MARK_DNS_QUERY: Final = "query-sent"
MARK_DNS_ANSWER: Final = "answer"
MARK_QUIC: Final = "quic-step"
"""quic: a step of the handshake, {"step": initial-sent | retry | version-negotiation |
initial-received | handshake-received | completed | confirmed | path-challenge (the server
validates our path anew, RFC 9000, 8.2: it saw our address or port change)}."""
MARK_QUIC_PACKET: Final = "quic-packet"
"""quic: {"what": sent | received | lost | dropped, "type", "number": int | null, "size": int |
null, "frames": [str], "why": str | null}; the first thousands of a connection, every lost one."""
MARK_TLS_MESSAGE: Final = "message"
"""stage tls | proxy; detail {"message": ClientHello | ServerHello | HelloRetryRequest | ...,
"direction": sent | received, "bytes", ...facts of the message}."""
MARK_TLS_WIRE: Final = "flight-wire"
"""The kernel put the last byte of one of our flights on the wire; detail {"message": ClientHello
...}."""
MARK_TLS_ACKED: Final = "flight-acked"
MARK_REQUEST_WRITTEN: Final = "request-written"
"""The last request byte was handed to the kernel (user clock)."""
MARK_REQUEST_WIRE: Final = "request-wire"
"""The last request byte left on the wire (kernel clock)."""
MARK_REQUEST_ACKED: Final = "request-acked"
"""The peer's ACK covered the last request byte (kernel clock); an upper bound of the network
RTT."""
MARK_HEAD: Final = "head"
"""The final response head was complete; detail {"status"}. The instant is the stamp of its last
byte."""
MARK_INFORMATIONAL: Final = "informational"
MARK_SETTINGS: Final = "settings"
MARK_WINDOW_UPDATE: Final = "window-update"
"""detail {"direction", "stream", "increment"}."""
MARK_WINDOW_STALL: Final = "window-stall"
"""Upload had bytes left and no flow-control window; detail {"state": begin | end, "scope": stream
| connection}."""
MARK_PING_ACK: Final = "ping-ack"
"""The peer's HTTP/2 answered our PING; detail {"ping"}: its number on the connection."""
MARK_GOAWAY: Final = "goaway"
"""detail {"code", "last_stream"}."""
MARK_RESET: Final = "reset"
"""detail {"code", "direction"}."""
MARK_TRAILERS: Final = "trailers"
MARK_FRAMING_CONFLICT: Final = "framing-conflict"
"""Transfer-Encoding and Content-Length both given (RFC 9112, 6.1: possible request smuggling);
detail {"fields": [str], "kept": chunked}."""
MARK_EXCESS_BYTES: Final = "excess-bytes"
"""Bytes after the end of the last response that answer no request; detail {"bytes"}."""
MARK_MESSAGE_END: Final = "message-end"
"""HTTP framing says the response is whole."""
MARK_TRANSPORT_END: Final = "transport-end"
"""FIN, close_notify or RST; detail {"how"}."""

# --- spans: (stage, name) ---
SPAN_RUN: Final = "run"
SPAN_RESOLVE: Final = "resolve"
"""dns: getaddrinfo, our resolver, a literal or an override: the addresses that are dialled."""
SPAN_QUERY: Final = "query"
"""dns: one query of our own, off the critical path unless --resolver."""
SPAN_CONNECT: Final = "connect"
"""tcp: one connection attempt (name "connect", error says the rest); parent: the SPAN_DIAL."""
SPAN_DIAL: Final = "dial"
"""tcp: first SYN to first established connection, all attempts of happy eyeballs inside."""
SPAN_PROXY_DIAL: Final = "proxy-dial"
SPAN_PROXY_TLS: Final = "proxy-tls"
SPAN_PROXY_TUNNEL: Final = "tunnel"
"""proxy: CONNECT or SOCKS request to its answer."""
SPAN_HANDSHAKE: Final = "handshake"
"""tls: ClientHello written to our Finished written."""
SPAN_QUIC: Final = "attempt"
"""quic: one address's attempt; parent: the quic SPAN_HANDSHAKE, first datagram written to handshake
completed and certificate judged."""
SPAN_QUIC_SECOND: Final = "second-handshake"
"""quic: the handshake of a second connection, or of the try whether UDP gets through; off the
critical path, within a SPAN_SECOND."""
SPAN_UPLOAD: Final = "upload"
"""request: first request byte written to last request byte on the wire (written, where unknown)."""
SPAN_RESPONSE: Final = "response"
"""wait: last request byte on the wire to the end of the response; the head, events and arrivals of
the response belong to it."""
SPAN_REUSE: Final = "resumption"
"""tls: the handshake of the second connection that offers the first one's session; off the critical
path."""
SPAN_SECOND: Final = "second-connection"
"""tls: the whole second connection, its dial and SPAN_REUSE inside; off the critical path."""
