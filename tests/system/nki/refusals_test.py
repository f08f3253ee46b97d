# SPDX-License-Identifier: Apache-2.0
"""What a kernel must not do: each sentence names the Python file, the line, the tile and the rule."""
import re
import unittest
import warnings

import numpy as np
from common import DeviceTest, line_of, nisa, nki, nl, normal, output
from nki import dtypes, grids


class Refusals(DeviceTest):
    def refused_at(self, kernel, arguments, text, *words, kind=nki.NkiError):
        line = line_of(kernel, text)
        self.refused(kernel, arguments, f"refusals_test.py:{line}", *words, kind=kind)

    def test_a_capacity_overflow_says_what_holds_the_space_since_which_line(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            nl.store(y, nl.load(x))
            held = []
            for _ in range(8):
                large = nl.ndarray((128, 8192), nl.float32)
                nisa.memset(large, 1.0)
                held.append(large)
            # All are read, in turns, so no order of the calls needs less room.
            total = nl.zeros((128, 8), nl.float32)
            for tile in held + held:
                nisa.tensor_tensor(total, total, tile[:, 0:8], nl.add)
            return y

        line = line_of(kernel, "large =")
        self.refused_at(kernel, (normal(128, 8),), "large =", "SBUF has no room", '"large"',
                        "6 tiles", f"refusals_test.py:{line}", "bytes were asked for")

    def test_a_name_that_is_not_there_is_told_with_the_one_that_was_meant(self):
        for module, name, said in (
                (nl, "softmaxx", "module 'nki.language' has no attribute 'softmaxx'; did you mean 'softmax'?"),
                (nl, "dma_copy", "it is nki.isa.dma_copy"), (nisa, "ndarray", "it is nki.language.ndarray"),
                (nisa, "nc_matmull", "did you mean 'nc_matmul'?"), (nl, "arange", "tools/python/old in PYTHONPATH")):
            with self.subTest(name):
                with self.assertRaisesRegex(AttributeError, re.escape(said)):
                    getattr(module, name)
        with self.assertRaisesRegex(AttributeError, "has no attribute 'qqqqqq'$"):
            getattr(nl, "qqqqqq")
        self.assertFalse(hasattr(nl, "__wrapped__"))

    def test_a_comparison_of_a_tile_says_which_function_makes_one(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            tile = nl.load(x)
            if tile[0, 0] > 0:
                nl.store(y, tile)
            return y

        self.refused_at(kernel, (normal(128, 8),), "if tile", "the result of comparing <tile: float32[1, 1] in sbuf> is not "
                        "known before the kernel runs; nl.greater makes a tile of ones and zeros, for nl.where")

    def test_a_returned_view_that_the_caller_cannot_have_is_refused(self):
        def kernel(view):
            @nki.jit
            def kernel(x, index):
                y = nl.ndarray((64, 16), nl.float32, buffer=nl.shared_hbm)
                nl.store(y, nl.load(x))
                return view(y, nl.load(index))
            return kernel

        numbers = np.arange(64, dtype=np.int32).reshape(64, 1)
        for view, wrong in ((lambda y, rows: y.ap([[16, 65], [1, 16]]), "float32 from its start; it has 1024 of them, 0 to"),
                            (lambda y, rows: y.ap([[32, 64], [1, 8]], dtype=nl.bfloat16, offset=40),
                             "whose elements are numbers 40 to 2063 of bfloat16 from its start"),
                            (lambda y, rows: y.ap([[-1, 8]], offset=3), "whose elements are numbers -4 to 3"),
                            (lambda y, rows: y.vector_select(0, rows), "at an index that only the device computes")):
            with self.subTest(wrong):
                self.refused(kernel(view), (normal(64, 16), numbers), "refusals_test.py:", "returns a view of \"y\" ", wrong)

    def test_numpy_does_not_take_a_tensor_of_a_kernel(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            nl.store(y, np.exp(nl.load(x)))
            return y

        self.refused_at(kernel, (normal(128, 8),), "np.exp", "before the kernel runs, so NumPy's exp cannot take it", "nl.exp")

    def test_a_slice_says_what_is_wrong_with_it(self):
        for bounds, wrong in ((slice(10, 200), "slice 10:200 leaves dimension 1, which has 8 elements"),
                              (slice(6, 2), "slice 6:2 of dimension 1 ends before it begins"),
                              (slice(None, None, -1), "slice ::-1 of dimension 1 has the step -1; expected 1 or more")):
            @nki.jit
            def kernel(x, bounds=bounds):
                y = output(x.shape)
                nl.store(y, nl.load(x)[:, bounds])
                return y

            self.refused_at(kernel, (normal(128, 8),), "nl.store", wrong)

    def test_nki_has_no_integers_of_64_bits(self):
        for dtype, narrower in (("int64", "int32"), (np.uint64, "uint32"), (np.dtype("int64"), "int32")):
            with self.assertRaisesRegex(TypeError, f"int64' is no data type of NKI; use u?{narrower[-5:]}"):
                dtypes.dtype_of(dtype)

    def test_a_dropped_tile_gives_its_space_back(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            for i in range(20):
                large = nl.ndarray((128, 8192), nl.float32)
                nisa.memset(large, float(i))
            nl.store(y, large[:, 0:8])
            return y

        self.near(kernel(normal(128, 8)), np.full((128, 8), 19), 0)

    def _twelve_products(self, keep_order):
        """Products in twelve banks of PSUM, which has eight, all named before one of them is read."""
        @nki.jit
        def kernel(x):
            y = output((12, 128, 512))
            tile = nl.load(x)
            if keep_order:
                nl.no_reorder()
            products = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(12)]
            for half in range(2):
                for i, product in enumerate(products):
                    nisa.nc_matmul(product, tile[:, i * 32 + half * 8:i * 32 + half * 8 + 128], tile[:, 0:512])
            for i, product in enumerate(products):
                nl.store(y[i], product)
            return y

        x = normal(128, 512)
        whole = x.astype(np.float64)
        golden = [(whole[:, i * 32:i * 32 + 128] + whole[:, i * 32 + 8:i * 32 + 136]).T @ whole for i in range(12)]
        return kernel, x, np.stack(golden)

    def test_tiles_that_find_no_room_wait_and_the_profile_says_so(self):
        kernel, x, golden = self._twelve_products(False)
        self.near(kernel(x), golden, 1e-3)
        notes = [note for note in kernel.profile(x).notes if "there was no room for this tile" in note]
        self.assertEqual(len(notes), 1)
        self.assertIn("refusals_test.py:", notes[0])

    def test_a_priority_before_trn3_and_a_maker_of_descriptors_are_said_to_change_nothing_once(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            tile = nl.ndarray((128, 8), nl.float32)
            for _ in range(2):
                nisa.dma_copy(tile, x, priority=1, dge_mode=nisa.dge_mode.hwdge)
            nl.store(y, tile)
            return y

        x = normal(128, 8)
        self.near(kernel(x), x, 0)
        notes = kernel.profile(x).notes
        self.assertEqual(len([note for note in notes if "the priority of a transfer changes nothing" in note]), 1)
        self.assertEqual(len([note for note in notes if "dge_mode changes nothing" in note]), 1)

    def test_a_priority_that_no_class_has(self):
        @nki.jit
        def kernel(x):
            tile = nl.ndarray((128, 8), nl.float32)
            nisa.dma_copy(tile, x, priority=4)
            return tile

        self.refused(kernel, (normal(128, 8),), "the priority of a transfer is 4", "0 (served first) to 3")

    def test_no_reorder_refuses_tiles_that_find_no_room(self):
        kernel, x, _ = self._twelve_products(True)
        self.refused(kernel, (x,), "PSUM has no room for tile", "8 tiles")

    def test_types_that_cannot_be_multiplied_together(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            half = nl.ndarray((128, 64), nl.bfloat16)
            nisa.tensor_copy(half, tile)
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, tile, half)
            y = output((64, 64))
            nl.store(y, product)
            return y

        self.refused_at(kernel, (normal(128, 64),), "nc_matmul", "nc_matmul", "float32",
                        'stationary is tile "tile" (', 'moving is tile "half" (')

    def test_of_two_statements_on_a_line_each_names_its_own_tile(self):
        @nki.jit
        def kernel(x, w):
            "ü"; a = nl.load(x); b = nl.load(w)  # b; c = d
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, a, b)
            y = output((64, 64))
            nl.store(y, product)
            return y

        arrays = normal(128, 64), normal(128, 64).astype(np.float16)
        self.refused_at(kernel, arrays, "nc_matmul(", 'stationary is tile "a" (', 'moving is tile "b" (')
        names = []

        @nki.jit
        def named(x):
            a = nl.load(x); nl.load(x); names.append(nl.load(x).name); b = a + nl.exp(a); names.append(b.name)
            y = output((8, 8))
            nl.store(y, b)
            return y

        named(normal(8, 8))
        self.assertEqual(names, ["tile", "b"])

    def test_a_type_that_an_instruction_does_not_write_names_the_tile_and_the_rule(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            places = nl.ndarray((128, 8), nl.float32)
            nisa.nc_find_index8(places, tile, tile[:, 0:8])
            y = output((128, 8))
            nl.store(y, places)
            return y

        line = line_of(kernel, "places =")
        self.refused_at(kernel, (normal(128, 64),), "nc_find_index8", "rule R3", "u16 or u32", "f32",
                        'dst is tile "places" (', f'refusals_test.py:{line})')

    def test_reading_what_nothing_wrote(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            never = nl.ndarray(x.shape, nl.float32)
            nisa.tensor_tensor(tile, tile, never, nl.add)
            y = output(x.shape)
            nl.store(y, tile)
            return y

        self.refused_at(kernel, (normal(128, 64),), "tensor_tensor", "UNINITIALISED", "never",
                        kind=nki.DeviceError)

    def test_a_gather_out_of_range(self):
        @nki.jit
        def kernel(table, index):
            rows, tile = nl.load(index), nl.ndarray((32, 16), nl.float32)
            nisa.dma_copy(tile, table.ap([[16, 32], [1, 16]], vector_offset=rows))
            y = output((32, 16))
            nl.store(y, tile)
            return y

        index = np.arange(32, dtype=np.int32).reshape(32, 1)
        index[7] = 100
        self.refused_at(kernel, (normal(100, 16), index), "table.ap", "DMA_OOB", "100",
                        kind=nki.DeviceError)

    def test_a_function_outside_its_range(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.activation(tile, nl.log, tile)
            y = output(x.shape)
            nl.store(y, tile)
            return y

        self.refused_at(kernel, (-np.ones((128, 8), np.float32),), "nl.log", "log", "2^-64",
                        kind=nki.DeviceError)

    def test_a_python_exception_keeps_its_type_and_names_its_line(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            assert tile.shape[1] == 9, "nine columns"

        with self.assertRaises(AssertionError) as caught:
            kernel(normal(128, 8))
        line = line_of(kernel, "nine columns")
        self.assertIn(f"refusals_test.py:{line}", "".join(caught.exception.__notes__))

    def test_partitions_that_begin_between_quadrants(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.tensor_copy(tile[5:15], tile[32:42])
            y = output(x.shape)
            nl.store(y, tile)
            return y

        self.refused_at(kernel, (normal(128, 8),), "tile[5:15]", "R1", "0, 32, 64 or 96")

    def test_an_open_question_of_accumulation(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            nisa.memset(product, 1.0)
            nisa.nc_matmul(product, tile, tile)
            y = output((64, 64))
            nl.store(y, product)
            return y

        self.refused_at(kernel, (normal(128, 64),), "nc_matmul", "accumulate=True",
                        line_of(kernel, "memset"))

    def test_an_engine_that_cannot(self):
        @nki.jit
        def kernel(x):
            tile, copy = nl.load(x), nl.ndarray(x.shape, nl.float32, buffer=nl.psum)
            nisa.tensor_copy(copy, tile, engine=nisa.engine.gpsimd)
            y = output(x.shape)
            nl.store(y, copy)
            return y

        self.refused_at(kernel, (normal(128, 8),), "gpsimd", "engine = gpsimd", "vector")

    def test_indirect_views_on_other_targets_than_trn3(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.tensor_copy(tile, tile.indirect(tile))

        self.refused_at(kernel.on("trn2"), (normal(128, 8),), "tile.indirect", "generation 4 (trn3)",
                        "nc_n_gather")

    def test_a_place_outside_of_the_memory(self):
        @nki.jit
        def kernel(x):
            tile = nl.ndarray(x.shape, nl.float32, address=(0, 1 << 20))
            nisa.dma_copy(tile, x)
            y = output(x.shape)
            nl.store(y, tile)
            return y

        self.refused_at(kernel, (normal(128, 8),), "address=", '"tile"', "SBUF")

    def test_what_leaves_its_tensor(self):
        @nki.jit
        def kernel(x):
            nl.load(x[64:200])

        self.refused_at(kernel, (normal(128, 8),), "x[64:200]", "leaves dimension 0")

    def test_a_part_without_an_element_can_be_named_but_not_moved(self):
        @nki.jit
        def kernel(x, moved):
            nothing = x[nl.ds(64, 0)]
            y = output(x.shape)
            nl.store(y, nl.load(x))
            if moved:
                nisa.dma_copy(nl.ndarray((1, 8), nl.float32), nothing)
            return y

        x = normal(64, 8)
        self.near(kernel(x, 0), x, 0)
        self.refused_at(kernel, (x, 1), "nisa.dma_copy", "float32[0, 8]")

    def test_types_without_a_form_on_the_chip(self):
        @nki.jit
        def kernel(x):
            return x

        with self.assertRaisesRegex(TypeError, "float64.*use float32"):
            kernel(np.ones((4, 4)))

    def test_a_condition_on_a_value_of_the_device(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            if tile[0:1, 0:1]:
                nisa.memset(tile, 0)

        self.refused_at(kernel, (normal(128, 8),), "if tile", "the value of <tile: float32[1, 1] in sbuf> is not known "
                        "before the kernel runs, so Python cannot decide by it; use nl.where")

    def test_a_result_that_nothing_wrote(self):
        @nki.jit
        def kernel(x):
            y = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            return y

        self.refused_at(kernel, (normal(128, 8),), "y = nl.ndarray", "nothing has written")

    def test_two_rows_of_partitions_in_one_operand(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.memset(tile[0:64:2], 0)

        self.refused_at(kernel, (normal(128, 8),), "tile[0:64:2]", "not neighbours")

    def test_a_race_of_two_programs_names_both_lines(self):
        @nki.jit
        def kernel(x):
            y, tile = output(x.shape), nl.load(x)
            if nl.program_id(0) == 0:
                nl.store(y[0:65], tile[0:65])
            else:
                nl.store(y[64:128], tile[64:128])
            return y

        self.refused_at(kernel[2], (normal(128, 8),), "y[64:128]", "RACE", '"tensor"',
                        f"refusals_test.py:{line_of(kernel, 'y[0:65]')}")

    def test_a_copy_of_bytes_onto_themselves_by_both_programs_is_no_race(self):
        @nki.jit
        def kernel(x):
            y, half = output(x.shape), x.shape[0] // 2
            first = nl.program_id(0) * half
            nl.store(y[first:first + half], nl.load(x[first:first + half]))
            nisa.core_barrier(y, (0, 1))
            nisa.dma_copy(y, y)
            return y

        x = normal(64, 8)
        self.near(kernel[2](x), x, 0)

        @nki.jit
        def with_a_write(x):
            y = output(x.shape)
            if nl.program_id(0) == 0:
                nl.store(y, nl.load(x))
            else:
                nisa.dma_copy(y, y)  # Could take back what the other one wrote
            return y

        self.refused_at(with_a_write[2], (x,), "Could take back", "RACE")

    def test_bytes_that_one_line_writes_in_both_programs_are_warned_of_unless_the_values_are_equal(self):
        def made(value):
            @nki.jit
            def kernel(x):
                y = output(x.shape)
                nl.store(y, nl.add(nl.load(x), value(nl.program_id(0))))  # By both
                return y
            return kernel

        x = normal(128, 8)
        racing = made(lambda program: 1.0 + program)
        with self.assertWarnsRegex(grids.RaceWarning, f"refusals_test.py:{line_of(racing, '# By both')}: both "
                                                      "programs write .*\"tensor\""):
            racing[2](x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.near(made(lambda program: 1.0)[2](x), x + np.float32(1), 0)

    def test_the_history_of_a_value_has_all_that_a_loop_changes(self):
        def made(step):
            @nki.jit
            def kernel(x):
                y, tile, total = output(x.shape), nl.load(x), nl.zeros(x.shape, nl.float32)
                for _ in nl.dynamic_range(3):
                    nisa.tensor_tensor(total, total, tile, nl.add)
                    nisa.tensor_scalar(tile, tile, nl.add, step(nl.program_id(0)))
                nl.store(y, total)
                return y
            return kernel[2]

        x = normal(128, 8)
        with self.assertWarns(grids.RaceWarning):
            made(float)(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made(lambda program: 2.0)(x)

    def test_rows_by_index_that_another_program_touches_are_warned_of(self):
        def made(ordered, columns):
            @nki.jit
            def kernel(index):
                y, mine = output((64, 8)), nl.program_id(0)
                zeros, ones = nl.zeros((32, columns), nl.float32), nl.ones((16, columns), nl.float32)
                first = mine * columns if columns < 8 else 0
                nisa.dma_copy(y[32 * mine:32 * mine + 32, first:first + columns], zeros)
                if ordered:
                    nisa.core_barrier(y, (0, 1))
                rows = nl.load(index[16 * mine:16 * mine + 16])
                nisa.dma_copy(y.ap([[8, 16], [1, columns]], offset=first, vector_offset=rows), ones)
                return y
            return kernel[2]

        index = np.arange(16, 48, dtype=np.int32).reshape(32, 1)
        with self.assertWarnsRegex(grids.RaceWarning, r"refusals_test.py:\d+: program \d .* by an index"
                                   r".*refusals_test.py:\d+"):
            made(False, 8)(index)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wanted = np.zeros((64, 8))
            wanted[16:48] = 1
            self.near(made(True, 8)(index), wanted, 0)
            # Columns of their own cannot meet, whatever the rows are.
            made(False, 4)(index)

    def test_waiting_for_a_program_that_has_ended(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            if nl.program_id(0) == 0:
                nisa.core_barrier(tile, (0, 1))
            return x

        self.refused_at(kernel[2], (normal(128, 8),), "core_barrier", "has ended")

    def test_an_exception_of_one_program_ends_both(self):
        @nki.jit
        def kernel(x):
            if nl.program_id(0) == 1:
                raise ValueError("the second one")
            nisa.core_barrier(x, (0, 1))

        with self.assertRaisesRegex(ValueError, "the second one"):
            kernel[2](normal(128, 8))

    def test_the_subset_of_the_language_is_linted(self):
        from nki import lint
        text = ("import nki\n@nki.jit\ndef k(x):\n    try:\n        y = [i for i in (1, 2)]\n"
                "    except ValueError:\n        y = eval('1')\n    return (a := x)\n")
        found = "\n".join(lint.findings(text, "k.py"))
        for line, what in ((4, "try and except"), (7, "eval()"), (8, ":=")):
            self.assertIn(f"k.py:{line}: {what}" if what != ":=" else f"k.py:{line}:", found)
        self.assertEqual(lint.findings("def plain():\n    try:\n        pass\n    finally:\n"
                                       "        pass\n", "k.py"), [])

    def test_check_finds_a_difference_of_one_instruction(self):
        from nki import interpreter

        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.activation(tile, nl.exp, tile)
            y = output(x.shape)
            nl.store(y, tile)
            return y

        original = interpreter.FUNCTIONS["exp"]
        interpreter.FUNCTIONS["exp"] = lambda x: np.exp(x) * 1.001
        try:
            with self.assertRaises(nki.NkiError) as caught:
                kernel.check(normal(128, 8))
        finally:
            interpreter.FUNCTIONS["exp"] = original
        self.assertIn(f"refusals_test.py:{line_of(kernel, 'nl.exp')}: activation",
                      str(caught.exception))


if __name__ == "__main__":
    unittest.main()
