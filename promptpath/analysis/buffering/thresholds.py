"""The few numbers that the buffering answers rest on, each with its source.

"Measured" means the labelled recordings that docs/concepts/buffering.md names; there it also says
how little the answers change when a number does.
"""

from __future__ import annotations

from promptpath.model.units import NS_PER_MS

PATTERN = 3
"""Bursts that make a pattern; one or two are a stall (measured: stalls of 80 to 450 ms when other
work began on the machine)."""
DISTINCT = 2
"""A first burst is of another kind than the rest when it has twice the events of any of these."""
MIN_EVENTS = 8
"""Fewer say nothing about a rhythm; measured: the classifier tuned on 1,610 recorded streams
refuses shorter ones."""
SINGLE = 1.35
"""Events per frame up to which frames count as one event each; measured: 1.08 at most on healthy
paths, 1.29 where a proxy merges two now and then, 2.5 and more where frames hold groups."""
COLLECTED = 1.5
"""From here on frames, records or bursts hold several; between SINGLE and this neither is said."""
MOST = 0.5
"""A majority."""
NOTABLE = 0.3
"""Of bursts ending within an event. Senders flush whole events, so a buffer that cuts anywhere
shows in nearly all bursts (measured: 0.95 and more), one that does not in few (0.05 at most)."""
NEARLY_ALL = 0.8
"""Leaves room for the odd burst that two bursts made; measured: 0.95 and more where it is meant."""
STEADY = 0.15
"""Coefficient of variation of a quantity that is fixed; measured: medians of 0.00 for buffers'
bytes, 0.00 for timers' gaps on loopback, 0.46 for gaps of speculative decoding."""
HARMLESS_NS = 300 * NS_PER_MS
"""An answer that comes at once this soon harms nobody: three times the pause people notice
(0.1 s: Miller 1968; Nielsen 1993, chapter 5)."""
DRAIN_NS = 100 * NS_PER_MS
"""A finished body that takes longer than people notice (0.1 s, same source) to hand over is not
"at once"; measured: 8.9 ms at most for 400 kB, transport aside."""
INITIAL_WINDOW = 14_600
"""Bytes TCP sends at once at the start (RFC 6928: ten segments)."""
MIN_BUFFER = 2048
"""The smallest power of two that is a buffer somewhere (measured: 2,048 to 65,536)."""
TLS_BIG = 4096
"""A record this large holds many small events; nginx' ssl_buffer_size and OpenSSL's records are 4
to 16 KiB (RFC 8446, 5.1: 2^14 at most)."""
CORK_NS = 200 * NS_PER_MS
"""How long Linux keeps a corked segment at most (tcp(7), TCP_CORK: 200 ms)."""
LOSSY = 0.15
"""Share of bursts with an out-of-order segment above which loss explains them; measured: 0.06 at
most where a cork does on a lossy link, 0.65 and more where loss does."""
ALONE = 0.1
"""How far from one the number of segments an event may be where each event has its own."""
FEW_FULL = 0.2
"""Share of events in bursts of several below which less than a tenth can have been held: with two
in a burst, half of these."""
