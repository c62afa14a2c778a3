"""PP4xx: boxes between the client and the model."""

from __future__ import annotations

from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.cause import failed
from promptpath.analysis.rules.windows import NOTABLE_SHARE
from promptpath.analysis.view import Measured
from promptpath.model.enums import EndState, Severity, Stage
from promptpath.model.names import (
    HTTP_CONTENT_DECODER,
    HTTP_END,
    HTTP_FRAMING,
    HTTP_HEADERS,
    HTTP_REDIRECT,
    PROXY,
)
from promptpath.model.units import format_duration

EVENT_STREAM = "text/event-stream"


def is_event_stream(measured: Measured) -> bool:
    """A successful response that calls itself an event stream."""
    kind = measured.headers.get("content-type", "").lower()
    return measured.status is not None and measured.status < 400 and kind.startswith(EVENT_STREAM)


def _may_be_buffered(measured: Measured) -> Because:
    headers = measured.headers
    if not is_event_stream(measured):
        return NO
    says_no = headers.get("x-accel-buffering", "").lower() == "no"
    keeps = "no-transform" in headers.get("cache-control", "").lower()
    if says_no or keeps:
        return NO
    return because(
        "neither X-Accel-Buffering: no nor Cache-Control: no-transform came with the stream",
        facts=(HTTP_HEADERS,),
    )


def _compressed(measured: Measured) -> Because:
    coding = measured.headers.get("content-encoding", "identity").lower()
    if coding in ("", "identity") or not is_event_stream(measured):
        return NO
    record = measured.facts.record(HTTP_CONTENT_DECODER)
    sizes = ""
    if record.get("encoded_bytes") and record.get("decoded_bytes"):
        sizes = f" ({record['decoded_bytes']} bytes as {record['encoded_bytes']})"
    return because(f"Content-Encoding: {coding}{sizes}", facts=(HTTP_HEADERS,))


def _undecodable(measured: Measured) -> Because:
    record, http = measured.facts.record(HTTP_CONTENT_DECODER), measured.facts.record(HTTP_END)
    error = str(record.get("error") or "")
    # Where the response itself was cut, so was its coding: that is told by PP521, or a limit.
    cut_with_it = error.endswith("cut off") and http.get("complete") is not True
    if not error or cut_with_it or measured.limit:
        return NO
    said = f"Content-Encoding: {record.get('encoding')}: {error}"
    return because(said, facts=(HTTP_CONTENT_DECODER,))


def _has_length(measured: Measured) -> Because:
    length = measured.headers.get("content-length")
    if length is None or not is_event_stream(measured):
        return NO
    return because(
        f"Content-Length: {length}: somebody had the whole stream before its head left",
        facts=(HTTP_HEADERS,),
    )


def _until_close(measured: Measured) -> Because:
    if measured.facts.text(HTTP_FRAMING) != "until-close" or not is_event_stream(measured):
        return NO
    return because("the body ends when the connection does", facts=(HTTP_FRAMING,))


def _proxy_cost(measured: Measured) -> Because:
    legs = measured.breakdown.of(Stage.PROXY)
    cost = sum(leg.duration_ns for leg in legs)
    sure = cost - sum(leg.error_ns for leg in legs)
    if not legs or any(leg.failed for leg in legs) or measured.trip_ns <= 0:
        return NO
    if sure < NOTABLE_SHARE * measured.trip_ns:
        return NO
    record = measured.facts.record(PROXY)
    return because(
        f"the {record.get('kind', '')} proxy {record.get('address', '')} took"
        f" {format_duration(cost)} before the target could be asked,"
        f" {100 * cost / measured.trip_ns:.0f} % of the time to the first token",
        spans=tuple(span.id for leg in legs for span in leg.spans),
        facts=(PROXY,),
    )


def _proxy_wants_credentials(measured: Measured) -> Because:
    if measured.status == 407:
        return because("the proxy answered 407", facts=(PROXY,))
    return failed(measured, Stage.PROXY, "credentials")


def _proxy_failed(measured: Measured) -> Because:
    return failed(measured, Stage.PROXY, but=("credentials",))


def _redirected(measured: Measured) -> Because:
    redirects = measured.facts.records(HTTP_REDIRECT)
    if not redirects:
        return NO
    final = measured.breakdown.exchanges - 1
    cost = sum(leg.duration_ns for leg in measured.breakdown.legs if leg.exchange < final)
    where = redirects[-1].get("to")
    count = f"{len(redirects)} redirects" if len(redirects) > 1 else "a redirect"
    return because(
        f"{count} to {where}: {format_duration(cost)} before the final request began",
        facts=(HTTP_REDIRECT,),
    )


def _unclean_end(measured: Measured) -> Because:
    """Everything arrived, and then the transport ended in the middle of HTTP."""
    end = measured.facts.record("http.end")
    left_open = end.get("how") in (None, "cut-by-us", "open")
    if measured.end_state is not EndState.OPEN_AFTER_MARKER or left_open:
        return NO
    return because(f"the end marker came, then {end.get('how')}", facts=("http.end",))


