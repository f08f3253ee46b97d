#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier, bit for bit the same on every machine; see README.md beside this file."""
import argparse
import gzip
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TRAINING_ROWS = 1437
CHOICE_ROWS = 1150  # rows before it train, rows from it on decide, in --validate
HIDDEN = 128
EPOCHS = 40
BATCH = 64
RATE = 0.05
MOMENTUM = 0.9
DECAY = 1e-3


def product(left, right):
    """left @ right, summed over the inner index in ascending order (a BLAS would choose its own)."""
    out = np.zeros((left.shape[0], right.shape[1]))
    for k in range(left.shape[1]):
        out += left[:, k : k + 1] * right[k]
    return out


def exponential(x):
    """exp(x) for x <= 0 by range reduction and a fixed polynomial: numpy's own depends on the CPU."""
    x = np.maximum(x, -700.0)
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    term = np.ones_like(r)
    total = np.ones_like(r)
    for n in range(1, 15):
        term = term * r / n
        total = total + term
    return np.ldexp(total, k.astype(np.int64))


class Generator:
    """64-bit linear congruential generator: the same numbers for ever."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 33

    def uniform(self, shape, bound):
        count = int(np.prod(shape))
        values = [(self.word() / 2**31 * 2 - 1) * bound for _ in range(count)]
        return np.array(values).reshape(shape)

    def permutation(self, count):
        order = list(range(count))
        for i in range(count - 1, 0, -1):
            j = self.word() % (i + 1)
            order[i], order[j] = order[j], order[i]
        return order


def forward(weights, x):
    w1, b1, w2, b2 = weights
    hidden = np.maximum(product(x / 16.0, w1) + b1, 0.0)
    return hidden, product(hidden, w2) + b2


def train(x, labels):
    random = Generator(20260101)
    weights = [
        random.uniform((64, HIDDEN), 0.2),
        np.zeros(HIDDEN),
        random.uniform((HIDDEN, 10), 0.15),
        np.zeros(10),
    ]
    velocity = [np.zeros_like(w) for w in weights]
    wanted = np.zeros((len(labels), 10))
    wanted[np.arange(len(labels)), labels] = 1.0
    for epoch in range(EPOCHS):
        rate = RATE * (0.1 if epoch >= EPOCHS * 3 // 4 else 1.0)
        order = random.permutation(len(labels))
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            batch, target = x[rows], wanted[rows]
            hidden, logits = forward(weights, batch)
            odds = exponential(logits - logits.max(axis=1, keepdims=True))
            total = np.zeros((len(rows), 1))
            for c in range(10):
                total[:, 0] += odds[:, c]
            error = (odds / total - target) / len(rows)
            back = product(error, weights[2].T.copy()) * (hidden > 0)
            gradient = [
                product((batch / 16.0).T.copy(), back),
                product(np.ones((1, len(rows))), back)[0],
                product(hidden.T.copy(), error),
                product(np.ones((1, len(rows))), error)[0],
            ]
            for i in range(4):
                velocity[i] = MOMENTUM * velocity[i] - rate * (gradient[i] + DECAY * weights[i])
                weights[i] = weights[i] + velocity[i]
    return weights


def accuracy(weights, x, labels):
    return float((forward(weights, x)[1].argmax(axis=1) == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--validate", action="store_true", help="train on rows 0..1149, print accuracy on 1150..1436")
    parser.add_argument("--check", action="store_true", help="train and compare with the committed files")
    options = parser.parse_args()
    with gzip.open(HERE / "digits.csv.gz", "rt", encoding="ascii") as file:
        rows = [list(map(int, line.split(","))) for _, line in zip(range(TRAINING_ROWS), file)]
    table = np.array(rows)
    x, labels = table[:, :64].astype(np.float64), table[:, 64]
    if options.validate:
        weights = train(x[:CHOICE_ROWS], labels[:CHOICE_ROWS])
        print(f"rows 0..{CHOICE_ROWS - 1}: {accuracy(weights, x[:CHOICE_ROWS], labels[:CHOICE_ROWS]):.4f}")
        print(f"rows {CHOICE_ROWS}..{TRAINING_ROWS - 1}: {accuracy(weights, x[CHOICE_ROWS:], labels[CHOICE_ROWS:]):.4f}")
        return 0
    weights = train(x, labels)
    status = 0
    for name, value in zip(("w1", "b1", "w2", "b2"), weights):
        value = value.astype(np.float32)
        path = HERE / f"{name}.npy"
        if not options.check:
            np.save(path, value)
        elif not np.array_equal(np.load(path), value):
            print(f"{path}: differs from what training gives", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
