# SPDX-License-Identifier: Apache-2.0
"""Loops whose rounds the device decides, registers, and what such a loop must not do."""
import unittest

import numpy as np
from common import DeviceTest, line_of, nisa, nki, nl, normal, output


def word(number):
    return np.full((1, 1), number, np.int32)


def register_of(tensor):
    register = nisa.register_alloc()
    tile = nl.load(tensor)
    nisa.register_load(register, tile)
    return register


@nki.jit
def add_rows(x, count):
    """Row blocks below `count` are x + 1, the others x."""
    y = output(x.shape)
    nisa.dma_copy(y, x)
    bound = register_of(count)
    for i in nl.dynamic_range(bound):
        tile = nl.ndarray((16, x.shape[1]), nl.float32)
        part = [[x.shape[1], 16], [1, x.shape[1]]]
        wide = x.reshape((x.shape[0] // 16, 16 * x.shape[1]))
        nisa.dma_copy(tile, wide.ap(part, scalar_offset=i, indirect_dim=0))
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(y.reshape(wide.shape).ap(part, scalar_offset=i, indirect_dim=0), tile)
    return y


class Loops(DeviceTest):
    def test_a_loop_has_as_many_rounds_as_its_register_says(self):
        x = normal(96, 40)
        for count in (0, 1, 4, 6):
            wanted = x.copy()
            wanted[:16 * count] += 1
            self.near(add_rows(x, word(count)), wanted, 1e-6)
        self.assertEqual(len(add_rows.specialisations), 1)

    def test_begin_and_step_of_a_loop_count(self):
        @nki.jit
        def kernel(begin, end):
            y, total = output((1, 1), nl.int32), nl.ndarray((1, 1), nl.int32)
            nisa.memset(total, 0)
            number = nl.ndarray((1, 1), nl.int32)
            for i in nl.dynamic_range(register_of(begin), register_of(end), 3):
                nisa.register_store(number, i)
                nisa.tensor_tensor(total, total, number, nl.add)
            nl.store(y, total)
            return y

        for begin, end in ((0, 10), (-7, 5), (4, 4), (9, 2), (16777216, 16777220)):
            self.assertEqual(int(kernel(word(begin), word(end))[0, 0]), sum(range(begin, end, 3)))

    def test_loops_nest(self):
        @nki.jit
        def kernel(rows, columns):
            y, total = output((1, 1), nl.int32), nl.ndarray((1, 1), nl.int32)
            nisa.memset(total, 0)
            inner = register_of(columns)
            for i in nl.dynamic_range(register_of(rows)):
                for j in nl.dynamic_range(inner):
                    nisa.tensor_scalar(total, total, nl.add, 1)
                nisa.tensor_scalar(total, total, nl.add, 100)
            nl.store(y, total)
            return y

        for rows, columns in ((3, 4), (0, 4), (3, 0), (1, 1), (5, 2)):
            self.near(kernel(word(rows), word(columns)), [[rows * (columns + 100)]], 0)

    def test_while_register_ends_when_the_register_is_zero(self):
        @nki.jit
        def kernel(x, limit):
            """Halves x until it is at most the limit."""
            y, tile, most = output((1, 1)), nl.load(x), nl.load(limit)
            going = nl.ndarray((1, 1), nl.int32)
            nisa.tensor_scalar(going, tile, nl.greater, most)
            register = nisa.register_alloc(going)
            while register:
                nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
                nisa.tensor_scalar(going, tile, nl.greater, most)
                nisa.register_load(register, going)
            nl.store(y, tile)
            return y

        for x, wanted in ((100.0, 3.125), (4.0, 4.0), (1.0, 1.0), (1e6, 1e6 / 2**18)):
            got = kernel(np.full((1, 1), x, np.float32), np.full((1, 1), 4, np.float32))
            self.near(got, [[wanted]], 1e-5)

    def test_while_loop_and_fori_loop_call_their_bodies_on_the_device(self):
        @nki.jit
        def kernel(count):
            y, squares = output((1, 2), nl.int32), nl.ndarray((1, 2), nl.int32)
            nisa.memset(squares, 0)
            number = nl.ndarray((1, 1), nl.int32)

            def countdown(value):
                nisa.register_store(number, value)
                nisa.tensor_tensor(squares[:, 0:1], squares[:, 0:1], number, nl.add)
                nisa.tensor_scalar(number, number, nl.subtract, 1)
                following = nisa.register_alloc()
                nisa.register_load(following, number)
                return following

            def add(i):
                nisa.register_store(number, i)
                nisa.tensor_tensor(squares[:, 1:2], squares[:, 1:2], number, nl.add)

            bound = register_of(count)
            nl.while_loop(bound, countdown)
            nl.fori_loop(0, bound, add)
            nl.fori_loop(0, 3, add)
            nl.store(y, squares)
            return y

        for n in (0, 1, 6):
            self.near(kernel(word(n)), [[n * (n + 1) // 2, n * (n - 1) // 2 + 3]], 0)

    def test_products_and_searches_happen_in_each_round(self):
        @nki.jit
        def kernel(a, b, count):
            """The power a^count b of a matrix by repeated products, and its largest elements."""
            y, top = output(b.shape), output((b.shape[0], 8))
            left, value = nl.load(a), nl.load(b)
            best = nl.ndarray((b.shape[0], 8), nl.float32)
            nisa.max8(best, value)
            for _ in nl.dynamic_range(register_of(count)):
                product = nl.ndarray(b.shape, nl.float32, buffer=nl.psum)
                for k in range(2):
                    nisa.nc_matmul(product, left[32 * k:32 * k + 32], value[32 * k:32 * k + 32])
                nisa.tensor_copy(value, product)
                nisa.max8(best, value)
            nl.store(y, value)
            nl.store(top, best)
            return y, top

        a, b = normal(64, 64) * 0.2, normal(64, 48)
        for count in (0, 1, 3):
            wanted = b.astype(np.float64)
            for _ in range(count):
                wanted = a.astype(np.float64).T @ wanted
            got, top = kernel(a, b, word(count))
            self.near(got, wanted, 1e-4)
            self.near(top, -np.sort(-wanted, 1)[:, :8], 1e-4)

    def test_a_tile_that_python_drops_in_the_body_is_there_in_the_next_round(self):
        @nki.jit
        def kernel(x, count):
            y, total = output(x.shape), nl.ndarray(x.shape, nl.float32)
            nisa.memset(total, 0.0)
            held = [nl.load(x)]
            for _ in nl.dynamic_range(register_of(count)):
                nisa.tensor_tensor(total, total, held.pop(), nl.add)
                for _ in range(40):  # More than fits beside it
                    scratch = nl.ndarray((128, 4096), nl.float32)
                    nisa.memset(scratch, -1.0)
            nl.store(y, total)
            return y

        x = normal(128, 4096)
        self.near(kernel(x, word(3)), 3 * x.astype(np.float64), 1e-5)

    def test_both_programs_of_a_grid_go_through_a_loop_together(self):
        @nki.jit
        def kernel(x, count):
            y, mine = output((2, 64)), nl.load(x[nl.program_id(0):nl.program_id(0) + 1])
            theirs = nl.ndarray((1, 64), nl.float32)
            other = 1 - nl.program_id(0)
            for _ in nl.dynamic_range(register_of(count)):
                nisa.sendrecv(mine, theirs, other, other, 0)
                nisa.tensor_tensor(mine, mine, theirs, nl.add)
                nisa.core_barrier(mine, (0, 1))
            nisa.dma_copy(y[nl.program_id(0):nl.program_id(0) + 1], mine)
            return y

        x = normal(2, 64)
        for count in (0, 1, 4):
            wanted = x.astype(np.float64)
            for _ in range(count):
                wanted = wanted + wanted[::-1]
            self.near(kernel[2](x, word(count)), wanted, 1e-5)

    def test_random_loops_do_what_python_does(self):
        choose = np.random.default_rng(11)
        for case in range(6):
            steps = [(choose.integers(0, 3), float(choose.uniform(-1, 1)))
                     for _ in range(choose.integers(1, 5))]

            def body(value, add, multiply, low, steps=steps):
                for kind, number in steps:
                    (add, multiply, low)[kind](value, number)

            @nki.jit
            def kernel(x, count):
                y, tile = output(x.shape), nl.load(x)
                for _ in nl.dynamic_range(register_of(count)):
                    body(tile, *(lambda t, n, op=op: nisa.tensor_scalar(t, t, op, n)
                                 for op in (nl.add, nl.multiply, nl.minimum)))
                nl.store(y, tile)
                return y

            x, rounds = normal(33, 17), int(choose.integers(0, 6))
            wanted = [x.astype(np.float64)]
            for _ in range(rounds):
                def put(values, holder=wanted):
                    holder[0] = values
                body(wanted, lambda w, n: put(w[0] + n), lambda w, n: put(w[0] * n),
                     lambda w, n: put(np.minimum(w[0], n)))
            with self.subTest(case=case, rounds=rounds):
                self.near(kernel(x, word(rounds)), wanted[0], 1e-5)


class Registers(DeviceTest):
    def test_a_register_keeps_what_was_loaded(self):
        @nki.jit
        def kernel(table, number):
            y, tile = output((1, 8)), nl.load(number)
            register = nisa.register_alloc()
            nisa.register_load(register, tile)
            nisa.tensor_scalar(tile, tile, nl.add, 1)
            row = nl.ndarray((1, 8), nl.float32)
            nisa.dma_copy(row, table.ap([[8, 1], [1, 8]], scalar_offset=register))
            nl.store(y, row)
            return y

        table = normal(5, 8)
        for n in (0, 3):
            self.near(kernel(table, word(n)), table[n:n + 1], 0)

    def test_registers_move_and_store(self):
        @nki.jit
        def kernel(number):
            y, tile = output((1, 2), nl.int32), nl.ndarray((1, 2), nl.int32)
            first, second = nisa.register_alloc(7), register_of(number)
            third = nisa.register_alloc()
            nisa.register_move(third, second)
            nisa.register_move(second, first)
            nisa.register_store(tile[:, 0:1], second)
            nisa.register_store(tile[:, 1:2], third)
            nl.store(y, tile)
            return y

        self.near(kernel(word(40)), [[7, 40]], 0)


class Refusals(DeviceTest):
    def refused_at(self, kernel, arguments, text, *words):
        self.refused(kernel, arguments, f"loops_test.py:{line_of(kernel, text)}", *words)

    def test_a_loop_that_is_left_by_break(self):
        @nki.jit
        def kernel(count):
            y = output((1, 1), nl.int32)
            for _ in nl.dynamic_range(register_of(count)):
                nl.store(y, nl.load(count))
                break
            return y

        self.refused_at(kernel, (word(2),), "nl.dynamic_range", "left by break")

    def test_a_register_that_held_a_number_before_the_loop(self):
        @nki.jit
        def kernel(count):
            y, number = output((1, 1), nl.int32), nisa.register_alloc(5)
            for i in nl.dynamic_range(register_of(count)):
                nisa.register_move(number, i)
            nl.store(y, nl.load(count))
            return y

        self.refused_at(kernel, (word(2),), "register_move", "before the loop")

    def test_an_open_question_of_accumulation_over_rounds(self):
        @nki.jit
        def kernel(x, count):
            y, tile = output((64, 64)), nl.load(x)
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            for _ in nl.dynamic_range(register_of(count)):
                nisa.nc_matmul(product, tile, tile)
            nl.store(y, product)
            return y

        self.refused_at(kernel, (normal(128, 64), word(2)), "nc_matmul", "outside of a loop",
                        "accumulate=True or False")

    def test_a_condition_on_a_register_that_is_no_loop(self):
        @nki.jit
        def kernel(count):
            if register_of(count):
                pass

        self.refused_at(kernel, (word(2),), "if register_of", "known to the device only")

    def test_a_comparison_with_float64(self):
        with self.assertRaises(nki.NkiError) as caught:
            add_rows.check(normal(96, 40), word(2))
        self.assertIn(f"loops_test.py:{line_of(add_rows, 'dynamic_range')}: how often", str(caught.exception))

    def test_a_step_that_is_no_number(self):
        @nki.jit
        def kernel(count):
            register = register_of(count)
            for _ in nl.dynamic_range(0, register, register):
                pass

        self.refused_at(kernel, (word(2),), "dynamic_range", "step")

    def test_a_transfer_that_the_device_cannot_write_by_itself(self):
        @nki.jit
        def kernel(x, count):
            y = output((64, 32))
            tile = nl.ndarray((64, 32), nl.float32)
            for _ in nl.dynamic_range(register_of(count)):
                nisa.dma_transpose(tile, x)
            nl.store(y, tile)
            return y

        self.refused_at(kernel, (normal(32, 64), word(2)), "dma_transpose", "device decides")


if __name__ == "__main__":
    unittest.main()