RULES = (
    Rule(
        code="PP401",
        title="Nothing tells proxies not to buffer the stream",
        severity=Severity.INFO,
        asks="May a proxy in front of this server hold events back?",
        decided="An event stream came with neither X-Accel-Buffering: no (nginx'"
        " ngx_http_proxy_module) nor Cache-Control: no-transform (RFC 9111, 5.2.2.6). No"
        " threshold.",
        advice="Send both from the server. Measured: nginx with its defaults holds a stream of"
        " small events to its end, and releases it at once with X-Accel-Buffering: no;"
        " no-transform keeps compressing middleware away.",
        is_not="Not proof that something buffers: nginx itself removes the header on its way.",
        condition=_may_be_buffered,
    ),
    Rule(
        code="PP402",
        title="The event stream is compressed",
        severity=Severity.WARNING,
        asks="Could a compressor hold events in its window?",
        decided="A Content-Encoding other than identity on text/event-stream. Measured:"
        " compressors that do not flush per event hold a stream of 40 small events a second to"
        " its very end.",
        advice="Exclude text/event-stream from compression, or flush after each event. Compare"
        " with --accept-encoding identity.",
        is_not="Not proof of holding: a compressor that flushes costs below 1 ms.",
        condition=_compressed,
    ),
    Rule(
        code="PP403",
        title="The event stream has a Content-Length",
        severity=Severity.WARNING,
        asks="Did somebody collect the whole stream first?",
        decided="Content-Length (RFC 9110, 8.6) on text/event-stream: it can only be known once"
        " the stream has ended. Measured: proxies that buffer whole bodies do this.",
        advice="Turn response buffering off at the box that adds it; compare with the server"
        " asked directly.",
        is_not="Not a slow model: the model had ended.",
        condition=_has_length,
    ),
    Rule(
        code="PP404",
        title="The proxy takes a notable part of the time to the first token",
        severity=Severity.WARNING,
        asks="What does going through the proxy cost?",
        decided="Its connection, TLS and tunnel are at least a tenth of the time to the first"
        " token, errors deducted.",
        advice="Compare with --proxy none where that is allowed; keep tunnels open.",
        is_not="Not the target's doing: it was not yet asked.",
        condition=_proxy_cost,
    ),
    Rule(
        code="PP405",
        title="The proxy wants credentials",
        severity=Severity.ERROR,
        asks="Does the proxy let this client through?",
        decided="407 (RFC 9110, 15.5.8), or a SOCKS method that needs a user name (RFC 1929).",
        advice="Put them in the proxy's URL, http://USER:PASSWORD@HOST:PORT; only Basic is spoken.",
        is_not="Not the endpoint's 401.",
        condition=_proxy_wants_credentials,
    ),
    Rule(
        code="PP406",
        title="The proxy does not open the way",
        severity=Severity.ERROR,
        asks="Did the proxy fail before the target was reached?",
        decided="The proxy refused, closed, did not answer, or is none.",
        advice="See its words and its log; check scheme and port; --proxy none leaves it out.",
        is_not="Not the endpoint's doing.",
        condition=_proxy_failed,
    ),
    Rule(
        code="PP407",
        title="A redirect costs a request of its own",
        severity=Severity.INFO,
        asks="Would asking the final address at once be faster?",
        decided="At least one redirect was followed (RFC 9110, 15.4).",
        advice="Use the final URL in the client's configuration.",
        is_not="Not an error.",
        condition=_redirected,
    ),
    Rule(
        code="PP408",
        title="The stream's end is the connection's end",
        severity=Severity.INFO,
        asks="Could HTTP tell a cut stream from a whole one?",
        decided="No Content-Length and no chunked coding (RFC 9112, 6.3, rule 8). Measured:"
        " nearly every proxy passes such a cut on as a clean end.",
        advice="Send chunked, or HTTP/2. Until then only the dialect's end marker says that all"
        " came.",
        is_not="Not a cut.",
        condition=_until_close,
    ),
    Rule(
        code="PP409",
        title="The connection broke after the end marker",
        severity=Severity.WARNING,
        asks="Did everything arrive, though HTTP says it did not?",
        decided="The dialect's terminal event was seen, and the transport ended within the"
        " response.",
        advice="Look at who closes: a proxy's time limit or a crashing worker. Nothing was lost"
        " this time.",
        is_not="Not a truncated answer.",
        condition=_unclean_end,
    ),
    Rule(
        code="PP410",
        title="The compressed body cannot be read",
        severity=Severity.ERROR,
        asks="Does what came decode by its Content-Encoding?",
        decided="The coding (RFC 9110, 8.4) is unknown here, or its data is corrupt, or ends before"
        " it is whole although the response is.",
        advice="Ask without compression (--accept-encoding identity, the default). If it comes"
        " nevertheless, the box that compresses is at fault.",
        is_not="Not a cut stream by itself: HTTP may call the response whole.",
        condition=_undecodable,
    ),
)
