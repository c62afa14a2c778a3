"""PP5xx, first half: what the gateway answers, and how HTTP carries it."""

from __future__ import annotations

from promptpath.analysis.facts import number
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.cause import failed
from promptpath.analysis.view import Measured
from promptpath.model.enums import EndState, Severity, Stage
from promptpath.model.names import (
    DNS_HTTPS,
    HTTP_ALT_SVC,
    HTTP_CONTENT_DECODER,
    HTTP_END,
    HTTP_ERROR_BODY,
    HTTP_HEADERS,
    HTTP_RATE_LIMIT,
    HTTP_STATUS,
    HTTP_VERSION,
    MARK_GOAWAY,
    MARK_RESET,
    QUIC_CLOSE,
    STREAM_ERROR,
    STREAM_FRAMING,
    TLS_ALPN,
    TLS_ALPN_OFFERED,
)


def _status(measured: Measured, *wanted: int) -> Because:
    status = measured.status
    if status is None or status not in wanted:
        return NO
    return because(_words(measured, status), facts=(HTTP_STATUS,))


def _words(measured: Measured, status: int) -> str:
    """The status with what the body says of it."""
    body = measured.facts.record(HTTP_ERROR_BODY)
    parts = [body.get(name) for name in ("type", "code", "message")]
    said = ": ".join(str(part) for part in parts if part)
    return f"status {status}" + (f", {said}" if said else "")


def _no_access(measured: Measured) -> Because:
    return _status(measured, 401, 403)


def _not_found(measured: Measured) -> Because:
    return _status(measured, 404, 405, 410)


def _too_large(measured: Measured) -> Because:
    return _status(measured, 413, 414, 431)


def _limited(measured: Measured) -> Because:
    found = _status(measured, 429)
    if not found:
        return NO
    wait = number(measured.facts.record(HTTP_RATE_LIMIT).get("retry_after_s"))
    said = "no Retry-After" if wait is None else f"Retry-After: {wait:g} s"
    return because(f"{found[0].text}; {said}", facts=(HTTP_STATUS, HTTP_RATE_LIMIT))


def _server_error(measured: Measured) -> Because:
    return _status(measured, *range(500, 600))


def _client_error(measured: Measured) -> Because:
    named = {401, 403, 404, 405, 407, 410, 413, 414, 429, 431}
    return _status(measured, *(status for status in range(400, 500) if status not in named))


def _redirect(measured: Measured) -> Because:
    found = _status(measured, 300, 301, 302, 303, 305, 307, 308)
    if found and "location" not in measured.headers:
        return because(f"{found[0].text}; no Location", facts=(HTTP_STATUS, HTTP_HEADERS))
    return found


def _content_type(measured: Measured) -> str:
    return measured.headers.get("content-type", "").split(";")[0].strip().lower()


def _asked_for_stream(measured: Measured) -> bool:
    """A prompt was sent and accepted: a stream is what was asked for."""
    accepted = measured.status is not None and 200 <= measured.status < 300
    return accepted and measured.plan.method == "POST"


def _html(measured: Measured) -> Because:
    html = _content_type(measured) in ("text/html", "application/xhtml+xml")
    if not html or not _asked_for_stream(measured):
        return NO
    return because(f"status {measured.status} with Content-Type text/html", facts=(HTTP_STATUS,))


def _json(measured: Measured) -> Because:
    is_json = measured.facts.text(STREAM_FRAMING) == "json"
    if not is_json or not _asked_for_stream(measured) or measured.facts.record(STREAM_ERROR):
        return NO
    return because("one JSON document came instead of a stream", facts=(STREAM_FRAMING,))


def _no_stream(measured: Measured) -> Because:
    """Neither events nor a page nor a JSON document: nothing that the other rules name."""
    framing = measured.facts.text(STREAM_FRAMING)
    if not _asked_for_stream(measured) or framing in ("sse", "ndjson", "json") or _html(measured):
        return NO
    if measured.facts.record(HTTP_CONTENT_DECODER).get("error") or measured.limit:
        return NO
    kind = f"Content-Type {_content_type(measured)}" if _content_type(measured) else "no type"
    what = f"a body with {kind}" if framing else "no body"
    return because(f"status {measured.status} and {what}", facts=(HTTP_STATUS, HTTP_HEADERS))


def _http2_broke(measured: Measured) -> Because:
    """GOAWAY with an error, or RST_STREAM, before the response was whole."""
    http = measured.facts.record(HTTP_END)
    if http.get("complete") is True:
        return NO
    for name in (MARK_RESET, MARK_GOAWAY):
        for mark in measured.trace.marks_of(name):
            sent_by_us = mark.detail.get("direction") == "sent"
            if not sent_by_us and (name == MARK_RESET or mark.detail.get("code") not in (0, None)):
                code = mark.detail.get("code")
                return because(f"{name} with code {code}", facts=(HTTP_END,))
    return NO


