"""Inputs of collectives, and results that are known without carrying them out."""

import numpy as np
import pytest

from mrc_testbed.workloads.collective import DTYPES, ELEMENT_BYTES
from mrc_testbed.workloads.element import TILE_COUNT, Inputs, reduce_into

COUNT = TILE_COUNT + 1000


def filled(inputs, dtype, rank, operation, start=0, count=COUNT):
    made = np.zeros(count, dtype)
    inputs.fill(made, start, rank, operation)
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["sum", "min", "max"])
def test_the_reduction_is_that_of_all_inputs_to_the_last_bit(dtype, reduction):
    inputs = Inputs(5, dtype, reduction, seed=3)
    total = filled(inputs, dtype, 0, 9)
    for rank in (3, 1, 4, 2):  # any order: floats are whole numbers
        reduce_into(total, filled(inputs, dtype, rank, 9), reduction)
    assert inputs.count_wrong(total, 0, None, 9) == 0
    assert inputs.count_wrong(total[700:], 700, None, 9) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_element_that_is_wrong_is_counted_in_bytes(dtype):
    inputs = Inputs(2, dtype, "sum", seed=3)
    found = filled(inputs, dtype, 1, 0)
    assert inputs.count_wrong(found, 0, 1, 0) == 0
    found.view(np.uint8)[[0, 17, -1]] ^= 0xFF
    assert inputs.count_wrong(found, 0, 1, 0) == 3


def test_what_the_operation_before_left_is_not_taken_for_this_one():
    inputs = Inputs(4, "int32", "sum", seed=3)
    stale = filled(inputs, "int32", 2, 6)
    assert inputs.count_wrong(stale, 0, 2, 7) > stale.nbytes * 0.9
    assert inputs.count_wrong(stale, 0, 1, 6) > stale.nbytes * 0.9


def test_a_stretch_is_part_of_the_same_input():
    inputs = Inputs(3, "float32", "sum", seed=1)
    whole = filled(inputs, "float32", 2, 5)
    assert np.array_equal(filled(inputs, "float32", 2, 5, start=123, count=400), whole[123:523])


def test_element_sizes_are_those_of_numpy():
    assert {name: np.dtype(name).itemsize for name in DTYPES} == ELEMENT_BYTES
