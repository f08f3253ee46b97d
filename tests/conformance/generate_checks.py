#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one C or C++ source per public header with a check for every row of tables/.

Usage: generate_checks.py TABLES OUTPUT [--list]. Run at build time; --list only prints the names of
the sources, for CMake. Every row becomes exactly one entry of an
array: a comparison, or a reason why no compiler can make it. conformance_test.cpp evaluates the
arrays and counts them against the tables, so that a row cannot be forgotten.

Each source includes only the header that the row names (the layout that the table promises), so a
declaration in the wrong header does not compile. Functions, values and layouts are checked as C11
and as C++17; types of members only where the language can name them.
"""
import collections
import csv
import pathlib
import re
import sys

# A public driver changed the argument of this number; both forms have a name here.
RENAMED_IOCTL = {
    ("NEURON_IOCTL_MEM_BUF_ZEROCOPY64", "2.24.7 only"): "NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24",
}

# Rows about bits of a descriptor word, as conditions on hw/udma.h.
DESCRIPTOR = {
    ("union udma_desc (TX form)", "len_ctrl"):
        "NEURON_DESC_BYTES == 16 && NEURON_DESC_LENGTH_MASK == 0xffff && "
        "NEURON_UDMA_MAX_DESC_BYTES == 65536 && NEURON_DESC_RING_ID_SHIFT == 24 && "
        "NEURON_DESC_FIRST == 1u << 26 && NEURON_DESC_LAST == 1u << 27 && "
        "NEURON_DESC_NOTIFY == 1u << 28 && NEURON_DESC_DMB == 1u << 30",
    ("union udma_desc (RX form)", "len_ctrl"):
        "NEURON_DESC_BYTES == 16 && NEURON_DESC_LENGTH_MASK == 0xffff && "
        "NEURON_DESC_RING_ID_SHIFT == 24 && NEURON_DESC_NOTIFY == 1u << 28",
}
DESCRIPTOR_WORD = "the place of a descriptor word is prose in hw/udma.h; the tests of the DMA engine check it byte for byte"

# Arguments on which a macro and the expression in the table must agree.
MACRO_ARGUMENT = {
    "seq_id": ["0xbeef0123456789abull", "0ull", "~0ull"],
    "v": ["0ull", "55884ull", "57984ull", "1ull"],
    "base_addr": ["((uint8_t *)0x10000)"],
    "nc_index": ["0", "3", "11"],
    "nr": ["1", "64", "129"],
    "t": ["uint64_t", "uint32_t"],
}

# The header of two epochs: the tables of facts hold the older one, functions_async_3.tsv what the newer changes.
EPOCHS = "nrt/nrt_async.h"

ANONYMOUS = "an anonymous member has no name to ask for; its own members are rows and fix its place"
BUILTIN = "a function of the compiler that an inline function of the header uses, not a declaration"
UNNAMED_TYPE = "unnamed struct"


class Unit:
    """One generated source: rows for one header in one language."""

    def __init__(self, header, language, define=None):
        self.header, self.language, self.define = header, language, define
        self.preamble, self.rows, self.functions = [], [], []

    def condition(self, table, line, name, expected, expression):
        self.rows.append('{"%s", %d, "%s", "%s", %s, 0}' %
                         (table, line, escape(name), escape(expected), expression))

    def reason(self, table, line, name, reason):
        self.rows.append('{"%s", %d, "%s", "", 0, "%s"}' %
                         (table, line, escape(name), escape(reason)))

    def typedef(self, c_type):
        name = "table_type_%d" % len(self.preamble)
        self.preamble.append("typedef %s;" % declaration(c_type, name))
        return name

    def text(self, symbol):
        lines = ["#define %s" % self.define] if self.define else []
        lines += ['#include "%s"' % self.header]
        lines += ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>",
                  "#include <string.h>", "#include <sys/ioctl.h>", "#include <sys/types.h>"]
        lines.append('#include "conformance_row.h"')
        if self.language == "cpp":
            lines.append("#include <type_traits>")
            lines.append("#define SAME_TYPE(expression, type) "
                         "std::is_same<decltype(expression), type>::value")
            lines.append("#define SAME_FUNCTION(name, type) "
                         "std::is_same<decltype(&name), type *>::value")
            lines.append("#define MEMBER_TYPE(holder, member, type) "
                         "std::is_same<decltype(static_cast<holder *>(nullptr)->member), type>::value")
        else:
            # A pointer to the object keeps arrays and qualifiers apart, which a value would lose.
            lines.append("#define SAME_FUNCTION(name, type) _Generic(&name, type *: 1, default: 0)")
            lines.append("#define MEMBER_TYPE(holder, member, type) "
                         "_Generic(&((holder *)0)->member, type *: 1, default: 0)")
        lines += self.preamble + self.functions
        lines.append("static const struct conformance_row rows[] = {")
        lines += ["  %s," % row for row in self.rows]
        lines.append("};")
        if self.language == "cpp":
            lines.append('extern "C" const struct conformance_unit %s;' % symbol)
            lines.append('extern "C" {')
        lines.append("extern const struct conformance_unit %s;" % symbol)
        lines.append('const struct conformance_unit %s = {"%s", "%s", rows, sizeof(rows) / '
                     "sizeof(rows[0])};" % (symbol, self.header, self.language))
        if self.language == "cpp":
            lines.append("}")
        return "\n".join(lines) + "\n"


def escape(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def declaration(c_type, name):
    """The declaration of `name` with a type as the tables write it."""
    c_type = re.sub(r"\b_Bool\b", "bool", c_type)
    array = re.match(r"(.*?)\s*((?:\[[^\]]*\])+)$", c_type)
    if array:
        return "%s %s%s" % (array.group(1), name, array.group(2))
    return "%s %s" % (c_type, name)


def parameter_types(parameters):
    if parameters in ("void", "") or parameters.startswith("(unspecified"):
        return "void"
    types = []
    for parameter in parameters.split(";"):
        parameter = parameter.strip()
        if "(*" in parameter:
            types.append(re.sub(r"\(\*\w+\)", "(*)", parameter))
        elif re.search(r"[\w\*]\s+\w+$", parameter) and not parameter.endswith("*"):
            types.append(re.sub(r"\s*\b\w+$", "", parameter))
        else:
            types.append(parameter)
    return ", ".join(types)


def rows_of(path):
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row


class Generator:
    def __init__(self, tables):
        self.tables = tables
        self.units = collections.OrderedDict()

    def unit(self, header, language, define):
        return self.units.setdefault((header, language, define), Unit(header, language, define))

    def both(self, header, newest=False):
        define = "NRT_ASYNC_VERSION 2" if header == EPOCHS and not newest else None
        return [self.unit(header, language, define) for language in ("c", "cpp")]

    def functions(self, table="libnrt/functions", newest=False):
        for line, row in enumerate(rows_of(self.tables / (table + ".tsv")), 2):
            name = row["function"]
            types = parameter_types(row["parameters"])
            for unit in self.both(row["header"], newest):
                if name.startswith("__builtin_"):
                    unit.reason(table, line, name, BUILTIN)
                    continue
                alias = "table_function_%d" % line
                unit.preamble.append("typedef %s %s(%s);" % (row["return_type"], alias, types))
                unit.condition(table, line, name, "%s (%s)" % (row["return_type"], types),
                               "SAME_FUNCTION(%s, %s)" % (name, alias))

    def enums(self):
        for line, row in enumerate(rows_of(self.tables / "libnrt/enums.tsv"), 2):
            name, value = row["constant"], row["value"]
            for unit in self.both(row["header"]):
                terms = ["(long long)%s == %sll" % (name, value), "sizeof(%s) == 4" % name]
                names = [n.strip() for n in row["enum"].split("/")]
                if unit.language == "cpp" and names != ["(anonymous)"]:
                    terms += ["SAME_TYPE(%s, %s)" % (name, n) for n in names]
                elif names != ["(anonymous)"]:
                    terms += ["sizeof(%s) == 4" % n for n in names]
                unit.condition("libnrt/enums", line, name, "%s in %s" % (value, row["enum"]),
                               " && ".join(terms))

    def macros(self):
        for line, row in enumerate(rows_of(self.tables / "libnrt/macros.tsv"), 2):
            name, parameters = row["macro"], row["params"].strip("()")
            for unit in self.both(row["header"]):
                unit.preamble.append("#ifndef %s\n#error the header does not define %s\n#endif" %
                                     (name, name))
                if parameters:
                    reference = "TABLE_%s" % name
                    unit.preamble.append("#define %s(%s) %s" %
                                         (reference, parameters, row["expansion"]))
                    combinations = [[]]
                    for parameter in parameters.split(","):
                        combinations = [c + [a] for c in combinations
                                        for a in MACRO_ARGUMENT[parameter.strip()]]
                    terms = ["(uint64_t)%s(%s) == (uint64_t)%s(%s)" %
                             (name, ", ".join(c), reference, ", ".join(c)) for c in combinations]
                    unit.condition("libnrt/macros", line, name, row["expansion"],
                                   " && ".join(terms))
                elif row["value_x86_64"] == "":
                    unit.condition("libnrt/macros", line, name, "defined", "1")
                elif re.fullmatch(r"-?\d+", row["value_x86_64"]):
                    unit.condition("libnrt/macros", line, name, row["value_x86_64"],
                                   "(long long)(%s) == %sll" % (name, row["value_x86_64"]))
                else:
                    # Not a constant expression in C: evaluated when the test runs.
                    function = "table_text_%d" % line
                    unit.functions.append(
                        'static int %s(void) { return strcmp(%s, "%s") == 0; }' %
                        (function, name, row["value_x86_64"]))
                    unit.rows.append('{"libnrt/macros", %d, "%s", "%s", 0, 0, %s}' %
                                     (line, name, row["value_x86_64"], function))

    def member(self, unit, table, line, holder, field, c_type, offset, size):
        """A named member: its offset, its size and, where it has a name, its type."""
        name = "%s.%s" % (holder, field)
        flexible = c_type.endswith("[]")
        terms = ["offsetof(%s, %s) == %s" % (holder, field, offset)]
        if not flexible:
            terms.append("sizeof(((%s *)0)->%s) == %s" % (holder, field, size))
        if "{...}" not in c_type:
            # GCC gives a flexible array member of C an incomplete type that _Generic cannot hold.
            if not (flexible and unit.language == "c"):
                terms.append("MEMBER_TYPE(%s, %s, %s)" % (holder, field, unit.typedef(c_type)))
        unit.condition(table, line, name, "%s at %s, %s bytes" % (c_type, offset, size),
                       " && ".join(terms))

    def bit_field(self, unit, table, line, holder, field, first, bits):
        """A bit field: which bits of the 64-bit word change when it is filled with ones."""
        function = "table_bits_%s_%d" % (unit.language, line)
        unit.functions.append(
            "static int %s(void) {\n  %s value;\n  uint64_t word = 0;\n"
            "  memset(&value, 0, sizeof(value));\n  --value.%s;\n"
            "  memcpy(&word, &value, sizeof(word));\n"
            "  return word == ((%d == 64 ? ~0ull : ((1ull << %d) - 1)) << %d);\n}" %
            (function, holder, field, bits, bits, first))
        unit.rows.append('{"%s", %d, "%s.%s", "bits %d to %d", 0, 0, %s}' %
                         (table, line, holder, field, first, first + bits - 1, function))

    def structs(self):
        table = "libnrt/structs"
        for line, row in enumerate(rows_of(self.tables / "libnrt/structs.tsv"), 2):
            holder, field, c_type = row["struct"], row["field"], row["type"]
            for unit in self.both(row["header"]):
                if field == "<total>":
                    terms = ["sizeof(%s) == %s" % (holder, row["size"])]
                    if row["typedef"]:
                        terms.append("sizeof(%s) == %s" % (row["typedef"], row["size"]))
                    unit.condition(table, line, holder, "%s bytes" % row["size"],
                                   " && ".join(terms))
                elif field == "<anon>":
                    unit.reason(table, line, "%s, anonymous member" % holder, ANONYMOUS)
                elif row["bit_size"] or (holder == "union nmetric_version" and field != "all"):
                    first, bits = self.version_bits(field)
                    self.bit_field(unit, table, line, holder, field, first, bits)
                else:
                    self.member(unit, table, line, holder, field, c_type, row["offset"],
                                row["size"])

    def version_bits(self, field):
        """Bits of a member of nmetric_version, from the driver's table."""
        for row in rows_of(self.tables / "driver/structs.tsv"):
            if row["struct"] == "union nmetric_version" and row["field"].split("(")[0] == field:
                first, last = re.search(r"bits (\d+)-(\d+)", row["type"]).groups()
                return int(first), int(last) - int(first) + 1
        raise KeyError(field)

    def driver_structs(self):
        table = "driver/structs"
        for line, row in enumerate(rows_of(self.tables / "driver/structs.tsv"), 2):
            holder, field, c_type = row["struct"], row["field"], row["type"]
            header = "hw/udma.h" if "udma_desc" in holder else "uapi/neuron_ioctl.h"
            if holder in ("struct nds_header", "union nmetric_version"):
                header = "ndl/neuron_driver_shared.h"
            for unit in self.both(header):
                if "udma_desc" in holder:
                    condition = DESCRIPTOR.get((holder, field))
                    if condition:
                        unit.condition(table, line, "%s.%s" % (holder, field), c_type, condition)
                    else:
                        unit.reason(table, line, "%s.%s" % (holder, field), DESCRIPTOR_WORD)
                    continue
                if holder == "union nmetric_version":
                    field = field.split("(")[0]
                    first, bits = self.version_bits(field)
                    self.bit_field(unit, table, line, holder, field, first, bits)
                    continue
                array = re.match(r"(\w+)(\[.*\])$", field)
                if array:
                    field, c_type = array.group(1), c_type + " " + array.group(2)
                self.member(unit, table, line, holder, field, c_type, row["offset"], row["size"])
                # The size of the whole struct is a column of every row.
                unit.rows[-1] = unit.rows[-1].replace(
                    "offsetof(", "sizeof(%s) == %s && offsetof(" % (holder, row["struct_size"]), 1)

    def ioctls(self):
        direction = {"none": "_IOC_NONE", "read": "_IOC_READ", "write": "_IOC_WRITE",
                     "read+write": "_IOC_READ | _IOC_WRITE"}
        for line, row in enumerate(rows_of(self.tables / "driver/ioctls.tsv"), 2):
            name = RENAMED_IOCTL.get((row["name"], row["driver"]), row["name"])
            terms = ["%s == %su" % (name, row["ioctl_number"]),
                     "_IOC(%s, 'N', %s, %s) == %su" % (direction[row["direction"]], row["nr"],
                                                      row["size_field_in_cmd"],
                                                      row["ioctl_number"])]
            argument = row["struct"]
            if argument != "-":
                if not argument.startswith("__"):
                    argument = "struct " + argument
                terms.append("sizeof(%s) == %s" % (argument, row["struct_size"]))
                encoded = argument + (" *" if row["arg_encoding"] == "size-of-pointer" else "")
                terms.append("sizeof(%s) == %s" % (encoded, row["size_field_in_cmd"]))
            for unit in self.both("uapi/neuron_ioctl.h"):
                unit.condition("driver/ioctls", line, name, row["ioctl_number"],
                               " && ".join(terms))

    def sources(self):
        """File name to text of everything that is compiled."""
        self.functions()
        self.functions("libnrt/functions_async_3", newest=True)
        self.enums()
        self.macros()
        self.structs()
        self.driver_structs()
        self.ioctls()
        texts, symbols = {}, []
        for (header, language, define), unit in self.units.items():
            epoch = "_" + define.lower() if define else ""
            symbol = "conformance_%s_%s" % (re.sub(r"\W", "_", header + epoch), language)
            symbols.append(symbol)
            texts["%s.%s" % (symbol, language)] = unit.text(symbol)
        listing = ['#include "conformance_row.h"', 'extern "C" {']
        listing += ["extern const struct conformance_unit %s;" % s for s in symbols]
        listing.append("extern const struct conformance_unit *const conformance_units[];")
        listing.append("const struct conformance_unit *const conformance_units[] = {%s, nullptr};" %
                       ", ".join("&" + s for s in symbols))
        listing.append("}")
        texts["conformance_units.cpp"] = "\n".join(listing) + "\n"
        return texts


def main():
    tables, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    texts = Generator(tables).sources()
    if "--list" in sys.argv:
        print(";".join(sorted(texts)), end="")
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (output / name).write_text(text)


if __name__ == "__main__":
    main()
