# SPDX-License-Identifier: Apache-2.0
"""Element types: names as NKI has them, and how NumPy holds their values.

NumPy has no bfloat16 and no 8-bit floats. Where ml_dtypes is importable its types are used;
elsewhere arrays of class Encoded hold the bits, and ``to_float32`` and ``encode`` convert.
"""
import functools

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class DType(str):
    """The name of a type. Equal to the name, to NumPy's type and to ml_dtypes' type of that name."""

    __slots__ = ()

    def __eq__(self, other):
        return str.__eq__(self, other) if isinstance(other, str) else name_of(other) == str(self)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    @property
    def itemsize(self):
        return SIZES[str(self)]

    @property
    def name(self):
        return str(self)


SIZES = {
    "float32": 4, "tfloat32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2,
    "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3": 1, "float8_e5m2": 1,
    "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "float8_e5m2_x4": 4, "float8_e4m3fn_x4": 4,
    "float4_e2m1fn_x4": 2,
}
TYPES = {name: DType(name) for name in SIZES}
for _name, _type in TYPES.items():
    setattr(DType, _name, _type)  # nki.dtype.bfloat16, as NKI has it
FLOATS = {"float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2",
          "float8_e4m3fn"}
# An element of an x4 type is four codes, the first in the lowest bits.
CODES = {"float8_e5m2_x4": "float8_e5m2", "float8_e4m3fn_x4": "float8_e4m3fn",
         "float4_e2m1fn_x4": "float4_e2m1fn"}
GENERATION_4 = {"float8_e4m3fn", "float8_e8m0fnu", *CODES}
INTEGERS = {"int32": (-2**31, 2**31 - 1), "uint32": (0, 2**32 - 1), "int16": (-2**15, 2**15 - 1),
            "uint16": (0, 2**16 - 1), "int8": (-128, 127), "uint8": (0, 255), "bool": (0, 255)}
_STORED = {"bfloat16": np.uint16, "float8_e4m3": np.uint8, "float8_e5m2": np.uint8,
           "tfloat32": np.float32, "bool": np.uint8, "float8_e4m3fn": np.uint8,
           "float8_e8m0fnu": np.uint8, "float8_e5m2_x4": np.uint32, "float8_e4m3fn_x4": np.uint32,
           "float4_e2m1fn_x4": np.uint16}
# Exponent and mantissa bits, and the exponent's bias.
_LAYOUT = {"bfloat16": (8, 7, 127), "float8_e4m3": (4, 3, 7), "float8_e5m2": (5, 2, 15),
           "float8_e4m3fn": (4, 3, 7)}


