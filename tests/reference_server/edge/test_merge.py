"""One exposition from several."""

from __future__ import annotations

from reference_server.edge.merge import merge

ONE = """\
# HELP a How many.
# TYPE a gauge
a{model="m"} 1
# TYPE b_seconds histogram
b_seconds_bucket{le="+Inf"} 2
b_seconds_count 2
"""
MERGED = """\
# HELP a How many.
# TYPE a gauge
a{replica="r1",model="m"} 1
a{replica="r2",model="m"} 5
# TYPE b_seconds histogram
b_seconds_bucket{replica="r1",le="+Inf"} 2
b_seconds_count{replica="r1"} 2
b_seconds_bucket{replica="r2",le="+Inf"} 2
b_seconds_count{replica="r2"} 2
"""


def test_each_metric_stands_once_with_the_samples_of_all() -> None:
    assert merge({"r1": ONE, "r2": ONE.replace(" 1\n", " 5\n")}) == MERGED


def test_what_is_no_metric_is_left_out() -> None:
    assert merge({"r1": "<html>\nnot a metric\n", "r2": ""}) == ""