def _reset(measured: Measured) -> Because:
    http = measured.facts.record(HTTP_END)
    if http.get("how") != "rst" or measured.status is None:
        return NO
    if measured.facts.records(QUIC_CLOSE):
        return NO  # told by PP227 and PP228, which know more
    return because("TCP RST within the response", facts=(HTTP_END,))


def _not_kept(measured: Measured) -> Because:
    """The server says that this connection takes no other request."""
    if measured.status is None or measured.facts.record(HTTP_END).get("complete") is not True:
        return NO
    options = measured.headers.get("connection", "").lower().split(",")
    if "close" in [option.strip() for option in options]:
        return because("Connection: close came with the response", facts=(HTTP_HEADERS,))
    if measured.facts.text(HTTP_VERSION) == "1.0":
        return because("the response is HTTP/1.0", facts=(HTTP_VERSION,))
    if any(True for _ in measured.trace.marks_of(MARK_GOAWAY)):
        return because("GOAWAY came with the response", facts=(HTTP_END,))
    return NO


def _http1(measured: Measured) -> Because:
    offered = measured.facts.last(TLS_ALPN_OFFERED)
    agreed = measured.facts.last(TLS_ALPN)
    if not isinstance(offered, list) or "h2" not in offered or agreed not in (None, "http/1.1"):
        return NO
    if not str(measured.facts.last(HTTP_VERSION) or "").startswith("1."):
        return NO
    chosen = f"chose {agreed}" if agreed else "chose no protocol"
    return because(f"h2 was offered by ALPN, the server {chosen}", facts=(TLS_ALPN,))


def _http3(measured: Measured) -> Because:
    offers: list[str] = []
    services = measured.facts.last(HTTP_ALT_SVC)
    for service in services if isinstance(services, list) else ():
        if isinstance(service, dict) and str(service.get("protocol", "")).startswith("h3"):
            offers.append("Alt-Svc")
    for record in measured.facts.records(DNS_HTTPS):
        alpn = record.get("alpn")
        if isinstance(alpn, list) and "h3" in alpn:
            offers.append("the HTTPS record")
    names = " and ".join(dict.fromkeys(offers))
    return because(f"h3 is offered by {names}", facts=(HTTP_ALT_SVC, DNS_HTTPS)) if offers else NO


def _no_response(measured: Measured) -> Because:
    if measured.end_state is not EndState.NO_RESPONSE or measured.limit:
        return NO
    return failed(measured, Stage.WAIT) or failed(measured, Stage.REQUEST)


