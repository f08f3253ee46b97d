# SPDX-License-Identifier: Apache-2.0
"""That the comparison can fail, and says what differs; and the formats of the model against NumPy's."""
import re
import unittest
from unittest import mock

import model
import numpy as np
import program
from check import check, instructions, made
from formats import FORMATS, Float

SILENT = {"say": lambda sentence: None}


def numbers_of(target, name, count):
    """The first cases of a kind."""
    makers = instructions(program.GENERATIONS[target])
    return [n for n in range(40 * len(makers)) if makers[n % len(makers)].__name__ == name][:count]


class Comparison(unittest.TestCase):
    def test_a_wrong_model_is_noticed_with_the_element_its_bits_and_the_command(self):
        numbers = numbers_of("trn2", "scalar_tensor_tensor", 12)
        wrong = mock.patch.dict(model.ALU, {op: model.ALU["sub"] for op in ("add", "mul", "max")})
        self.assertEqual(check("trn2", 3, numbers, **SILENT)[0], [])
        with wrong:
            found, _ = check("trn2", 3, numbers, **SILENT)
        self.assertTrue(found)
        self.assertRegex(found[0], r"case \d+ \(scalar_tensor_tensor\): (sbuf|psum)\[.*\d+ of \d+ elements differ, the first in "
                                   r"row \d+ \(partition \d+\), element \d+: found 0x[0-9A-F]+ \(.*\), expected 0x")
        alone = re.search(r"check.py --target trn2 --seed 3 --case (\d+)", found[0])
        with wrong:
            again, counts = check("trn2", 3, [int(alone[1])], **SILENT)
        self.assertEqual(again, found[:1])
        self.assertEqual(sum(counts.values()), 1)

    def test_a_wrong_conversion_is_noticed_by_its_last_bit(self):
        numbers = numbers_of("trn1", "tensor_copy", 30)

        rounded = Float.narrow

        def toward_zero(self, values):
            if self.name != "bf16":
                return rounded(self, values)
            return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)

        with mock.patch.object(Float, "narrow", toward_zero):
            found, _ = check("trn1", 3, numbers, **SILENT)
        self.assertTrue(any("bf16" in sentence for sentence in found))

    def test_a_write_beside_the_destination_is_noticed(self):
        case = made("trn2", 3, numbers_of("trn2", "memset", 1)[0])
        memory = case.after.copy()
        self.assertEqual(case.differences(memory), [])
        places = case.expected[0].tile.places
        beside = next(b for b in range(memory.shape[1]) if b not in places)
        memory[5, beside] ^= 1
        self.assertRegex(case.differences(memory)[0], f"1 bytes outside the destination differ.* partition 5, byte {beside} ")

    def test_a_bound_holds_for_what_is_within_and_not_beyond(self):
        case = made("trn2", 3, numbers_of("trn2", "bn_stats", 1)[0])
        expected = case.expected[0]
        memory = case.after.copy()
        codes = expected.codes.copy()
        codes[0, 1] = FORMATS["f32"].narrow(expected.high[0, 1])
        expected.tile.write(memory, codes)
        self.assertEqual(case.differences(memory), [])
        codes[0, 1] = FORMATS["f32"].narrow(np.nextafter(expected.high[0, 1], np.float32(np.inf)))
        expected.tile.write(memory, codes)
        self.assertIn("element 1: found", case.differences(memory)[0])

    def test_an_instruction_that_is_refused_is_found_among_others(self):
        numbers = numbers_of("trn2", "memset", 9)
        text = program.Program.text
        # A value that no other of the cases sets.
        value = made("trn2", 3, numbers[5]).steps[-1][1].split("value=")[1]

        def damaged(self):
            return re.sub(rf"memset .*value={value} ", "memset nothing ", text(self))

        with mock.patch.object(program.Program, "text", damaged):
            found, _ = check("trn2", 3, numbers, **SILENT)
        self.assertEqual(len(found), 1)
        self.assertIn("neuron-as: ", found[0])
        self.assertIn(f"--case {numbers[5]}", found[0])


class Cases(unittest.TestCase):
    def test_a_case_depends_on_its_seed_and_number_alone(self):
        for number in range(43):
            first, second = made("trn3", 5, number), made("trn3", 5, number)
            self.assertEqual(first.text(), second.text())
            self.assertTrue((first.before == second.before).all() and (first.after == second.after).all())
        self.assertNotEqual(made("trn3", 5, 0).text(), made("trn3", 6, 0).text())

    def test_there_are_more_than_twenty_kinds_on_every_generation(self):
        for target, generation in program.GENERATIONS.items():
            self.assertGreater(len({make.__name__ for make in instructions(generation)}), 20, target)


class Formats(unittest.TestCase):
    def test_every_code_of_a_small_float_comes_back(self):
        for name in ("bf16", "f16", "f8e3", "f8e4", "f8e5", "f8e4fn"):
            f = FORMATS[name]
            codes = np.arange(1 << (8 * f.size)).astype(f.code)
            values = f.widen(codes)
            number = ~np.isnan(values)
            np.testing.assert_array_equal(f.narrow(values)[number], codes[number], name)
            self.assertTrue(np.isnan(f.widen(f.narrow(values[~number]))).all())

    def test_f16_is_numpy_s(self):
        values = np.random.RandomState(1).randint(0, 1 << 32, 200000, dtype=np.int64).astype(np.uint32).view(np.float32)
        values = np.concatenate([values, np.ldexp(values, 0) * 0 + np.linspace(-70000, 70000, len(values))]).astype(np.float32)
        values = values[~np.isnan(values)]
        np.testing.assert_array_equal(FORMATS["f16"].narrow(values), values.astype(np.float16).view(np.uint16))

    def test_published_limits_hold(self):
        for name, largest, smallest in (("f8e4", 240, 2.0 ** -9), ("f8e4fn", 448, 2.0 ** -9), ("f8e5", 57344, 2.0 ** -16),
                                        ("f8e3", 15.5, 2.0 ** -6), ("f16", 65504, 2.0 ** -24)):
            values = FORMATS[name].table
            self.assertEqual(values[np.isfinite(values)].max(), largest, name)
            self.assertEqual(values[values > 0].min(), smallest, name)


if __name__ == "__main__":
    unittest.main()
