"""Means are rounded once: the quotient of the whole total and the count."""

from fractions import Fraction

import numpy as np
import pytest

from ndgather import scatter_nd


def test_the_quotient_of_doubles_is_rounded_once():
    rng = np.random.default_rng(5)
    totals, counts = rng.standard_normal(200), rng.integers(3, 200, 200)
    # The first update of a place is all of its total, and the others are zeros.
    places = np.repeat(np.arange(200), counts)
    updates = np.zeros(places.size)
    updates[np.cumsum(counts) - counts] = totals

    means = scatter_nd(
        np.ones(200), places[:, np.newaxis], updates, reduction="mean", use_init_val=False
    )

    pairs = zip(totals, counts.tolist(), strict=True)
    exact = [float(Fraction(total) / count) for total, count in pairs]
    np.testing.assert_array_equal(means, np.array(exact), strict=True)


def test_a_quotient_that_more_bits_would_round_twice():
    total, count = 8442823457555215.0, 6006  # by 80 bits it lies between two doubles
    updates = np.zeros(count)
    updates[0] = total
    means = scatter_nd(
        np.ones(1), np.zeros((count, 1), int), updates, reduction="mean", use_init_val=False
    )
    exact = float(Fraction(total) / count)
    np.testing.assert_array_equal(means, np.array([exact]), strict=True)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is double here")
def test_all_bits_of_a_long_double_stay():
    value = np.longdouble(2) ** 60 + 1
    means = scatter_nd(
        np.zeros(1, np.longdouble), [[0]], np.array([value]), reduction="mean", use_init_val=False
    )
    np.testing.assert_array_equal(means, np.array([value]), strict=True)
