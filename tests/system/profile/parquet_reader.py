#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the Parquet files of a folder by the format's published definition, independently of the
program that writes them, and prints them as one JSON object: {"TABLE": {"rows": N, "schema": {FIELD:
TYPE}, "columns": {FIELD: [values]}}}. Uncompressed files, plain and dictionary encodings, and lists of texts.
Fails with a sentence on whatever the definition does not allow."""
import json
import pathlib
import struct
import sys


class Thrift:
    """The compact protocol; structs become {number: value}."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            size = self.varint()
            self.at += size
            return bytes(self.data[self.at - size : self.at])
        if kind == 9:
            head = self.data[self.at]
            self.at += 1
            count = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"type {kind} of thrift at byte {self.at}")

    def struct(self):
        fields, number = {}, 0
        while True:
            head = self.data[self.at]
            self.at += 1
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields[number] = self.value(head & 15)


def hybrid(data, at, end, width, count):
    """Run lengths and packed bits."""
    out, thrift = [], Thrift(data, at)
    while len(out) < count:
        if thrift.at >= end:
            raise ValueError("a page ends before its values")
        head = thrift.varint()
        if head & 1:
            size = (head >> 1) * width
            bits = int.from_bytes(data[thrift.at : thrift.at + size], "little")
            thrift.at += size
            mask = (1 << width) - 1
            out += [bits >> width * n & mask for n in range((head >> 1) * 8)]
        else:
            size = (width + 7) // 8
            value = int.from_bytes(data[thrift.at : thrift.at + size], "little")
            thrift.at += size
            out += [value] * (head >> 1)
    return out[:count]


def plain(kind, data, count):
    if kind == 0:
        return [bool(data[n // 8] >> n % 8 & 1) for n in range(count)]
    if kind == 6:
        out, at = [], 0
        for _ in range(count):
            (size,) = struct.unpack_from("<I", data, at)
            out.append(data[at + 4 : at + 4 + size].decode())
            at += 4 + size
        if at != len(data):
            raise ValueError("bytes behind the texts of a page")
        return out
    form = {1: "i", 2: "q", 4: "f", 5: "d"}[kind]
    if len(data) != count * struct.calcsize(form):
        raise ValueError(f"{len(data)} bytes for {count} numbers")
    return list(struct.unpack(f"<{count}{form}", data))


LISTED = 3  # the level of a list's text: optional list, repeated element, optional text


def chunk(data, meta, most):
    """`most`: the level of a value that is there; 0 for a field that every row has."""
    kind, values, dictionary = meta[1], [], None
    begin = min(meta[9], meta.get(11, meta[9]))
    at, end = begin, begin + meta[7]
    if meta[4] != 0:
        raise ValueError("a compressed chunk")
    while at < end:
        thrift = Thrift(data, at)
        header = thrift.struct()
        page = data[thrift.at : thrift.at + header[3]]
        at = thrift.at + header[3]
        if header[1] == 2:
            dictionary = plain(kind, page, header[7][1])
            continue
        count, encoding = header[5][1], header[5][2]
        levels, repeats, place = [most] * count, [0] * count, 0
        if most == LISTED:
            (size,) = struct.unpack_from("<I", page, 0)
            repeats, place = hybrid(page, 4, 4 + size, 1, count), 4 + size
        if most:
            (size,) = struct.unpack_from("<I", page, place)
            levels = hybrid(page, place + 4, place + 4 + size, most.bit_length(), count)
            place += 4 + size
        if any(level > most for level in levels):
            raise ValueError("a level beyond that of a value")
        present = levels.count(most)
        if encoding == 8:
            width = page[place]
            found = [dictionary[n] for n in hybrid(page, place + 1, len(page), width, present)]
        elif encoding == 0:
            found = plain(kind, page[place:], present)
        else:
            raise ValueError(f"encoding {encoding}")
        rest = iter(found)
        for level, repeat in zip(levels, repeats, strict=True):
            if most != LISTED:
                values.append(next(rest) if level == most else None)
            elif repeat:
                values[-1].append(next(rest))
            else:
                values.append(None if level == 0 else [] if level == 1 else [next(rest) if level == most else None])
    if len(values) != meta[5]:
        raise ValueError(f"a chunk has {len(values)} values, and says {meta[5]}")
    return values


def read(path):
    data = path.read_bytes()
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("no Parquet file")
    (size,) = struct.unpack("<I", data[-8:-4])
    footer = Thrift(data, len(data) - 8 - size)
    meta = footer.struct()
    if footer.at != len(data) - 8:
        raise ValueError("bytes behind the footer's struct")
    root, *elements = meta[2]
    fields = []  # (name, path, element of the values, level of a value)
    while elements:
        field = elements.pop(0)
        path, most = [field[4]], 0 if field[3] == 0 else 1
        if 5 in field:  # a group: a list of texts
            group, field = elements.pop(0), elements.pop(0)
            if (most, group[3], group[5], field[3]) != (1, 2, 1, 1):
                raise ValueError(f"{path} is no list of texts")
            path, most = [*path, group[4], field[4]], LISTED
        fields.append((path[0].decode(), path, field, most))
    if root[5] != len(fields):
        raise ValueError("the schema's root counts other fields than there are")
    columns = {name: [] for name, *_ in fields}
    for group in meta[4]:
        for (name, path, field, most), of in zip(fields, group[1], strict=True):
            if of[3][3] != path or of[3][1] != field[1]:
                raise ValueError(f"the chunk of {name} is of another field")
            values = chunk(data, of[3], most)
            if len(values) != group[3]:
                raise ValueError(f"{name} has {len(values)} values in a group of {group[3]} rows")
            columns[name] += values
    names = ["bool", "i32", "i64", "", "f32", "f64", "str"]
    schema = {
        name: "array of str" if most == LISTED else names[field[1]] + ("" if most else "!")
        for name, _, field, most in fields
    }
    return {"rows": meta[3], "schema": schema, "columns": columns}


if __name__ == "__main__":
    tables = {}
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.parquet")):
        try:
            tables[file.stem] = read(file)
        except (ValueError, KeyError, IndexError, struct.error) as error:
            sys.exit(f"{file}: {error!r}")
    json.dump(tables, sys.stdout)
