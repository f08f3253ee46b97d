# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models and HLO modules as bytes, written from the public field numbers: no package of
protobuf is needed, and nothing of the importers is used."""
import numpy as np


def varint(number):
    number &= (1 << 64) - 1
    text = b""
    while True:
        byte, number = number & 127, number >> 7
        text += bytes([byte | (128 if number else 0)])
        if not number:
            return text


def whole(field, number):
    return varint(field << 3) + varint(number)


def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


# PrimitiveType of XLA
TYPES = {"bool": 1, "int32": 4, "int64": 5, "uint32": 8, "float16": 10, "float32": 11}
_TUPLE = 13


class Onnx:
    """A graph whose values are named; inputs may have free dimensions, by name."""

    def __init__(self, opset=13):
        self.graph, self.opset = b"", opset

    def node(self, operator, inputs, output):
        body = b"".join(text(1, name) for name in inputs) + text(2, output) + text(4, operator)
        self.graph += text(1, body)
        return output

    def constant(self, name, array):
        array = np.asarray(array, np.float32)
        body = b"".join(whole(1, size) for size in array.shape) + whole(2, 1)
        self.graph += text(5, body + text(8, name) + text(9, array.astype("<f4").tobytes()))
        return name

    def _value(self, field, name, shape):
        sizes = b"".join(text(1, text(2, size) if isinstance(size, str) else whole(1, size))
                         for size in shape)
        tensor = whole(1, 1) + text(2, sizes)
        self.graph += text(field, text(1, name) + text(2, text(1, tensor)))
        return name

    def input(self, name, shape):
        return self._value(11, name, shape)

    def output(self, name, shape):
        return self._value(12, name, shape)

    def bytes(self):
        graph = self.graph + text(2, "graph")
        return whole(1, 8) + text(7, graph) + text(8, text(1, "") + whole(2, self.opset))


class Hlo:
    """An entry computation; every method that adds an instruction returns its number."""

    def __init__(self):
        self.instructions, self.combiners, self.others = [], [], []
        self.aliases, self.names, self.shapes = b"", [], {}
        self.parameters = 0

    @staticmethod
    def _shape(dtype, sizes):
        layout = text(1, b"".join(varint(i) for i in reversed(range(len(sizes)))))
        return whole(2, TYPES[dtype]) + text(3, b"".join(map(varint, sizes))) + text(5, layout)

    def add(self, opcode, sizes, operands=(), dtype="float32", name=None, extra=b""):
        number = len(self.instructions) + 1
        body = text(1, name or f"{opcode}.{number}") + text(2, opcode)
        body += text(3, self._shape(dtype, sizes)) + whole(35, number)
        body += b"".join(whole(36, operand) for operand in operands) + extra
        self.instructions.append(body)
        self.shapes[number] = tuple(sizes)
        return number

    def parameter(self, name, sizes, dtype="float32"):
        number = self.add("parameter", sizes, dtype=dtype, name=name,
                          extra=whole(9, self.parameters))
        self.parameters += 1
        return number

    def constant(self, value):
        literal = text(1, self._shape("float32", ())) + text(8, np.float32(value).tobytes())
        return self.add("constant", (), extra=text(8, literal))

    def broadcast(self, operand, sizes, axes=()):
        return self.add("broadcast", sizes, [operand],
                        extra=text(14, b"".join(varint(axis) for axis in axes)))

    def full(self, value, sizes):
        return self.broadcast(self.constant(value), sizes)

    def map(self, opcode, *operands):
        return self.add(opcode, self.shapes[operands[0]], operands)

    def compare(self, a, b, direction):
        return self.add("compare", self.shapes[a], [a, b], "bool", extra=text(63, direction))

    def tuple(self, opcode, parts, operands, extra=b""):
        """An instruction whose result is a tuple; the numbers of its elements. `parts`: type and
        sizes of each."""
        number = len(self.instructions) + 1
        shape = whole(2, _TUPLE) + b"".join(text(4, self._shape(*part)) for part in parts)
        body = text(1, f"{opcode}.{number}") + text(2, opcode) + text(3, shape) + whole(35, number)
        self.instructions.append(body + b"".join(whole(36, i) for i in operands) + extra)
        return [self.add("get-tuple-element", sizes, [number], dtype, extra=whole(13, place))
                for place, (dtype, sizes) in enumerate(parts)]

    def computation(self, write):
        """The number of a computation that `write` writes with an Hlo of its own; it returns the
        root."""
        other = Hlo()
        root = write(other)
        number = 1000 + len(self.others)
        body = text(1, f"other.{number}") + b"".join(text(2, i) for i in other.instructions)
        self.others.append(body + whole(5, number) + whole(6, root))
        return number

    def convolution(self, x, kernel, sizes, labels, window, groups=1, batch_groups=1):
        """`labels`: as in "b01f_01io_b01f"; `window`: size, stride, padding low and high, dilation
        of the window and of the image, and reversal of each dimension."""
        image, filters, result = labels.split("_")
        numbers = b""
        for field, of, letter in ((7, image, "b"), (8, image, "f"), (3, filters, "i"),
                                  (4, filters, "o"), (9, result, "b"), (10, result, "f")):
            numbers += whole(field, of.index(letter))
        for field, of in ((11, image), (6, filters), (12, result)):
            numbers += b"".join(whole(field, of.index(str(i))) for i in range(len(window)))
        dimensions = b"".join(
            text(1, b"".join(whole(field + 1, int(value)) for field, value in enumerate(d)))
            for d in window)
        return self.add("convolution", sizes, [x, kernel],
                        extra=text(15, dimensions) + text(16, numbers) + whole(50, groups)
                        + whole(58, batch_groups))

    def dot(self, a, b, left, right):
        """Sums over axis `left` of a and `right` of b, both matrices."""
        sizes = (self.shapes[a][1 - left], self.shapes[b][1 - right])
        numbers = text(1, varint(left)) + text(2, varint(right))
        return self.add("dot", sizes, [a, b], extra=text(30, numbers))

    def dot_general(self, a, b, contracted, batch=((), ())):
        """`contracted` and `batch`: dimensions of a, and those of b that they meet."""
        left, right = self.shapes[a], self.shapes[b]
        sizes = [left[i] for i in batch[0]]
        for side, shape in enumerate((left, right)):
            used = (*contracted[side], *batch[side])
            sizes += [size for i, size in enumerate(shape) if i not in used]
        numbers = b"".join(text(field, b"".join(map(varint, axes)))
                           for field, axes in enumerate((*contracted, *batch), 1))
        return self.add("dot", sizes, [a, b], extra=text(30, numbers))

    def reshape(self, x, sizes):
        return self.add("reshape", sizes, [x])

    def transpose(self, x, order):
        return self.add("transpose", [self.shapes[x][i] for i in order], [x],
                        extra=text(14, b"".join(map(varint, order))))

    def rows(self, table, numbers):
        """The rows of a matrix whose numbers are given, [count, 1]."""
        dimensions = text(1, varint(1)) + text(2, varint(0)) + text(3, varint(0)) + whole(4, 1)
        count, width = self.shapes[numbers][0], self.shapes[table][1]
        return self.add("gather", (count, width), [table, numbers],
                        extra=text(33, dimensions) + text(34, varint(1) + varint(width)))

    def add_rows(self, table, numbers, rows):
        """The matrix, with rows added where their numbers say."""
        dimensions = text(1, varint(1)) + text(2, varint(0)) + text(3, varint(0)) + whole(4, 1)
        return self.add("scatter", self.shapes[table], [table, numbers, rows],
                        extra=text(48, dimensions) + whole(38, self.combiner("add")))

    def reduce(self, operand, start, axes, opcode):
        kept = [s for i, s in enumerate(self.shapes[operand]) if i not in axes]
        return self.add("reduce", kept, [operand, self.constant(start)],
                        extra=text(14, b"".join(map(varint, axes)))
                        + whole(38, self.combiner(opcode)))

    def combiner(self, opcode):
        """The number of a computation of two numbers."""
        if opcode not in self.combiners:
            self.combiners.append(opcode)
        return 2 + self.combiners.index(opcode)

    def alias(self, output, parameter):
        entry = text(1, varint(output)) + whole(2, parameter)
        self.aliases += text(1, entry)

    def bytes(self, results, names):
        """The module that gives these results under these names."""
        number = len(self.instructions) + 1
        parts = b"".join(text(4, self._shape("float32", self.shapes[r])) for r in results)
        attribute = text(1, text(1, "neff_output_names") + text(2, ",".join(names)))
        root = text(1, "result") + text(2, "tuple") + text(3, whole(2, 13) + parts)
        root += whole(35, number) + b"".join(whole(36, r) for r in results) + text(68, attribute)
        entry = text(1, "main") + b"".join(text(2, i) for i in self.instructions + [root])
        computations = [entry + whole(5, 1) + whole(6, number)]
        scalar = self._shape("float32", ())
        for place, opcode in enumerate(self.combiners):
            first = 100000 + 10 * place
            body = text(1, f"combine.{opcode}")
            for i in range(2):
                body += text(2, text(1, f"p{i}") + text(2, "parameter") + text(3, scalar)
                             + whole(9, i) + whole(35, first + i))
            body += text(2, text(1, opcode) + text(2, opcode) + text(3, scalar)
                         + whole(35, first + 2) + whole(36, first) + whole(36, first + 1))
            computations.append(body + whole(5, 2 + place) + whole(6, first + 2))
        computations += self.others
        module = text(1, "module") + b"".join(text(3, c) for c in computations)
        return module + whole(6, 1) + text(8, self.aliases)
