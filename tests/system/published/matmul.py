# SPDX-License-Identifier: Apache-2.0
"""Products of matrices as the public tutorial of NKI describes them, step by step, written anew.

Each is lhs_t.T @ rhs; `lhs_t` is [K, M], `rhs` [K, N]. A tile of the result is 128 x 512. The program model-times compiles them and
compares their modelled times with the published ones.
"""
import nki
import nki.isa as nisa
import nki.language as nl

PARTS, WIDE = 128, 512


def sizes(lhs_t, rhs):
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    return depth // PARTS, rows // PARTS, columns // WIDE


def result_of(lhs_t, rhs):
    return nl.ndarray((lhs_t.shape[1], rhs.shape[1]), lhs_t.dtype, buffer=nl.shared_hbm)


def tile(matrix, row, column, width):
    """Rows [128 row, ...) and `width` columns of the matrix, in SBUF."""
    loaded = nl.ndarray((PARTS, width), matrix.dtype)
    nisa.dma_copy(loaded, matrix[PARTS * row:PARTS * (row + 1), width * column:width * (column + 1)])
    return loaded


def store(result, row, column, product):
    out = nl.ndarray(product.shape, result.dtype)
    nisa.tensor_copy(out, product, engine=nisa.engine.vector)
    width = product.shape[1]
    nisa.dma_copy(result[PARTS * row:PARTS * (row + 1), width * column:width * (column + 1)], out)


def new_product():
    return nl.ndarray((PARTS, WIDE), nl.float32, buffer=nl.psum)


@nki.jit
def tiled(lhs_t, rhs, together=1):
    """Every product loads its moving tile; a stationary one serves `together` columns of tiles."""
    result = result_of(lhs_t, rhs)
    depths, rows, columns = sizes(lhs_t, rhs)
    for m in nl.affine_range(rows):
        for first in range(0, columns, together):
            group = range(first, min(first + together, columns))
            products = [new_product() for _ in group]
            for k in nl.affine_range(depths):
                left = tile(lhs_t, k, m, PARTS)
                for n, product in zip(group, products):
                    nisa.nc_matmul(product, left, tile(rhs, k, n, WIDE))
            for n, product in zip(group, products):
                store(result, m, n, product)
    return result


@nki.jit
def hoisted(lhs_t, rhs):
    """The stationary tiles of a row of tiles are loaded once."""
    result = result_of(lhs_t, rhs)
    depths, rows, columns = sizes(lhs_t, rhs)
    for m in nl.affine_range(rows):
        left = [tile(lhs_t, k, m, PARTS) for k in range(depths)]
        for n in nl.affine_range(columns):
            product = new_product()
            for k in nl.affine_range(depths):
                nisa.nc_matmul(product, left[k], tile(rhs, k, n, WIDE))
            store(result, m, n, product)
    return result


@nki.jit
def blocked(lhs_t, rhs, block=1024):
    """Blocks of the result, each of which loads the tiles that it needs once."""
    result = result_of(lhs_t, rhs)
    depths, rows, columns = sizes(lhs_t, rhs)
    high, wide = block // PARTS, block // WIDE
    for n in nl.affine_range(columns // wide):
        right = [[tile(rhs, k, wide * n + j, WIDE) for j in range(wide)] for k in range(depths)]
        for m in nl.affine_range(rows // high):
            for i in range(high):
                left = [tile(lhs_t, k, high * m + i, PARTS) for k in range(depths)]
                for j in range(wide):
                    product = new_product()
                    for k in range(depths):
                        nisa.nc_matmul(product, left[k], right[k][j])
                    store(result, high * m + i, wide * n + j, product)
    return result


@nki.jit
def by_rows(lhs_t, rhs, block=1024):
    """The same blocks, but a transfer brings a whole row of a block: longer runs of bytes."""
    result = result_of(lhs_t, rhs)
    depths, rows, columns = sizes(lhs_t, rhs)
    high, wide = block // PARTS, block // WIDE
    for n in nl.affine_range(columns // wide):
        right = [tile(rhs, k, n, block) for k in range(depths)]
        for m in nl.affine_range(rows // high):
            left = [tile(lhs_t, k, m, block) for k in range(depths)]
            for i in range(high):
                out = nl.ndarray((PARTS, block), result.dtype)
                for j in range(wide):
                    product = new_product()
                    for k in range(depths):
                        nisa.nc_matmul(product, left[k][:, PARTS * i:PARTS * (i + 1)],
                                       right[k][:, WIDE * j:WIDE * (j + 1)])
                    nisa.tensor_copy(out[:, WIDE * j:WIDE * (j + 1)], product, engine=nisa.engine.vector)
                first = PARTS * (high * m + i)
                nisa.dma_copy(result[first:first + PARTS, block * n:block * (n + 1)], out)
    return result


@nki.jit
def deep(lhs_t, rhs, high=2048, block=1024):
    """Blocks of the depth, too: a block of the result grows in SBUF, and its loads are long."""
    result = result_of(lhs_t, rhs)
    depths, rows, columns = sizes(lhs_t, rhs)
    levels, tiles, wide = block // PARTS, high // PARTS, block // WIDE
    for n in nl.affine_range(columns // wide):
        for m in nl.affine_range(rows // tiles):
            sums = [nl.ndarray((PARTS, block), nl.float32) for _ in range(tiles)]
            for k in nl.affine_range(depths // levels):
                right = [tile(rhs, levels * k + d, n, block) for d in range(levels)]
                left = None  # There is no room for both blocks
                left = [tile(lhs_t, levels * k + d, m, high) for d in range(levels)]
                for i in range(tiles):
                    for j in range(wide):
                        product, part = new_product(), sums[i][:, WIDE * j:WIDE * (j + 1)]
                        for d in range(levels):
                            nisa.nc_matmul(product, left[d][:, PARTS * i:PARTS * (i + 1)],
                                           right[d][:, WIDE * j:WIDE * (j + 1)])
                        if k == 0:
                            nisa.tensor_copy(part, product, engine=nisa.engine.vector)
                        else:
                            nisa.tensor_tensor(part, part, product, nl.add)
            for i in range(tiles):
                first = PARTS * (tiles * m + i)
                nisa.dma_copy(result[first:first + PARTS, block * n:block * (n + 1)], sums[i])
    return result
