"""Sizes that are made equal and held between bounds."""

from __future__ import annotations

from ndgather.published.schema import RankAtLeast
from ndgather.published.shapes import Axes, Sizes, Unknown


def test_a_value_stands_for_its_names_and_a_name_for_unknowns():
    sizes, unknown = Sizes(), Unknown()
    assert sizes.equate(unknown, "N")
    assert sizes.dim(unknown) == "N"
    assert sizes.equate("M", "N")
    assert (sizes.dim("M"), sizes.dim("N")) == ("M", "N")
    assert sizes.equate(5, "M")
    assert sizes.dim(unknown) == sizes.dim("N") == 5
    assert not sizes.equate("N", 4)


def test_two_unknowns_are_not_equal_by_themselves():
    sizes, first, second = Sizes(), Unknown(), Unknown()
    assert sizes.find(first) is not sizes.find(second)
    assert sizes.equate(first, 3)
    assert sizes.value(second) is None


def test_bounds_that_meet_are_a_value():
    sizes = Sizes()
    assert sizes.bound("N", 2)
    assert sizes.bound("N", 0, 2)
    assert sizes.value("N") == 2
    assert not sizes.bound("N", 3)


def test_bounds_hold_for_all_that_are_equal():
    sizes = Sizes()
    assert sizes.bound("N", 2)
    assert sizes.equate("N", "M")
    assert sizes.bounds("M") == (2, None)
    assert not sizes.equate("M", 1)


def test_a_copy_is_its_own():
    sizes = Sizes()
    copied = sizes.copy()
    assert copied.equate("N", 1)
    assert sizes.value("N") is None


def test_axes_grow_where_the_rank_is_open():
    axes = Axes.of(RankAtLeast((2,)))
    assert axes.reaches(3)
    assert (axes.rank, axes.exact) == (3, False)
    assert not axes.is_of(2)
    assert axes.is_of(3)
    assert axes.exact
    assert not axes.reaches(4)
