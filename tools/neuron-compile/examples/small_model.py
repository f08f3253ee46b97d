#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.onnx, a layer of a network, y = relu(x w) of [n, 16] float32, and x.npy, an input of four rows, into the folder in which it
is called. A model of yours comes from its framework, such as torch.onnx.export; this file needs none, not even the package onnx: it
writes the few fields of the format that such a model has."""
import numpy as np


def varint(number):
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def value(name, rows, columns):
    """ValueInfoProto: a tensor of float32; `rows` is the name of a free dimension."""
    shape = piece(1, piece(2, rows)) + piece(1, number(1, columns))
    return piece(1, name) + piece(2, piece(1, number(1, 1) + piece(2, shape)))


def node(operator, inputs, output):
    return piece(1, b"".join(piece(1, name) for name in inputs) + piece(2, output) + piece(4, operator))


def model(weights):
    constant = b"".join(number(1, size) for size in weights.shape) + number(2, 1) + piece(8, "w") + piece(9, weights.tobytes())
    graph = node("MatMul", ["x", "w"], "product") + node("Relu", ["product"], "y") + piece(2, "small") + piece(5, constant)
    graph += piece(11, value("x", "n", weights.shape[0])) + piece(12, value("y", "n", weights.shape[1]))
    return number(1, 8) + piece(7, graph) + piece(8, number(2, 17))


def main():
    random = np.random.default_rng(0)
    weights = random.standard_normal((16, 8)).astype("<f4")
    with open("model.onnx", "wb") as file:
        file.write(model(weights))
    np.save("x.npy", random.standard_normal((4, 16)).astype(np.float32))


if __name__ == "__main__":
    main()
