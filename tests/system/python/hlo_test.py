# SPDX-License-Identifier: Apache-2.0
"""Opcodes of HLO on the chip. `neuron.compile(check=True)` compares with the reference interpreter;
here NumPy says what the values must be."""
import itertools
import unittest

from common import PackageTest, neuron, np
from wire import Hlo, text, varint, whole


def spread(x, gaps):
    """Zeros between the elements of the last dimensions."""
    for axis, gap in zip(range(x.ndim - len(gaps), x.ndim), gaps):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * gap + 1
        wide = np.zeros(shape, x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, gap),)] = x
        x = wide
    return x


def padded(x, edges):
    """The last dimensions padded with zeros, or cut where an edge is negative."""
    for axis, (low, high) in zip(range(x.ndim - len(edges), x.ndim), edges):
        width = [(0, 0)] * x.ndim
        width[axis] = (max(low, 0), max(high, 0))
        x = np.pad(x, width)
        end = x.shape[axis] + min(high, 0)
        x = x[(slice(None),) * axis + (slice(max(-low, 0), end),)]
    return x


def convolved(x, kernel, window, groups=1, batch_groups=1):
    """[batch, features, image] and [outputs, inputs, kernel], by the definition."""
    x, kernel = x.astype(np.float64), kernel.astype(np.float64)
    x = padded(spread(x, [d[5] for d in window]), [d[2:4] for d in window])
    for axis, d in enumerate(window):
        if d[6]:
            kernel = np.flip(kernel, 2 + axis)
    kernel = spread(kernel, [d[4] for d in window])
    outputs, inputs, *reach = kernel.shape
    counts = [(n - r) // d[1] + 1 for n, r, d in zip(x.shape[2:], reach, window)]
    batch = x.shape[0] // batch_groups
    y = np.zeros((batch, outputs, *counts))
    for n, o in itertools.product(range(batch), range(outputs)):
        image = x[o // (outputs // batch_groups) * batch + n]
        first = o // (outputs // groups) * inputs
        for place in itertools.product(*map(range, counts)):
            part = tuple(slice(p * d[1], p * d[1] + r) for p, d, r in zip(place, window, reach))
            y[(n, o, *place)] = np.sum(image[(slice(first, first + inputs), *part)] * kernel[o])
    return y


class Opcodes(PackageTest):
    def run_module(self, hlo, results, *arrays):
        """The arrays that the module gives."""
        names = [f"y{i}" for i in range(len(results))]
        neff = neuron.compile(self.write("module.pb", hlo.bytes(results, names)), check=True)
        with neuron.load(neff) as model:
            got = model(*arrays)
        return [got[name] for name in names] if len(names) > 1 else [got]


class Convolutions(Opcodes):
    """Arrays are made in the order batch, features, image, and given in that of the labels."""

    def case(self, labels, image, kernel, window, groups=1, batch_groups=1):
        x, k = self.normal(*image), self.normal(*kernel)
        wanted = convolved(x, k, window, groups, batch_groups)
        digits = "".join(map(str, range(len(window))))
        from_labels, kernel_labels, to_labels = labels.split("_")
        x = x.transpose(["bf" .find(c) if c in "bf" else 2 + digits.index(c) for c in from_labels])
        k = k.transpose(["oi".find(c) if c in "oi" else 2 + digits.index(c) for c in kernel_labels])
        wanted = wanted.transpose(["bf".find(c) if c in "bf" else 2 + digits.index(c)
                                   for c in to_labels])
        hlo = Hlo()
        a, b = hlo.parameter("x", x.shape), hlo.parameter("k", k.shape)
        y = hlo.convolution(a, b, wanted.shape, labels, window, groups, batch_groups)
        self.near(self.run_module(hlo, [y], x, k)[0], wanted, 2e-5)

    def test_images_with_channels_last_are_convolved_with_strides_and_padding(self):
        self.case("b01f_01io_b01f", (2, 3, 9, 8), (5, 3, 3, 2),
                  [(3, 2, 1, 1, 1, 1, 0), (2, 1, 0, 1, 1, 1, 0)])

    def test_groups_of_features_and_windows_with_holes(self):
        self.case("bf01_oi01_bf01", (1, 4, 8, 7), (6, 2, 3, 2),
                  [(3, 1, 2, 2, 2, 1, 0), (2, 1, 0, 0, 3, 1, 0)], groups=2)
        self.case("bf0_oi0_bf0", (2, 6, 11), (6, 1, 3), [(3, 1, 1, 1, 1, 1, 0)], groups=6)

    def test_the_gradient_of_an_image_has_zeros_between_and_a_kernel_turned_round(self):
        self.case("b01f_01oi_b01f", (2, 4, 4, 3), (3, 4, 3, 3),
                  [(3, 1, 1, 2, 1, 2, 1), (3, 1, -1, 2, 1, 3, 1)])

    def test_the_gradient_of_a_kernel_sums_over_the_batch_or_over_its_groups(self):
        self.case("f01b_i01o_01bf", (3, 2, 6, 6), (4, 2, 4, 4),
                  [(4, 1, 0, 0, 1, 1, 0), (4, 1, 0, 0, 1, 1, 0)])
        self.case("bf01_oi01_bf01", (6, 2, 5, 5), (9, 2, 3, 3),
                  [(3, 1, 1, 1, 1, 1, 0)] * 2, batch_groups=3)

    def test_volumes_and_rows(self):
        self.case("bf012_oi012_bf012", (1, 2, 4, 5, 3), (3, 2, 2, 3, 2),
                  [(2, 1, 0, 0, 1, 1, 0), (3, 2, 1, 1, 1, 1, 0), (2, 1, 1, 0, 1, 1, 0)])
        self.case("b0f_0io_b0f", (3, 5, 17), (4, 5, 4), [(4, 3, 2, 1, 1, 1, 0)])

    def test_windows_that_do_not_fit_are_refused_with_their_sizes(self):
        hlo = Hlo()
        x, k = hlo.parameter("x", (1, 1, 3)), hlo.parameter("k", (1, 1, 5))
        y = hlo.convolution(x, k, (1, 1, 1), "bf0_oi0_bf0", [(5, 1, 0, 0, 1, 1, 0)])
        with self.assertRaisesRegex(neuron.CompileError,
                                    "(?s)convolution.3.*window of 5 does not fit the 3 elements"):
            neuron.compile(self.write("module.pb", hlo.bytes([y], ["y"])))


class Order(Opcodes):
    def sorted_by(self, shape, axis, keys, direction="LT", kind=""):
        """A module that sorts float32 keys and the int32 that belong to them."""
        hlo = Hlo()
        x, places = hlo.parameter("x", shape), hlo.parameter("places", shape, "int32")

        def compare(other):
            parameters = [other.parameter(f"p{i}", (), "float32" if i < 2 else "int32")
                          for i in range(4)]
            return other.add("compare", (), parameters[:2], "bool",
                             extra=text(63, direction) + text(72, kind))
        results = hlo.tuple("sort", [("float32", shape), ("int32", shape)], [x, places],
                            text(14, varint(axis)) + whole(38, hlo.computation(compare))
                            + whole(60, 1))
        grid = np.broadcast_to(np.arange(shape[axis], dtype=np.int32).reshape(
            [-1 if i == axis else 1 for i in range(len(shape))]), shape)
        return self.run_module(hlo, results, keys, np.ascontiguousarray(grid))

    def test_arrays_are_sorted_together_along_any_dimension_and_equal_ones_keep_their_order(self):
        for shape, axis in (((5, 23), 1), ((19, 3, 2), 0), ((2, 7, 3), 1)):
            with self.subTest(shape=shape, axis=axis):
                keys = self.random.integers(-4, 5, shape).astype(np.float32)
                keys.flat[3] = np.inf
                order = np.argsort(keys, axis, kind="stable")
                values, places = self.sorted_by(shape, axis, keys)
                np.testing.assert_array_equal(values, np.take_along_axis(keys, order, axis))
                np.testing.assert_array_equal(places, order)

    def test_the_comparison_decides_the_direction(self):
        keys = self.normal(3, 40)
        values, places = self.sorted_by((3, 40), 1, keys, "GT")
        np.testing.assert_array_equal(places, np.argsort(-keys, 1, kind="stable"))
        np.testing.assert_array_equal(values, -np.sort(-keys, 1))

    def test_nan_comes_last_in_the_total_order(self):
        keys = np.array([[3, np.nan, -np.inf, 0, np.nan, np.inf, -2]], np.float32)
        values, places = self.sorted_by((1, 7), 1, keys, kind="TOTALORDER")
        np.testing.assert_array_equal(places, np.argsort(keys, 1, kind="stable"))
        np.testing.assert_array_equal(values, np.sort(keys, 1))

    def test_a_comparison_may_use_two_keys(self):
        hlo = Hlo()
        first, second = (hlo.parameter(name, (31,), "int32") for name in "ab")

        def compare(other):
            a, b, c, d = (other.parameter(f"p{i}", (), "int32") for i in range(4))
            same = other.compare(a, b, "EQ")
            return other.add("select", (), [same, other.compare(c, d, "GT"),
                                            other.compare(a, b, "LT")], "bool")
        results = hlo.tuple("sort", [("int32", (31,))] * 2, [first, second],
                            text(14, varint(0)) + whole(38, hlo.computation(compare)))
        a, b = (self.random.integers(0, 6, 31).astype(np.int32) for _ in range(2))
        got = self.run_module(hlo, results, a, b)
        order = np.lexsort((-b, a))
        np.testing.assert_array_equal(got[0], a[order])
        np.testing.assert_array_equal(got[1], b[order])

    def best(self, x, k, kind="int32", **way):
        hlo = Hlo()
        given = hlo.parameter("x", x.shape, str(x.dtype))
        sizes = (*x.shape[:-1], k)
        opcode = way.get("opcode", "custom-call")
        extra = way.get("extra", text(28, "AwsNeuronTopK") + text(43, str(k)))
        return self.run_module(hlo, hlo.tuple(opcode, [(str(x.dtype), sizes), (kind, sizes)],
                                              [given], extra), x)

    def test_the_largest_of_a_row_come_with_their_places_and_the_first_of_equals_first(self):
        # Few of many are found in turn, many of few by rank.
        for shape, k in (((4, 300), 5), ((2, 3, 20), 9), ((700,), 1)):
            with self.subTest(shape=shape, k=k):
                x = np.round(self.normal(*shape) * 8)
                order = np.argsort(-x, -1, kind="stable")[..., :k]
                values, places = self.best(x, k, "uint32")
                np.testing.assert_array_equal(places, order)
                np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))

    def test_infinite_and_whole_numbers_have_places_of_their_own(self):
        x = np.full((1, 40), -np.inf, np.float32)
        x[0, 7] = 1
        values, places = self.best(x, 4)
        np.testing.assert_array_equal(places, [[7, 0, 1, 2]])
        np.testing.assert_array_equal(values, [[1, -np.inf, -np.inf, -np.inf]])
        whole_numbers = self.random.integers(-2**31, 2**31, (2, 90)).astype(np.int32)
        values, places = self.best(whole_numbers, 7)
        np.testing.assert_array_equal(values, -np.sort(-whole_numbers.astype(np.int64))[:, :7])
        np.testing.assert_array_equal(np.take_along_axis(whole_numbers, places, 1), values)

    def test_the_opcode_may_ask_for_the_smallest(self):
        x = self.normal(3, 64)
        values, places = self.best(x, 3, opcode="topk", extra=whole(81, 3))
        np.testing.assert_array_equal(places, np.argsort(x, 1)[:, :3])
        np.testing.assert_array_equal(values, np.sort(x, 1)[:, :3])

    def test_rows_that_are_too_long_are_refused_with_the_cure(self):
        hlo = Hlo()
        x = hlo.parameter("x", (5000,))

        def compare(other):
            return other.compare(other.parameter("a", ()), other.parameter("b", ()), "LT")
        y = hlo.add("sort", (5000,), [x], extra=text(14, varint(0))
                    + whole(38, hlo.computation(compare)))
        with self.assertRaisesRegex(neuron.CompileError,
                                    "(?s)sort.*5000 elements.*at most 4096.*sort parts"):
            neuron.compile(self.write("module.pb", hlo.bytes([y], ["y"])))


if __name__ == "__main__":
    unittest.main()
