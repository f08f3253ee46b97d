# SPDX-License-Identifier: Apache-2.0
"""NKI kernels inside of an HLO module: their traces are custom calls, and become part of the program."""
import unittest

from common import PackageTest, neuron, np
from wire import Hlo, text

import nki  # noqa: I001  the path comes first
import nki.isa as nisa
import nki.language as nl

TARGET = "AwsNeuronCustomNativeKernel"


@nki.jit
def softmax_and_most(x):
    """The softmax of each row, and its largest element."""
    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    most = nl.ndarray((x.shape[0], 1), x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(y, nl.softmax(tile))
    nl.store(most, nl.max(tile, axis=1, keepdims=True))
    return y, most


@nki.jit
def product(xt, w):
    """The matrix whose transpose is xt, times w."""
    y = nl.ndarray((xt.shape[1], w.shape[1]), w.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray(y.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, nl.load(xt), nl.load(w))
    nl.store(y, nl.copy(sums))
    return y


def call(kernel, *shapes, target="trn1"):
    trace = kernel.on(target).trace(*(np.zeros(shape, np.float32) for shape in shapes))
    return text(28, TARGET) + text(43, trace)


class Kernels(PackageTest):
    def softmax(self, x):
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def test_a_kernel_has_operations_of_the_module_before_and_behind(self):
        hlo = Hlo()
        x = hlo.parameter("x", (96, 40))
        doubled = hlo.map("add", x, x)
        y, most = hlo.tuple("custom-call", [("float32", (96, 40)), ("float32", (96, 1))], [doubled],
                            call(softmax_and_most, (96, 40)))
        path = self.write("m.pb", hlo.bytes([hlo.map("subtract", y, x), most], ["y", "most"]))
        values = self.normal(96, 40)
        for level in (0, 2):
            with neuron.load(neuron.compile(path, target="trn1", optlevel=level)) as model:
                got = model(values)
            wide = values.astype(np.float64)
            self.near(got["y"], self.softmax(2 * wide) - wide, 1e-5)
            self.near(got["most"], 2 * wide.max(1, keepdims=True), 1e-6)

    def test_kernels_alternate_with_layers_whose_values_stay_on_the_chip(self):
        hlo = Hlo()
        x, w = hlo.parameter("x", (64, 64)), hlo.parameter("w", (64, 64))
        y, wanted_x = x, self.normal(64, 64)
        weights = self.normal(64, 64) / 8
        wanted = wanted_x.astype(np.float64)
        for _ in range(3):
            y = hlo.add("custom-call", (64, 64), [hlo.map("tanh", hlo.dot(y, w, 1, 0)), w],
                        extra=call(product, (64, 64), (64, 64)))
            y = hlo.map("add", y, x)
            wanted = np.tanh(wanted @ weights).T @ weights + wanted_x
        path = self.write("m.pb", hlo.bytes([y], ["y"]))
        with neuron.load(neuron.compile(path, target="trn1")) as model:
            self.near(model(wanted_x, weights), wanted, 1e-4)

    def refused(self, sentence, extra, shape=(8, 8), **options):
        hlo = Hlo()
        y = hlo.add("custom-call", shape, [hlo.parameter("x", (8, 8))], extra=extra)
        path = self.write("m.pb", hlo.bytes([y], ["y"]))
        with self.assertRaisesRegex(neuron.CompileError, f"(?s){sentence}"):
            neuron.compile(path, target="trn1", **options)

    def test_what_does_not_fit_is_refused_with_the_reason(self):
        self.refused("encoding is not public.*neuron-nki", text(28, TARGET) + text(43, "opaque"))
        self.refused("is f32 9x8, and the module has f32 8x8",
                     call(softmax_and_most, (9, 8)))
        self.refused("traced for cores of generation 3, and the program is for 2",
                     call(softmax_and_most, (8, 8), target="trn2"))
        self.refused("has 2 inputs and 1 outputs", call(product, (8, 8), (8, 8)))
        self.refused("the reference does not compute", call(softmax_and_most, (8, 8)), check=True)


if __name__ == "__main__":
    unittest.main()
