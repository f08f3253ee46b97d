# SPDX-License-Identifier: Apache-2.0
"""One random case: its instructions as text, its piece of memory before and after, what must be equal.

A case has bytes of its own in all 128 partitions of SBUF, which other cases of the program share side by side. It
is made from the seed and its number alone, so it can be repeated without the others. Operands in PSUM have a home in
these bytes, too: Vector copies them to PSUM in front of the instructions, and back behind them.
"""
import random
from dataclasses import dataclass, field

import numpy as np

from formats import FLOATS, FORMATS, INTEGERS

PARTITIONS = 128
BANK = 2048


@dataclass
class Tile:
    """An operand. `home` is its first byte in the memory of the case, `base` the one in its own space."""
    space: str
    start: int
    parts: int
    base: int
    home: int
    dtype: str
    dims: list  # (size, step in elements), outermost first
    span: tuple = (0, 0)  # first byte in the case's memory, bytes
    places: np.ndarray = field(default=None, repr=False)

    def __post_init__(self):
        at = np.zeros(1, np.int64)
        for size, step in self.dims:
            at = (at[:, None] + step * np.arange(size)[None, :]).reshape(-1)
        size = FORMATS[self.dtype].size
        self.places = self.home + at[:, None] * size + np.arange(size)[None, :]

    @property
    def rows(self):
        return slice(self.start, self.start + self.parts)

    @property
    def count(self):
        return len(self.places)

    def read(self, memory):
        """Codes [partitions, elements]."""
        found = np.ascontiguousarray(memory[self.rows][:, self.places])
        return found.view(FORMATS[self.dtype].code)[..., 0]

    def write(self, memory, codes):
        f = FORMATS[self.dtype]
        codes = np.ascontiguousarray(np.broadcast_to(codes, (self.parts, self.count)).astype(f.code))
        memory[self.rows][:, self.places.reshape(-1)] = codes.view(np.uint8).reshape(self.parts, -1)

    def place(self):
        # The program puts the place of the case in front of what is between the signs.
        return f"@{self.base}@" if self.space == "sbuf" else str(self.base)

    def __str__(self):
        dims = ", ".join(f"{size}:{step}" for size, step in self.dims)
        return f"{self.space}[{self.start}:{self.parts}, {self.place()}] {self.dtype} [{dims}]"

    def pointer(self):
        return f"&{self.space}[{self.start}, {self.place()}] {self.dtype}"


@dataclass
class Expected:
    """What an instruction must have left in a tile."""
    tile: Tile
    codes: np.ndarray
    low: np.ndarray = None  # Between which numbers, where the bits are not defined
    high: np.ndarray = None
    zero_sign: bool = True
    moved: bool = False  # Bits that keep whatever they mean, payloads of NaN too
    options: tuple = ()  # Codes of which each element must have one
    undefined: np.ndarray = None  # Where no source says what there is
    why: str = ""


