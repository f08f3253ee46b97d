# SPDX-License-Identifier: Apache-2.0
"""Kernels that are measured, each with what one NumPy call for each instruction computes."""
import math

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


def output(shape, dtype):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)


def made(body):
    """A kernel of one 128 x 512 tile: body(tile, out) computes the result's tile."""
    @nki.jit
    def kernel(x):
        y, tile, out = output(x.shape, x.dtype), nl.load(x), nl.ndarray(x.shape, x.dtype)
        body(tile, out)
        nl.store(y, out)
        return y

    kernel.__name__ = kernel.function.__name__ = body.__name__
    return kernel


def column(tile):
    return nl.ndarray((tile.shape[0], 1), nl.float32)


def scaled(tile, out):
    nisa.tensor_scalar(out, tile, nl.multiply, 1.5, op1=nl.add, operand1=0.25)


def numpy_scaled(x):
    return x * np.float32(1.5) + np.float32(0.25)


def product(tile, out):
    nisa.tensor_tensor(out, tile, tile, nl.multiply)


def numpy_product(x):
    return x * x


def softmax(tile, out):
    peak, total = column(tile), column(tile)
    nisa.tensor_reduce(peak, nl.maximum, tile, axis=1, negate=True)
    nisa.activation_reduce(out, nl.exp, tile, nl.add, total, bias=peak)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, out, nl.multiply, total)


def numpy_softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e * (1 / e.sum(1, keepdims=True))


def rms_norm(tile, out):
    total = column(tile)
    nisa.activation_reduce(out, nl.square, tile, nl.add, total)
    nisa.tensor_scalar(total, total, nl.multiply, 1 / 512, op1=nl.add, operand1=1e-6)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(out, tile, nl.multiply, total)


def numpy_rms_norm(x):
    return x * (1 / np.sqrt((x * x).sum(1, keepdims=True) * np.float32(1 / 512) + np.float32(1e-6)))


def layer_norm(tile, out):
    parts, both = nl.ndarray((128, 6), nl.float32), nl.ndarray((128, 2), nl.float32)
    nisa.bn_stats(parts, tile)
    nisa.bn_aggr(both, parts)
    spread = column(tile)
    nisa.activation(spread, nl.rsqrt, both[:, 1:2], bias=1e-6)
    nisa.tensor_scalar(out, tile, nl.subtract, both[:, 0:1], op1=nl.multiply, operand1=spread)


def numpy_layer_norm(x):
    return (x - x.mean(1, keepdims=True)) * (1 / np.sqrt(x.var(1, keepdims=True) + np.float32(1e-6)))


def gelu(tile, out):
    nisa.activation(out, nl.gelu_apprx_tanh, tile)


def numpy_gelu(x):
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


def silu_gate(tile, out):
    nisa.activation(out, nl.silu, tile)
    nisa.tensor_tensor(out, out, tile, nl.multiply)


def numpy_silu_gate(x):
    return x / (1 + np.exp(-x)) * x


def running_sum(tile, out):
    ones = nl.ndarray(tile.shape, nl.float32)
    nisa.memset(ones, 1.0)
    nisa.tensor_tensor_scan(out, ones, tile, 0.0, nl.multiply, nl.add)


def numpy_running_sum(x):
    return np.cumsum(np.ones_like(x) * x, 1)


def squared(tile, out):
    """tile @ tile.T, four products of depth 128, in the first 128 columns."""
    nisa.memset(out, 0.0)
    gram = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    for k in range(4):
        turned = nl.ndarray((128, 128), tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(turned, tile[:, 128 * k:128 * k + 128])
        part = nl.ndarray((128, 128), tile.dtype)
        nisa.tensor_copy(part, turned)
        nisa.nc_matmul(gram, part, part)
    nisa.tensor_copy(out[:, 0:128], gram)


def numpy_squared(x):
    out, gram = np.zeros_like(x), np.zeros((128, 128), np.float32)
    for k in range(4):
        part = np.ascontiguousarray(x[:, 128 * k:128 * k + 128].T)
        gram += part.T @ part
    out[:, :128] = gram
    return out


def largest(tile, out):
    eight = nl.ndarray((128, 8), tile.dtype)
    nisa.memset(out, 0.0)
    nisa.max8(eight, tile)
    nisa.tensor_copy(out[:, 0:8], eight)


def numpy_largest(x):
    out = np.zeros_like(x)
    out[:, :8] = -np.sort(np.partition(-x, 8, 1)[:, :8], 1)
    return out


BODIES = (scaled, product, softmax, rms_norm, layer_norm, gelu, silu_gate, running_sum, squared, largest)
PEERS = tuple(globals()["numpy_" + body.__name__] for body in BODIES)


@nki.jit
def rows_softmax(x):
    y = output(x.shape, x.dtype)
    for row in range(0, x.shape[0], 128):
        tile, out = nl.load(x[row:row + 128]), nl.ndarray((128, x.shape[1]), x.dtype)
        softmax(tile, out)
        nl.store(y[row:row + 128], out)
    return y


@nki.jit
def attention(q, k, v):
    """Softmax(q.T k) v of 2048 positions; q and k [128, positions], v [positions, 128]."""
    size = q.shape[1]
    y = output((size, 128), nl.float32)
    keys = nl.load(k)
    values = [nl.load(v[128 * j:128 * j + 128]) for j in range(size // 128)]
    for i in range(size // 128):
        query = nl.load(q[:, 128 * i:128 * i + 128])
        scores, powers = nl.ndarray((128, size), nl.float32), nl.ndarray((128, size), nl.bfloat16)
        for j in range(size // 512):
            part = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(part, query, keys[:, 512 * j:512 * j + 512])
            nisa.tensor_copy(scores[:, 512 * j:512 * j + 512], part)
        peak, total = column(scores), column(scores)
        nisa.tensor_reduce(peak, nl.maximum, scores, axis=1, negate=True)
        nisa.activation_reduce(powers, nl.exp, scores, nl.add, total, bias=peak)
        nisa.reciprocal(total, total)
        sums = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        for j in range(size // 128):
            turned = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.psum)
            nisa.nc_transpose(turned, powers[:, 128 * j:128 * j + 128])
            part = nl.ndarray((128, 128), nl.bfloat16)
            nisa.tensor_copy(part, turned)
            nisa.nc_matmul(sums, part, values[j])
        out = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_scalar(out, sums, nl.multiply, total)
        nl.store(y[128 * i:128 * i + 128], out)
    return y


@nki.jit
def many(x):
    """20,000 instructions."""
    y, tile, other = output(x.shape, x.dtype), nl.load(x), nl.ndarray(x.shape, x.dtype)
    for _ in range(10000):
        nisa.tensor_scalar(other, tile, nl.multiply, 0.5)
        nisa.activation(tile, nl.copy, other)
    nl.store(y, tile)
    return y
