# SPDX-License-Identifier: Apache-2.0
"""Collectives of HLO between four cores, each a rank. `neuron.compile(check=True)` compares all ranks
with the reference interpreter; here NumPy says what the values must be."""
import os
import unittest
from concurrent.futures import ThreadPoolExecutor

RANKS = 4
os.environ.setdefault("NEURON_EMULATOR", "trn1.32xlarge")
os.environ.setdefault("NEURON_RT_NUM_CORES", str(RANKS))

from common import PackageTest, neuron, np  # noqa: E402  the environment comes first
from wire import Hlo, text, varint, whole  # noqa: E402

from neuron import spike  # noqa: E402

ALL = [list(range(RANKS))]


def groups(lists):
    return b"".join(text(49, text(1, b"".join(map(varint, ranks)))) for ranks in lists)


def dimension(axis):
    return text(14, varint(axis))


class Collectives(PackageTest):
    def ranks(self, hlo, results, inputs):
        """What each rank gets for its inputs: a list for each result, of an array of each rank."""
        names = [f"y{i}" for i in range(len(results))]
        module = self.write("module.pb", hlo.bytes(results, names))
        neff = neuron.compile(module, target="trn1", check=True)
        runtime = spike.Spike()
        self.addCleanup(runtime.close)

        def rank(number):
            model = runtime.load_model(neff, number, True, number, RANKS)
            info = runtime.get_tensor_info(model)

            def tensors(infos):
                return {name: runtime.allocate_tensor(i.size, number, name)
                        for name, i in infos.items()}
            given, made = tensors(info.inputs), tensors(info.outputs)
            for tensor, array in zip(given.values(), inputs[number], strict=True):
                runtime.tensor_write(tensor, np.ascontiguousarray(array).tobytes())
            runtime.execute(model, given, made)
            return [np.frombuffer(runtime.tensor_read(made[name]), info.outputs[name].dtype)
                    .reshape(info.outputs[name].shape) for name in names]
        with ThreadPoolExecutor(RANKS) as threads:
            got = list(threads.map(rank, range(RANKS)))
        return [[of_rank[i] for of_rank in got] for i in range(len(names))]

    def one(self, opcode, shape, to, extra, wanted, bound=0, dtype="float32"):
        """`wanted`: from the arrays of all ranks to the results of all ranks."""
        hlo = Hlo()
        x = hlo.parameter("x", shape, dtype)
        inputs = [self.normal(*shape) if dtype.startswith("float")
                  else self.random.integers(-2**28, 2**28, shape) for _ in range(RANKS)]
        inputs = [i.astype(dtype) for i in inputs]
        extra = extra(hlo) if callable(extra) else extra
        y = hlo.add(opcode, to, [x], dtype, extra=extra)
        got = self.ranks(hlo, [y], [[i] for i in inputs])[0]
        for number, (found, golden) in enumerate(zip(got, wanted(inputs), strict=True)):
            with self.subTest(rank=number):
                self.near(found.astype(np.float64), golden, bound)

    def combining(self, lists, function="add"):
        return lambda hlo: groups(lists) + whole(38, hlo.combiner(function))

    def test_all_ranks_get_what_all_have_combined(self):
        for function, fold in (("add", np.sum), ("multiply", np.prod), ("maximum", np.max),
                               ("minimum", np.min)):
            with self.subTest(function=function):
                self.one("all-reduce", (5, 33), (5, 33), self.combining(ALL, function),
                         lambda x, f=fold: [f(np.array(x, np.float64), axis=0)] * RANKS, 1e-5)

    def test_groups_combine_by_themselves_and_none_means_all(self):
        self.one("all-reduce", (7,), (7,), self.combining([[0, 3], [2, 1]]),
                 lambda x: [x[0] + x[3], x[1] + x[2], x[1] + x[2], x[0] + x[3]], 1e-6)
        self.one("all-reduce", (7,), (7,), self.combining([]),
                 lambda x: [sum(np.array(x, np.float64))] * RANKS, 1e-5)

    def test_groups_may_be_counted_in_an_array_whose_dimensions_change_places(self):
        # 0 1 2 3 as two rows, read by columns: groups 0 2 and 1 3.
        counted = whole(1, 2) + whole(2, 2) + text(3, varint(2) + varint(2)) \
            + text(4, varint(1) + varint(0))
        self.one("all-reduce", (6,), (6,),
                 lambda hlo: text(87, text(2, counted)) + whole(38, hlo.combiner("add")),
                 lambda x: [x[0] + x[2], x[1] + x[3]] * 2, 1e-6)

    def test_whole_numbers_and_halves_are_combined(self):
        self.one("all-reduce", (9, 4), (9, 4), self.combining(ALL),
                 lambda x: [sum(x)] * RANKS, 0, "int32")
        self.one("all-reduce", (64,), (64,), self.combining(ALL),
                 lambda x: [sum(np.array(x, np.float64)).astype(np.float16)] * RANKS, 0.004,
                 "float16")

    def test_ranks_are_gathered_along_any_dimension(self):
        self.one("all-gather", (3, 10), (12, 10), groups(ALL) + dimension(0),
                 lambda x: [np.concatenate(x)] * RANKS)
        self.one("all-gather", (3, 10, 2), (3, 20, 2), groups([[2, 0], [1, 3]]) + dimension(1),
                 lambda x: [np.concatenate(pair, 1) for pair in
                            ([x[2], x[0]], [x[1], x[3]], [x[2], x[0]], [x[1], x[3]])])

    def test_parts_of_the_sum_are_scattered_along_any_dimension(self):
        for axis, to in ((0, (2, 12)), (1, (8, 3))):
            with self.subTest(axis=axis):
                self.one("reduce-scatter", (8, 12), to,
                         lambda hlo, a=axis: self.combining(ALL)(hlo) + dimension(a),
                         lambda x, a=axis: np.split(sum(np.array(x, np.float64)), RANKS, a), 1e-5)

    def test_parts_are_exchanged_along_any_dimension(self):
        for axis in (0, 1):
            def wanted(x, axis=axis):
                parts = [np.split(each, RANKS, axis) for each in x]
                return [np.concatenate([p[rank] for p in parts], axis) for rank in range(RANKS)]
            with self.subTest(axis=axis):
                self.one("all-to-all", (8, 12), (8, 12), groups(ALL) + dimension(axis), wanted)

    def test_a_tuple_has_an_array_for_each_rank(self):
        hlo = Hlo()
        given = [hlo.parameter(f"x{i}", (3, 5)) for i in range(RANKS)]
        results = hlo.tuple("all-to-all", [("float32", (3, 5))] * RANKS, given, groups(ALL))
        inputs = [[self.normal(3, 5) for _ in range(RANKS)] for _ in range(RANKS)]
        got = self.ranks(hlo, results, inputs)
        for source in range(RANKS):
            for target in range(RANKS):
                self.near(got[source][target], inputs[source][target], 0)

    def test_pairs_send_and_who_gets_nothing_has_zeros(self):
        def pairs(*list_of):
            return b"".join(text(52, whole(1, source) + whole(2, target))
                            for source, target in list_of)
        self.one("collective-permute", (3, 9), (3, 9), pairs((0, 1), (1, 2), (2, 3), (3, 0)),
                 lambda x: [x[3], x[0], x[1], x[2]])
        self.one("collective-permute", (130,), (130,), pairs((3, 0), (0, 2)),
                 lambda x: [x[3], 0 * x[0], x[0], 0 * x[0]])

    def test_a_layer_split_over_ranks_is_the_whole_layer(self):
        """Each rank has a part of both weights, and the sums of all make the layer."""
        hlo = Hlo()
        x, w1, w2 = (hlo.parameter(name, shape) for name, shape in
                     (("x", (6, 16)), ("w1", (16, 8)), ("w2", (8, 16))))
        hidden = hlo.map("tanh", hlo.dot(x, w1, 1, 0))
        y = hlo.add("all-reduce", (6, 16), [hlo.dot(hidden, w2, 1, 0)],
                    extra=self.combining(ALL)(hlo))
        result = hlo.map("add", y, x)
        values = self.normal(6, 16)
        first, second = self.normal(16, 32) / 4, self.normal(32, 16) / 4
        got = self.ranks(hlo, [result], [[values, a, b] for a, b in
                                         zip(np.split(first, RANKS, 1), np.split(second, RANKS))])
        wanted = np.tanh(values.astype(np.float64) @ first) @ second + values
        for found in got[0]:
            self.near(found, wanted, 1e-4)

    def refused(self, sentence, opcode, extra, to=(4,)):
        hlo = Hlo()
        y = hlo.add(opcode, to, [hlo.parameter("x", (4,))], extra=extra(hlo))
        with self.assertRaisesRegex(neuron.CompileError, rf"(?s)\({opcode}\).*{sentence}"):
            neuron.compile(self.write("module.pb", hlo.bytes([y], ["y"])))

    def test_groups_that_do_not_fit_are_refused_by_name(self):
        self.refused("groups of 2 and of 1 ranks", "all-reduce", self.combining([[0, 1], [2]]))
        self.refused("rank 1 twice", "all-reduce", self.combining([[0, 1], [1, 2]]))
        self.refused("leave ranks out", "all-reduce", self.combining([[0, 2]]))
        self.refused("4 elements of dimension 0 in parts for 3 ranks", "all-to-all",
                     lambda hlo: groups([[0, 1, 2]]) + dimension(0))
        self.refused("give it as an input", "replica-id", lambda hlo: b"")


if __name__ == "__main__":
    unittest.main()
