# SPDX-License-Identifier: Apache-2.0
"""What release notes say that the vendor's own simulator once had wrong, each by its values.

Its other points have tests elsewhere: casts that round to even and saturate, and predicates, in
elementwise_test; overlapping accumulation, absent and repeated values of nc_find_index8, and rows out
of bounds in kernels_test; double_row and num_elem_per_idx of local_gather in calls_test.
"""
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output


class OnceWrong(DeviceTest):
    def test_equal_values_are_replaced_from_the_last_of_the_eight_to_the_first(self):
        @nki.jit
        def kernel(x, eight):
            y, at = output(x.shape), output((1, 8), nl.uint32)
            out, places = nl.ndarray(x.shape, nl.float32), nl.ndarray((1, 8), nl.uint32)
            nisa.nc_match_replace8(out, nl.load(x), nl.load(eight), -1.0, dst_idx=places)
            nl.store(y, out)
            nl.store(at, places)
            return y, at

        x = np.array([[5, 3, 5, 2, 5, 3, 1, 0, 9, 9]], np.float32)
        eight = np.array([[9, 5, 5, 3, 7, 2, 1, 0]], np.float32)
        out, places = kernel(x, eight)
        # The second 5 takes the first place, the first 5 the next one; the third one stays.
        np.testing.assert_array_equal(places, [[8, 2, 0, 1, 2**32 - 1, 3, 6, 7]])
        np.testing.assert_array_equal(out, [[-1, -1, -1, -1, 5, 3, -1, -1, -1, 9]])

    def test_a_sum_may_lie_in_the_tile_that_it_sums(self):
        @nki.jit
        def kernel(x):
            y, tile = output(x.shape), nl.load(x)
            nisa.activation_reduce(tile, nl.square, tile, nl.add, tile[:, 0:1])
            nl.store(y, tile)
            return y

        x = normal(64, 40)
        wanted = x.astype(np.float64)**2
        total = wanted.sum(1)
        wanted[:, 0] = total
        self.near(kernel(x), wanted, 1e-4)

    def test_predicate_and_source_may_have_other_dimensions_of_as_many_elements(self):
        @nki.jit
        def kernel(x, y, mask):
            result, tile = output((32, 24)), nl.load(x)
            nisa.tensor_copy_predicated(tile.reshape((32, 4, 6)), nl.load(y).reshape((32, 2, 12)),
                                        nl.load(mask))
            nl.store(result, tile)
            return result

        x, y = normal(32, 24), normal(32, 24)
        mask = np.random.default_rng(3).integers(0, 2, (32, 24)).astype(np.uint8)
        self.near(kernel(x, y, mask), np.where(mask, y, x), 0)

    def test_products_that_overlap_in_part_of_a_tile_add_up_there_only(self):
        @nki.jit
        def kernel(a, b):
            y, product = output((32, 96)), nl.ndarray((32, 96), nl.float32, buffer=nl.psum)
            left, right = nl.load(a), nl.load(b)
            for first in (0, 32, 16):
                nisa.nc_matmul(product[:, first:first + 64], left, right[:, first:first + 64])
            nl.store(y, product)
            return y

        a, b = normal(64, 32), normal(64, 96)
        times = np.zeros(96)
        for first in (0, 32, 16):
            times[first:first + 64] += 1
        self.near(kernel(a, b), (a.astype(np.float64).T @ b) * times, 1e-4)

    def test_casts_of_large_and_halved_numbers(self):
        @nki.jit
        def kernel(x):
            results = []
            for kind in (nl.int8, nl.uint8, nl.int16, nl.int32):
                y, tile = output(x.shape, kind), nl.ndarray(x.shape, kind)
                nisa.tensor_copy(tile, nl.load(x))
                nl.store(y, tile)
                results.append(y)
            return results

        x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 300, -300, 4e4, -4e4, 3e9, -3e9]],
                     np.float32)
        for got, (least, most) in zip(kernel(x), ((-128, 127), (0, 255), (-2**15, 2**15 - 1),
                                                  (-2**31, 2**31 - 1))):
            np.testing.assert_array_equal(got, np.clip(np.rint(x.astype(np.float64)), least, most))


if __name__ == "__main__":
    unittest.main()
