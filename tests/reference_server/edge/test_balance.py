"""Which backend gets a request."""

from __future__ import annotations

from reference_server.edge.balance import Backend, Balancer


def three() -> Balancer:
    return Balancer([Backend(name, "127.0.0.1", 1) for name in "abc"])


def test_the_one_with_the_fewest_under_way_is_taken_and_equal_ones_in_turn() -> None:
    balancer = three()
    picked = []
    for _ in range(6):
        backend = balancer.pick()
        assert backend is not None
        backend.outstanding += 1
        backend.served += 1
        picked.append(backend.name)
    assert picked == list("abcabc")
    balancer.backends[1].outstanding = 0
    assert balancer.pick() is balancer.backends[1]


def test_two_failed_checks_take_it_out_and_a_good_one_brings_it_back() -> None:
    balancer = three()
    first = balancer.backends[0]
    balancer.checked(first, False)
    assert balancer.pick() is first
    balancer.checked(first, False)
    assert balancer.pick() is balancer.backends[1]
    balancer.checked(first, True)
    assert balancer.pick() is first


def test_a_refused_connection_takes_it_out_at_once() -> None:
    balancer = three()
    for backend in balancer.backends:
        balancer.refused(backend)
    assert balancer.pick() is None


def test_the_ones_already_tried_are_left_out() -> None:
    balancer = three()
    assert balancer.pick(without=balancer.backends[:2]) is balancer.backends[2]
    assert balancer.pick(without=balancer.backends) is None
