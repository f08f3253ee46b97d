# SPDX-License-Identifier: Apache-2.0
"""tile_position and tile_size: products in parts of the Tensor engine's array, their values and their time."""
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output

QUARTERS = ((0, 0), (64, 0), (0, 64), (64, 64))
ROUNDS = 8


@nki.jit
def sums(x, y, size):
    """Each of four sums of ROUNDS products, by turns; with a size in a quarter of the array of its own."""
    left, right = nl.load(x), nl.load(y)
    products = [nl.ndarray((64, 512), nl.float32, buffer=nl.psum) for _ in QUARTERS]
    for _ in range(ROUNDS):
        for product, place in zip(products, QUARTERS):
            nisa.nc_matmul(product, left, right, tile_position=place if size else (), tile_size=size)
    results = []
    for product in products:
        kept = nl.ndarray(product.shape, nl.float32)
        nisa.tensor_copy(kept, product)
        results.append(output(kept.shape))
        nl.store(results[-1], kept)
    return results


@nki.jit
def one(x, y, position, size, transposes=False):
    product = nl.ndarray((64, 64 if transposes else 512), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, nl.load(x), nl.load(y), tile_position=position, tile_size=size,
                   is_transpose=transposes)
    kept = nl.ndarray(product.shape, nl.float32)
    nisa.tensor_copy(kept, product)
    result = output(kept.shape)
    nl.store(result, kept)
    return result


# A chip of generation 2 has no limit of current, which would change times with the rows in use.
sums, one = sums.on("trn1"), one.on("trn1")


class ArrayTiles(DeviceTest):
    x, y = normal(64, 64), normal(64, 512)

    def test_products_in_quarters_have_the_values_of_numpy(self):
        wanted = ROUNDS * (self.x.T.astype(np.float64) @ self.y)
        for size in ((64, 64), ()):
            for got in sums(self.x, self.y, size):
                self.near(got, wanted, 1e-3)

    def test_products_in_quarters_run_at_the_same_time(self):
        # 32 products of four passes of 512 columns at 2.8 GHz take 23.4 us one after the other.
        alone = sums.profile(self.x, self.y, ()).microseconds
        at_once = sums.profile(self.x, self.y, (64, 64)).microseconds
        # At once, all sums end together, so that no copy of a result is hidden behind the other products.
        self.assertLess(at_once, alone - 0.6 * 23.4)
        self.assertGreater(at_once, alone - 0.75 * 23.4)

    def test_a_transpose_takes_a_part_of_the_array_too(self):
        identity = np.eye(64, dtype=np.float32)
        self.near(one(self.x, identity, (64, 64), (64, 64), True), self.x.T, 0)

    def test_a_part_that_the_array_does_not_have_is_refused(self):
        for position, size, words in (((32, 0), (64, 128), "begins at a multiple"),
                                      ((0, 128), (64, 64), "begins at a multiple"),
                                      ((0, 0), (48, 64), "32, 64 or 128"),
                                      ((0, 0), (32, 128), "as many partitions as the tile"),
                                      ((0, 0), (64, 32), "as many columns as the tile"),
                                      ((0, 0), (), "given together"),
                                      ((), (64, 64), "given together"),
                                      ((0, 0, 0), (64, 64), "(row, column)")):
            with self.subTest(position=position, size=size):
                self.refused(one, (self.x, self.y, position, size), words)


if __name__ == "__main__":
    unittest.main()