class Case:
    def __init__(self, generation, seed, number):
        self.generation, self.seed, self.number = generation, seed, number
        self.choose = random.Random(f"{seed} {number}")
        self.numbers = np.random.RandomState(self.choose.randrange(1 << 32))
        self.name = ""
        self.before = np.empty((PARTITIONS, 0), np.uint8)
        self.after = self.before.copy()
        self.steps = []  # (engine, text)
        self.psum = []  # tiles that live there
        self.bank = 0
        self.expected = []

    # Choices

    def one(self, *values):
        return self.choose.choice(values)

    def chance(self, share):
        return self.choose.random() < share

    def parts(self, multiple=1, most=PARTITIONS):
        n = self.one(1, 7, 16, 31, 32, 33, 48, 64, 65, 96, 100, 128, self.choose.randint(1, 128))
        n = min(n, most)
        return max(multiple, n // multiple * multiple)

    def start(self, parts):
        # Where as many partitions may begin: rules of the architecture guide.
        return 0 if parts > 64 else self.one(0, 64) if parts > 32 else self.one(0, 32, 64, 96)

    def count(self, most=96):
        return self.one(1, 2, 5, 8, 31, 32, 64, 96, self.choose.randint(1, 96)) if most >= 96 else \
            self.choose.randint(1, most)

    # Operands

    def _grow(self, size, element):
        """`size` bytes in each partition, behind some that belong to nobody, for elements of `element` bytes."""
        self._bytes(4 * self.choose.randint(0, 4))
        if self.before.shape[1] % element:  # Only of 8 bytes: all bytes come by fours
            self._bytes(element - self.before.shape[1] % element)
        first = self.before.shape[1]
        self._bytes((size + 3) // 4 * 4)
        return first

    def _bytes(self, size):
        # Noise: a stray write is seen, and so is what an operand reads too much.
        noise = np.frombuffer(self.numbers.bytes(PARTITIONS * size), np.uint8).reshape(PARTITIONS, size)
        self.before = np.concatenate([self.before, noise], axis=1)
        self.after = np.concatenate([self.after, noise], axis=1)

    def shape_of(self, count):
        """A shape of up to four dimensions with as many elements."""
        sizes = [count]
        for _ in range(self.one(0, 0, 1, 1, 2, 3)):
            at = self.choose.randrange(len(sizes))
            divisors = [d for d in range(2, sizes[at]) if sizes[at] % d == 0]
            if divisors:
                d = self.choose.choice(divisors)
                sizes[at:at + 1] = [d, sizes[at] // d]
        return sizes

    def _layout(self, sizes, written, dense):
        """Steps for sizes, the element of index 0, and how many elements lie between first and last."""
        if dense:
            steps, extent = [], 1
            for size in reversed(sizes):
                steps.insert(0, extent)
                extent *= size
            return steps, 0, extent
        order = list(range(len(sizes)))
        self.choose.shuffle(order)
        if self.chance(0.5):
            order = list(reversed(range(len(sizes))))
        steps, first, extent = [0] * len(sizes), 0, 1
        for d in order:
            if not written and self.chance(0.1):
                continue  # Step 0: each element is read again
            step = extent + self.one(0, 0, 0, 1, 3)
            if self.chance(0.15):
                steps[d] = -step
                first += step * (sizes[d] - 1)
            else:
                steps[d] = step
            extent += step * (sizes[d] - 1)
        return steps, first, extent

    def tile(self, parts, sizes, dtype, codes=None, *, start=None, space="sbuf", written=False, dense=False,
             padding=0):
        """`sizes` is a shape, or a number of elements for a shape of any kind. `padding`: bytes behind it."""
        if isinstance(sizes, int):
            sizes = [sizes] if dense else self.shape_of(sizes)
        size = FORMATS[dtype].size
        steps, first, extent = self._layout(list(sizes), written, dense)
        low = self._grow(extent * size + padding, size)
        home = low + first * size
        span = (low, (extent * size + 3) // 4 * 4)
        base = home
        if space == "psum":
            room = BANK - span[1] % BANK if span[1] % BANK else 0
            base = self.bank * BANK + 4 * self.choose.randint(0, room // 4)
            self.bank += (span[1] + BANK - 1) // BANK
            assert self.bank <= 8, "the case has too much in PSUM"
            base += home - low
        start = self.start(parts) if start is None else start
        tile = Tile(space, start, parts, base, home, dtype, list(zip(sizes, steps)), span)
        if space == "psum":
            self.psum.append(tile)
        if codes is not None:
            self.fill(tile, codes)
        return tile

    def fill(self, tile, codes):
        tile.write(self.before, codes)
        tile.write(self.after, codes)

    def source(self, parts, sizes, dtype, kind="wild", **more):
        tile = self.tile(parts, sizes, dtype, **more)
        self.fill(tile, self.codes(dtype, (parts, tile.count), kind))
        return tile

    def output(self, parts, sizes, dtype, **more):
        return self.tile(parts, sizes, dtype, written=True, **more)

    def tile_of_rows(self, tile, rows):
        """The same elements of single partitions, counted from the tile's first one."""
        return [Tile(tile.space, tile.start + int(row), 1, tile.base, tile.home, tile.dtype, tile.dims, tile.span)
                for row in rows]

    # Numbers

    def codes(self, dtype, shape, kind="wild"):
        """wild: everything a type has; finite: without NaN and infinities; tame: near 1; whole: small integers."""
        f, r = FORMATS[dtype], self.numbers
        if not f.floating:
            if kind in ("tame", "whole"):
                low = 0 if f.lowest == 0 else -20
                return f.codes_of(r.randint(low, 21, shape))
            edges = np.array([f.lowest, f.lowest + 1, 0, 1, f.highest - 1, f.highest])
            wide = r.randint(-(1 << 31), 1 << 31, shape, dtype=np.int64)
            near = r.randint(-100, 101, shape)
            pick = r.randint(0, 3, shape)
            chosen = np.where(pick == 0, wide, np.where(pick == 1, near, r.choice(edges, shape)))
            return f.codes_of(chosen)
        if kind == "whole":
            return f.narrow(r.randint(-8, 9, shape).astype(np.float32))
        tame = f.narrow(r.standard_normal(shape).astype(np.float32) * 2)
        if kind == "tame":
            return tame & np.uint32(0xFFFFE000) if dtype == "tf32" else tame
        any_bits = r.randint(0, 1 << (8 * f.size), shape, dtype=np.int64).astype(f.code)
        one = int(f.narrow(np.float32(1)))
        special = np.array([0, f.sign, 1, f.sign | 1, 1 << f.mantissa, f.largest_code, f.sign | f.largest_code,
                            one, f.sign | one, (1 << f.mantissa) - 1] +
                           ([f.top, f.sign | f.top] if f.infinite else []) + [int(f.narrow(np.float32(np.nan)))])
        pick = r.randint(0, 5, shape)
        codes = np.where(pick < 3, tame, np.where(pick == 3, any_bits, r.choice(special, shape).astype(f.code)))
        codes = codes.astype(f.code)
        if kind == "finite":
            codes = np.where(np.isfinite(f.widen(codes)), codes, tame)
        elif kind == "number":
            codes = np.where(np.isnan(f.widen(codes)), tame, codes)
        return codes

    def float_type(self):
        names = FLOATS + (["f8e4fn"] if self.generation >= 4 else [])
        return self.one("f32", "bf16", self.choose.choice(names))

    def any_type(self):
        return self.float_type() if self.chance(0.7) else self.choose.choice(INTEGERS)

    def scalar(self, parts, kind="wild", pointer=None):
        """An operand of one number for each partition, as text and as [parts, 1] or a number."""
        if self.chance(0.5) if pointer is None else pointer:
            tile = self.source(parts, [1], "f32", kind)
            return tile.pointer(), self.floats(tile)
        code = self.codes("f32", (1, 1), kind)
        return f"0x{int(code[0, 0]):X} f32", FORMATS["f32"].widen(code)

    # What happens

    def floats(self, tile):
        return FORMATS[tile.dtype].widen(tile.read(self.after))

    def raw(self, tile):
        return tile.read(self.after)

    def run(self, engine, text):
        self.steps.append((engine, text))

    def expect(self, tile, values, zero_sign=True, undefined=None):
        """These fp32 numbers, written as the tile's type."""
        codes = FORMATS[tile.dtype].narrow(np.broadcast_to(values, (tile.parts, tile.count)))
        self.expect_codes(tile, codes, zero_sign, undefined, moved=False)

    def expect_codes(self, tile, codes, zero_sign=True, undefined=None, moved=True):
        codes = np.broadcast_to(codes, (tile.parts, tile.count)).astype(FORMATS[tile.dtype].code)
        tile.write(self.after, codes)
        self.expected.append(Expected(tile, codes, zero_sign=zero_sign, undefined=undefined, moved=moved))

    def expect_near(self, tile, values, bound, why):
        """A number that is at most `bound` from these, before it is written as the tile's type."""
        f = FORMATS[tile.dtype]
        values = np.broadcast_to(np.asarray(values, np.float64), (tile.parts, tile.count))
        low, high = f.narrow(values - bound), f.narrow(values + bound)
        codes = f.narrow(values)
        tile.write(self.after, codes)
        self.expected.append(Expected(tile, codes, f.widen(low), f.widen(high), zero_sign=False, why=why))

    def expect_one_of(self, tile, *options):
        tile.write(self.after, options[0])
        self.expected.append(Expected(tile, options[0], options=options))

    # The verdict

    def text(self):
        return "\n".join(f"    {engine}: {text}" for engine, text in self.steps)

    def differences(self, memory):
        """Sentences about what differs between the model and this memory of the case."""
        wanted = self.after.copy()
        for e in self.expected:
            found = e.tile.read(memory)
            bad = self._differs(e, found)
            if bad.any():
                p, i = (int(v) for v in np.argwhere(bad)[0])
                return [self._sentence(e, found, p, i, int(bad.sum()))]
            e.tile.write(wanted, found)
        stray = np.argwhere(wanted != memory)
        if len(stray):
            p, b = (int(v) for v in stray[0])
            return [f"{len(stray)} bytes outside the destination differ, the first in partition {p}, byte {b} of the "
                    f"case: found 0x{int(memory[p, b]):02X}, expected 0x{int(wanted[p, b]):02X}"]
        return []

    def _differs(self, e, found):
        f = FORMATS[e.tile.dtype]
        if e.options:
            return ~np.any([found == option for option in e.options], axis=0)
        bad = found != e.codes
        if e.undefined is not None:
            bad &= ~e.undefined
        if not f.floating:
            return bad & ((found.view(f.number) < e.low) | (found.view(f.number) > e.high)) if e.low is not None else bad
        values, wanted = f.widen(found), f.widen(e.codes)
        if not e.moved:
            bad &= ~(np.isnan(values) & np.isnan(wanted))  # No source defines payloads
        if not e.zero_sign:
            bad &= ~((values == 0) & (wanted == 0))
        if e.low is not None:
            with np.errstate(invalid="ignore"):
                bad &= ~((values >= e.low) & (values <= e.high))
        return bad

    def _sentence(self, e, found, p, i, count):
        f = FORMATS[e.tile.dtype]
        digits = 2 * f.size

        def shown(code):
            return f"0x{int(code):0{digits}X} ({f.widen(np.array([code], f.code))[0]!s})"

        wanted = " or ".join(shown(o[p, i]) for o in e.options) if e.options else shown(e.codes[p, i])
        if e.low is not None:
            wanted += f", from {e.low[p, i]!s} to {e.high[p, i]!s} by {e.why}"
        return (f"{e.tile}: {count} of {found.size} elements differ, the first in row {p} (partition "
                f"{e.tile.start + p}), element {i}: found {shown(found[p, i])}, expected {wanted}")