def name_of(dtype):
    """NKI's name of a type that a kernel or a caller wrote; None if there is none."""
    if isinstance(dtype, str):
        return {"bool_": "bool", "int": None}.get(str(dtype), str(dtype))
    nki_name = getattr(dtype, "nki_name", None)
    if nki_name:
        return nki_name
    try:
        return {"bool": "bool"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    except TypeError:
        return getattr(dtype, "__name__", None)


def dtype_of(dtype):
    """The DType of anything that names one; refuses what NKI has none for: int64 too, which chips have from trn2 on."""
    name = name_of(dtype)
    if name not in TYPES:
        hint = {"float64": "; use float32", "int64": "; use int32", "uint64": "; use uint32"}
        raise TypeError(f"{name or dtype!r} is no data type of NKI{hint.get(name, '')}")
    return TYPES[name]


class Encoded(np.ndarray):
    """Bits of a type that NumPy does not have; ``nki_dtype`` says which. float() decodes them."""

    def __new__(cls, bits, dtype):
        array = np.asarray(bits).view(cls)
        array.nki_dtype = dtype_of(dtype)
        return array

    def __array_finalize__(self, other):
        self.nki_dtype = getattr(other, "nki_dtype", None)

    def float(self):
        return to_float32(self)

    def __repr__(self):
        return f"Encoded({to_float32(self)!r}, dtype={self.nki_dtype})"


def array_dtype(array):
    """The DType of a NumPy array."""
    tagged = getattr(array, "nki_dtype", None)
    return tagged if tagged is not None else _of_numpy(array.dtype)


@functools.lru_cache(maxsize=64)
def _of_numpy(dtype):
    return dtype_of(dtype)  # NumPy makes the name of a type anew each time


def native(array):
    """The array in this machine's order of bytes, as the device has it; no copy if it is already."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def storage_type(dtype):
    """NumPy's type for the bytes of a DType."""
    name = str(dtype)
    return np.dtype(_STORED.get(name, name))


def from_bytes(data, dtype, shape):
    """An array for a caller, over the bytes that the device gave."""
    name = str(dtype)
    array = np.frombuffer(data, dtype=storage_type(dtype)).reshape(shape)
    if name not in _LAYOUT and name not in GENERATION_4:
        return array
    theirs = getattr(ml_dtypes, name, None) if ml_dtypes else None
    return array.view(theirs) if theirs is not None else Encoded(array, dtype)


def to_float32(array):
    """The values as float32, whatever form they have; exact for all types of at most 16 bits."""
    tagged = getattr(array, "nki_dtype", None)
    name = str(tagged) if tagged is not None else np.asarray(array).dtype.name
    if name in CODES:
        return _codes_to_float32(np.asarray(array).view(np.ndarray), name)
    if name == "float8_e8m0fnu" and tagged is not None:
        bits = np.asarray(array).view(np.ndarray)
        return np.where(bits == 255, np.nan, np.ldexp(1.0, bits.astype(int) - 127)).astype(np.float32)
    if name not in _LAYOUT:
        return np.asarray(array).astype(np.float32)
    if tagged is None:
        return np.asarray(array).astype(np.float32)
    bits = np.asarray(array).view(np.ndarray)
    if name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _TABLES[name][bits]


def _codes_to_float32(array, name):
    """The codes of x4 elements without their scales: four columns for each."""
    bits = 8 * array.itemsize // 4
    codes = array[..., None] >> (bits * np.arange(4, dtype=array.dtype)) & array.dtype.type(2**bits - 1)
    codes = codes.reshape(*array.shape[:-1], -1)
    if bits == 8:
        return _TABLES[CODES[name]][codes]
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    return np.where(codes >> 3, -1, 1).astype(np.float32) * sizes[codes & 7]


def _table(name):
    exponent_bits, mantissa_bits, bias = _LAYOUT[name]
    bits = np.arange(256)
    sign = np.where(bits >> 7, -1.0, 1.0)
    exponent = bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    normal = (1 + mantissa / 2.0**mantissa_bits) * 2.0**(exponent - bias)
    small = mantissa / 2.0**mantissa_bits * 2.0**(1 - bias)
    value = np.where(exponent == 0, small, normal)
    if name.endswith("fn"):  # No infinity: the highest code is the only NaN
        value = np.where(bits & 0x7F == 0x7F, np.nan, np.where(exponent, normal, small))
    else:
        value = np.where(exponent == (1 << exponent_bits) - 1, np.where(mantissa, np.nan, np.inf), value)
    return (sign * value).astype(np.float32)


_TABLES = {name: _table(name) for name in ("float8_e4m3", "float8_e5m2", "float8_e4m3fn")}


def round_to(values, dtype):
    """float64 values rounded to what a type can hold (nearest even; integers saturate)."""
    name = str(dtype)
    values = np.asarray(values, dtype=np.float64)
    if name in INTEGERS:
        least, most = INTEGERS[name]
        return np.clip(np.nan_to_num(np.rint(values), nan=0.0, posinf=most, neginf=least), least, most)
    with np.errstate(over="ignore", invalid="ignore"):
        if name in ("float32", "float16"):
            return values.astype(name).astype(np.float64)
        if name == "tfloat32":
            return _round_bits(values, 10, -126, 127)
        exponent_bits, mantissa_bits, bias = _LAYOUT[name]
        if name.endswith("fn"):  # The largest number is 448; what is larger becomes NaN
            rounded = _round_bits(values, mantissa_bits, 1 - bias, 1 + bias)
            return np.where(np.abs(rounded) > 448, np.nan, rounded)
        top = (1 << exponent_bits) - 2 - bias
        return _round_bits(values, mantissa_bits, 1 - bias, top)


def _round_bits(values, mantissa_bits, least_exponent, top_exponent):
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0))
    unit = np.ldexp(1.0, np.maximum(exponent - 1, least_exponent) - mantissa_bits)
    rounded = np.where(np.isfinite(values), np.rint(values / unit) * unit, values)
    largest = np.ldexp(2.0 - 2.0**-mantissa_bits, top_exponent)
    return np.where(np.abs(rounded) > largest, np.copysign(np.inf, rounded), rounded)


def encode(values, dtype):
    """An array of the type with these values, rounded to nearest even."""
    name = str(dtype_of(dtype))
    if name in CODES or name == "float8_e8m0fnu":
        raise TypeError(f"encode() does not make {name}: its numbers have a scale; give the bits to "
                        "nki.Encoded, or use nisa.quantize_mx")
    if name not in _LAYOUT:
        return round_to(values, name).astype(storage_type(name))
    if ml_dtypes and hasattr(ml_dtypes, name):
        return np.asarray(values).astype(getattr(ml_dtypes, name))
    rounded = round_to(values, name)
    if name == "bfloat16":
        return Encoded((rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), name)
    table = _TABLES[name]
    order = np.argsort(np.nan_to_num(table, nan=np.inf), kind="stable")
    bits = order[np.searchsorted(table[order], rounded.astype(np.float32))].astype(np.uint8)
    bits = np.where(np.isnan(rounded), np.uint8(0x7F), bits)
    bits = np.where(rounded == 0, np.where(np.signbit(rounded), 0x80, 0), bits).astype(np.uint8)
    return Encoded(bits, name)
