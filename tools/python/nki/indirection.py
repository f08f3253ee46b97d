# SPDX-License-Identifier: Apache-2.0
"""Indirect operands for the reference of Kernel.check(): the elements that offsets name, as plain tiles."""
import numpy as np

_TENSOR_GROUP, _GROUP = 32, 16  # Partitions that share their offsets


def whole(operand):
    """The part of a tile that the offsets of an indirect operand reach into; any other operand itself."""
    return {key: value for key, value in operand.items() if key not in ("index", "elements")}


def has_indirection(record):
    return any(isinstance(value, dict) and "index" in value for value in record.values())


def _offsets(memory, record, operand):
    """Of each element, [partitions, elements]: those of a group lie partition by partition."""
    index = memory.bits(operand["index"]).astype(np.int64)
    group = _TENSOR_GROUP if record["op"].startswith("nc_matmul") else _GROUP
    part, element = np.arange(operand["parts"])[:, None], np.arange(operand["elements"])[None, :]
    return index[part // group * group + element % group, element // group]


def on_plain_tiles(memory, record):
    """The record with gathered tiles in place of indirect operands, and the offsets of its dst."""
    plain, of_dst = dict(record), None
    for key, operand in record.items():
        if not isinstance(operand, dict) or "index" not in operand:
            continue
        offsets = _offsets(memory, record, operand)
        gathered = np.take_along_axis(memory.bits(whole(operand)), offsets, 1)
        tile = f"the elements of {key}"
        memory.bytes[tile] = np.ascontiguousarray(gathered).view(np.uint8)
        plain[key] = {"tile": tile, "dtype": operand["dtype"], "start": 0, "offset": 0,
                      "parts": operand["parts"], "pattern": [[1, operand["elements"]]]}
        if key == "dst":
            of_dst = offsets
    return plain, of_dst


def _into(old, offsets, new):
    new = np.broadcast_to(new, offsets.shape)
    for element in range(offsets.shape[1]):  # The last that goes to a place stays
        old[np.arange(len(old)), offsets[:, element]] = new[:, element]
    return old


def scattered(memory, base, offsets, values, magnitude, is_bits):
    """The result of an instruction, as what the whole of its destination then holds."""
    if is_bits:
        return base, _into(memory.bits(base), offsets, np.asarray(values).reshape(offsets.shape)), None, True
    before = memory.read(base)
    return base, _into(before.copy(), offsets, values), _into(np.abs(before), offsets, magnitude), False
