"""The shape of a stream's bursts in a few numbers: what the decisions compare.

Every number is None when the stream does not have what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from promptpath.analysis.buffering.bursts import Burst, find_bursts, mode, variation
from promptpath.analysis.buffering.evidence import Evidence
from promptpath.analysis.stats import median
from promptpath.model.units import Ns

FULL_SEGMENT = 0.75
"""Of the path's MTU: what full segments carry at least. Headers take 40 to 72 bytes of it, a tunnel
that the kernel does not know of as much as leaves 1,280 of 1,500 (RFC 8200, 5)."""
USUAL_MTU = 1500
"""Ethernet's, where the kernel tells none."""


@dataclass(frozen=True)
class Shape:
    """One stream's bursts and what they have in common. `core` leaves out the first and the last,
    which a buffer's start and the stream's end distort."""

    evidence: Evidence

    @cached_property
    def bursts(self) -> list[Burst]:
        """All bursts in order of time."""
        return find_bursts(self.evidence)

    @cached_property
    def full(self) -> list[Burst]:
        """The bursts in which an event ended."""
        return [burst for burst in self.bursts if burst.events]

    @cached_property
    def multi(self) -> list[Burst]:
        """The bursts in which several events ended."""
        return [burst for burst in self.bursts if burst.events >= 2]

    @cached_property
    def core(self) -> list[Burst]:
        """The bursts without the first and the last."""
        return self.bursts[1:-1] if len(self.bursts) > 3 else self.bursts[:-1]

    @property
    def events(self) -> int:
        """Content events."""
        return len(self.evidence.events)

    @property
    def per_burst(self) -> float:
        """Events per burst that completed one."""
        return self.events / max(1, len(self.full))

    @cached_property
    def together(self) -> float:
        """Share of the events that came in bursts of several."""
        return sum(burst.events for burst in self.multi) / max(1, self.events)

    @property
    def span_ns(self) -> Ns:
        """First to last event."""
        at = self.evidence.events.at_ns
        return at[-1] - at[0]

    @property
    def waited_ns(self) -> Ns:
        """From the request's last byte to the first event."""
        return self.evidence.events.at_ns[0] - self.evidence.asked_ns

    # -- layers ----------------------------------------------------------------------------------

    @cached_property
    def event_bytes(self) -> float:
        """Body bytes of an average event, after decoding."""
        return self.evidence.body_bytes / max(1, self.evidence.framed_events)

    @property
    def compressed(self) -> bool:
        """The body came with a content coding."""
        coding = self.evidence.headers.get("content-encoding", "identity").strip().lower()
        return coding not in ("", "identity")

    @cached_property
    def first_frame_events(self) -> float:
        """About how many events the first HTTP frame held (identity coding)."""
        frames = self.evidence.frames
        return frames[0] / self.event_bytes if frames and self.event_bytes else 0.0

    @cached_property
    def per_frame(self) -> float | None:
        """Events per HTTP frame, the first frame left out where it can be: a box that holds the
        beginning only makes one large frame and then small ones."""
        frames, events = self.evidence.frames, self.evidence.framed_events
        if not frames:
            return None
        if self.compressed or len(frames) < 3:
            return events / len(frames)
        return max(0.0, events - self.first_frame_events) / (len(frames) - 1)

    @property
    def per_record(self) -> float | None:
        """Events per TLS record."""
        records = self.evidence.records
        return self.evidence.framed_events / len(records) if records else None

    @property
    def frames_per_burst(self) -> float | None:
        """HTTP frames per burst: above 1 when something below HTTP made them travel together."""
        frames = self.evidence.frames
        return len(frames) / max(1, len(self.full)) if frames else None

    @cached_property
    def frame_mode(self) -> tuple[int, float]:
        """The most frequent size of a frame and its share; the last frame is a remainder."""
        frames = self.evidence.frames
        return mode(frames[:-1] if len(frames) > 3 else frames)

    @cached_property
    def segments_per_event(self) -> float | None:
        """TCP segments per event where several came together; None without a counter."""
        found = [b.segments / b.events for b in self.multi if b.segments]
        return median(found) if found else None

    @cached_property
    def largest_segment(self) -> int:
        """Most bytes a read of one segment brought."""
        reads = self.evidence.reads
        sizes = (s for s, n in zip(reads.size, reads.segments, strict=True) if n == 1)
        return max(sizes, default=0)

    @property
    def full_segment(self) -> int | None:
        """Bytes of a full segment; None where none was seen."""
        full = FULL_SEGMENT * (self.evidence.mtu or USUAL_MTU)
        return self.largest_segment if self.largest_segment >= full else None

    def fills_segments(self, burst: Burst) -> bool:
        """The burst is made of full segments: if it ends within an event, TCP cut there."""
        most = self.full_segment
        return most is not None and burst.size > 0 and burst.size % most == 0

    # -- rhythm ----------------------------------------------------------------------------------

    @cached_property
    def gaps(self) -> list[int]:
        """From the start of a burst to the start of the next, the last (a remainder) left out."""
        starts = [burst.start_ns for burst in self.bursts]
        found = [after - before for before, after in pairwise(starts)]
        return found[:-1] if len(found) > 3 else found

    @cached_property
    def median_gap_ns(self) -> float:
        """Middle gap; 0 without gaps."""
        return median(self.gaps) if self.gaps else 0.0

    @cached_property
    def gap_variation(self) -> float:
        """How unequal the gaps are (coefficient of variation)."""
        return variation(self.gaps)

    @cached_property
    def size_variation(self) -> float:
        """How unequal the bursts' bytes are."""
        return variation([burst.size for burst in self.core])

    @cached_property
    def count_variation(self) -> float:
        """How unequal the bursts' event counts are."""
        return variation([burst.events for burst in self.core])

    @cached_property
    def mid_event(self) -> float:
        """Share of core bursts that end within an event."""
        return _share([burst.pending > 0 for burst in self.core])

    @cached_property
    def cut_mid_event(self) -> float:
        """The same without those that TCP's own segmentation cut."""
        return _share([b.pending > 0 and not self.fills_segments(b) for b in self.core])

    @cached_property
    def follows(self) -> float:
        """Correlation of a burst's event count with the gap before it, -1..1; 0 for too few. High
        where events pile up while somebody waits, low where they are made together."""
        pairs = [
            (float(after.start_ns - before.start_ns), float(after.events))
            for before, after in pairwise(self.bursts)
            if after.events
        ][:-1]
        if len(pairs) < 3:
            return 0.0
        mean_gap = sum(gap for gap, _ in pairs) / len(pairs)
        mean_count = sum(count for _, count in pairs) / len(pairs)
        both = sum((gap - mean_gap) * (count - mean_count) for gap, count in pairs)
        gaps = sum((gap - mean_gap) ** 2 for gap, _ in pairs)
        counts = sum((count - mean_count) ** 2 for _, count in pairs)
        return float(both / (gaps * counts) ** 0.5) if gaps > 0 and counts > 0 else 0.0

    # -- loss and lateness -----------------------------------------------------------------------

    @cached_property
    def out_of_order(self) -> int:
        """Segments that came out of order."""
        return sum(burst.ooo for burst in self.bursts)

    @cached_property
    def lossy_bursts(self) -> float:
        """Share of bursts with several events in which a segment was out of order."""
        return _share([burst.ooo > 0 for burst in self.multi])


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found) if found else 0.0