RULES = (
    Rule(
        code="PP501",
        title="The endpoint does not accept the key",
        severity=Severity.ERROR,
        asks="Is this client allowed to ask?",
        decided="Status 401 or 403 (RFC 9110, 15.5.2 and 15.5.4).",
        advice="Check --key-env and the key's project, and whether a gateway strips the header.",
        is_not="Not a proxy's 407 (PP405).",
        condition=_no_access,
    ),
    Rule(
        code="PP502",
        title="There is no such endpoint or model",
        severity=Severity.ERROR,
        asks="Does this path take this request?",
        decided="Status 404, 405 or 410 (RFC 9110, 15.5.5, 15.5.6 and 15.5.11).",
        advice="Check the URL's path (/v1/chat/completions, /v1/messages) and --model.",
        is_not="Not a dead server: it answered.",
        condition=_not_found,
    ),
    Rule(
        code="PP503",
        title="The request is too large",
        severity=Severity.ERROR,
        asks="Did a box refuse the request for its size?",
        decided="Status 413, 414 or 431 (RFC 9110, 15.5.14 and 15.5.15; RFC 6585, section 5).",
        advice="Find the box with the limit: nginx' client_max_body_size is 1 MiB by default.",
        is_not="Not the model's context limit: that is usually a 400.",
        condition=_too_large,
    ),
    Rule(
        code="PP504",
        title="The rate limit is reached",
        severity=Severity.ERROR,
        asks="Is it quota, not speed?",
        decided="Status 429 (RFC 6585, section 4); Retry-After is RFC 9110, 10.2.3.",
        advice="Wait as long as Retry-After says, or raise the quota; the limit headers are in"
        " the trace.",
        is_not="Not a slow model.",
        condition=_limited,
    ),
    Rule(
        code="PP505",
        title="The server or a gateway failed",
        severity=Severity.ERROR,
        asks="Whose failure is it?",
        decided="A 5xx status (RFC 9110, 15.6). 502 and 504 are a gateway's word about its"
        " upstream.",
        advice="The Server and Via headers and the request id in the trace say who to ask.",
        is_not="Not the client's fault.",
        condition=_server_error,
    ),
    Rule(
        code="PP506",
        title="The request was refused",
        severity=Severity.ERROR,
        asks="What does the endpoint not like?",
        decided="Any other 4xx status (RFC 9110, 15.5).",
        advice="Read the message: a parameter, the context length, or content rules.",
        is_not="Not an outage.",
        condition=_client_error,
    ),
    Rule(
        code="PP507",
        title="A web page came instead of a stream",
        severity=Severity.ERROR,
        asks="Did somebody else answer?",
        decided="A prompt was answered with success and Content-Type text/html.",
        advice="A captive portal, a login page, a block page, or the wrong path: read the page.",
        is_not="Not the model's answer.",
        condition=_html,
    ),
    Rule(
        code="PP508",
        title="The answer came as one JSON document",
        severity=Severity.WARNING,
        asks="Was streaming refused or never asked for?",
        decided="A prompt was answered with success and a JSON body that is no stream.",
        advice='Send "stream": true in --data, or find the gateway that drops it. Token times'
        " need a stream.",
        is_not="Not a buffering proxy: it would keep the stream's form.",
        condition=_json,
    ),
    Rule(
        code="PP509",
        title="No response came",
        severity=Severity.ERROR,
        asks="Did the far side take the request and then give up?",
        decided="The connection was made; it was closed, reset or broke HTTP before a response"
        " head.",
        advice="Try --http 1.1 and a smaller body; look for a gateway that closes on this request.",
        is_not="Not a failed connection.",
        condition=_no_response,
    ),
    Rule(
        code="PP510",
        title="HTTP/2 ended the stream",
        severity=Severity.ERROR,
        asks="Which side gave up, and why?",
        decided="RST_STREAM, or GOAWAY with an error code, before the response was whole (RFC"
        " 9113, 6.4, 6.8; codes in section 7).",
        advice="Code 2 (INTERNAL_ERROR) is what nginx, Envoy and nghttpx send when their"
        " upstream timed out or died (measured); code 8 (CANCEL) is somebody's decision.",
        is_not="Not a lost connection.",
        condition=_http2_broke,
    ),
    Rule(
        code="PP511",
        title="The connection was reset within the response",
        severity=Severity.ERROR,
        asks="Who tore the connection down?",
        decided="TCP RST (RFC 9293, 3.5.2) after the response head.",
        advice="A crashed process, or a middlebox whose time is up. Repeat: the same second"
        " names a timer.",
        is_not="Not an orderly end.",
        condition=_reset,
    ),
    Rule(
        code="PP512",
        title="HTTP/1.1 though HTTP/2 was offered",
        severity=Severity.INFO,
        asks="Does every parallel prompt need a connection of its own?",
        decided="ALPN (RFC 7301) offered h2 and the server took http/1.1 or nothing.",
        advice="Enable HTTP/2 at the front end. If the server itself has it, a box in between"
        " ends TLS.",
        is_not="Not slower for a single prompt.",
        condition=_http1,
    ),
    Rule(
        code="PP513",
        title="HTTP/3 is on offer",
        severity=Severity.INFO,
        asks="Could QUIC be used?",
        decided="Alt-Svc (RFC 7838) or the HTTPS record (RFC 9460) names h3.",
        advice="On lossy paths QUIC keeps one lost packet from holding up everything else.",
        is_not="Not used in this run.",
        condition=_http3,
    ),
    Rule(
        code="PP514",
        title="The connection is not kept for another prompt",
        severity=Severity.INFO,
        asks="Does every prompt pay for name, TCP and TLS again?",
        decided="Connection: close (RFC 9112, 9.6), HTTP/1.0, or GOAWAY (RFC 9113, 6.8) with a"
        " complete response.",
        advice="Enable keep-alive at the server or proxy that closes; the dns, tcp and tls hops"
        " show what it costs.",
        is_not="Not a broken response: it was whole.",
        condition=_not_kept,
    ),
    Rule(
        code="PP515",
        title="The answer is no stream",
        severity=Severity.WARNING,
        asks="Did an API answer at all?",
        decided="A prompt was answered with success, and with neither events, a JSON document nor a"
        " web page.",
        advice="Check the path and the dialect; the response headers in the trace tell who"
        " answered.",
        is_not="Not a stream without text: no stream came.",
        condition=_no_stream,
    ),
    Rule(
        code="PP516",
        title="The redirect leads nowhere",
        severity=Severity.ERROR,
        asks="Where does the endpoint send its clients?",
        decided="The last status is a redirect (RFC 9110, 15.4) and was not followed: Location is"
        " missing or no http or https URL, or five redirects came before.",
        advice="Read Location in the trace's response headers (-o trace.json), and name the right"
        " URL yourself; a loop is the server's to mend.",
        is_not="Not an answer, though nothing failed.",
        condition=_redirect,
    ),
)
