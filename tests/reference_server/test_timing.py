"""The stages before the engine, the header, the final numbers."""

from __future__ import annotations

from reference_server.engine.generation import Generation, GenerationRequest, Stages
from reference_server.timing import Timeline, final_timings


def _timeline() -> Timeline:
    times = iter([1_500_000, 1_500_000, 4_000_000])
    timeline = Timeline(1_000_000, lambda: next(times))
    for stage in ("auth", "read", "tokenize"):
        timeline.end(stage)
    return timeline


def test_each_stage_starts_where_the_one_before_ended() -> None:
    timeline = _timeline()
    assert timeline.stages == {"auth": 500_000, "read": 0, "tokenize": 2_500_000}
    assert sum(timeline.stages.values()) == timeline.last_ns - timeline.received_ns


def test_the_header_has_milliseconds() -> None:
    assert _timeline().server_timing() == b"auth;dur=0.500, read;dur=0.000, tokenize;dur=2.500"


def test_stages_that_were_not_reached_are_null() -> None:
    generation = Generation(GenerationRequest("r", 8, 5), Stages(4_000_000), 5, lambda: None)
    timings = final_timings(_timeline(), generation)
    assert timings["queue_ms"] is timings["prefill_ms"] is timings["decode_ms"] is None
    assert timings["prompt_per_second"] is timings["predicted_per_second"] is None


def test_rates_count_as_llama_cpp_does() -> None:
    stages = Stages(4_000_000, 5_000_000, 25_000_000, 125_000_000, 12, 2, 6)
    generation = Generation(GenerationRequest("r", 12, 6), stages, 5, lambda: None)
    timings = final_timings(_timeline(), generation)
    assert (timings["prompt_n"], timings["cached_n"], timings["prompt_ms"]) == (10, 2, 20)
    assert timings["prompt_per_second"] == 500
    # Five tokens came after the first, in 100 ms.
    assert timings["predicted_per_second"] == 50
