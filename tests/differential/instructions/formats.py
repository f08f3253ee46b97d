# SPDX-License-Identifier: Apache-2.0
"""Data types of the instruction set as arrays of NumPy: codes to numbers and back.

Bit layouts: the public page on data types, OCP's FP8 and MX specifications, IEEE 754; f8e3 and f8e4 as
`include/hw/isa.h` decides them. A code is an unsigned integer of the type's width. Conversions to a type round
to nearest even; what is too large becomes infinity in a float, the nearest end of the range in an integer.
"""
import numpy as np


class Format:
    """A type: `widen` reads codes as the fp32 in which engines compute, `narrow` writes them."""

    def __init__(self, name, size):
        self.name, self.size = name, size
        self.code = np.dtype(f"<u{size}")


class Integer(Format):
    floating = False

    def __init__(self, name):
        super().__init__(name, int(name[1:]) // 8)
        self.number = np.dtype(f"<{name[0]}{self.size}")
        info = np.iinfo(self.number)
        self.lowest, self.highest = int(info.min), int(info.max)

    def integers(self, codes):
        """Exact values, as 64-bit integers."""
        return codes.view(self.number).astype(np.int64)

    def codes_of(self, integers):
        """Of integers, modulo the width."""
        return np.asarray(integers).astype(np.int64).astype(self.number).view(self.code)

    def widen(self, codes):
        return codes.view(self.number).astype(np.float32)

    def narrow(self, values):
        # To nearest even, saturated: the release notes of NKI. NaN gives 0: nothing public says so.
        values = np.nan_to_num(np.rint(np.asarray(values, np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return self.codes_of(np.clip(values, self.lowest, self.highest))


class Float(Format):
    floating = True

    def __init__(self, name, size, exponent, mantissa, bias, infinite=True):
        super().__init__(name, size)
        self.mantissa, self.infinite = mantissa, infinite
        self.lowest_exponent = 1 - bias
        self.sign = 1 << (exponent + mantissa)
        self.top = ((1 << exponent) - 1) << mantissa  # Code of infinity, where there is one
        self.largest_code = self.top - 1 if infinite else self.top + (1 << mantissa) - 2
        codes = np.arange(2 * self.sign if size < 4 else 0)
        magnitude = codes & (self.sign - 1)
        field = magnitude >> mantissa
        fraction = (magnitude & ((1 << mantissa) - 1)) + np.where(field > 0, 1 << mantissa, 0)
        values = np.ldexp(fraction.astype(np.float64), np.maximum(field, 1) - bias - mantissa)
        if infinite:
            values[magnitude >= self.top] = np.nan
            values[magnitude == self.top] = np.inf
        else:
            values[magnitude == self.sign - 1] = np.nan
        self.table = np.where(codes & self.sign, -values, values).astype(np.float32)

    def widen(self, codes):
        return self.table[codes]

    def narrow(self, values):
        values = np.asarray(values, np.float64)
        size = np.abs(np.where(np.isfinite(values), values, 0.0))
        exponent = np.maximum(np.frexp(size)[1] - 1, self.lowest_exponent)
        steps = np.rint(np.ldexp(size, self.mantissa - exponent)).astype(np.int64)
        codes = np.where(size > 0, steps + ((exponent - self.lowest_exponent) << self.mantissa), 0)
        too_large = self.top if self.infinite else self.sign - 1
        codes = np.where((codes > self.largest_code) | np.isinf(values), too_large, codes)
        nan = self.top | (1 << (self.mantissa - 1)) if self.infinite else self.sign - 1
        codes = np.where(np.isnan(values), nan, codes + np.where(np.signbit(values), self.sign, 0))
        return codes.astype(self.code)


class Single(Float):
    """fp32 itself, and tf32 that has the bits of one in memory: its cases leave the last 13 at zero."""

    def __init__(self, name):
        super().__init__(name, 4, 8, 23, 127)

    def widen(self, codes):
        return codes.view("<f4")

    def narrow(self, values):
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return np.asarray(values).astype("<f4").view("<u4")


FORMATS = {f.name: f for f in [
    Single("f32"), Single("tf32"), Float("bf16", 2, 8, 7, 127), Float("f16", 2, 5, 10, 15),
    Float("f8e3", 1, 3, 4, 3), Float("f8e4", 1, 4, 3, 7), Float("f8e5", 1, 5, 2, 15),
    Float("f8e4fn", 1, 4, 3, 7, infinite=False),
    *(Integer(name) for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"))]}
# What every generation has, on all engines; those of 64 bits came with the third, on GpSimd.
INTEGERS = [name for name, f in FORMATS.items() if not f.floating and f.size <= 4]
# What every generation has; f8e4fn came with the fourth.
FLOATS = ["f32", "bf16", "f16", "f8e3", "f8e4", "f8e5"]
# The codes of an element of the block-scaled types, from its lowest bits on: their format and number of bits.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
