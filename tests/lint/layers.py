#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom, at two levels.

RULES are for whole layers: which parts of the project a layer may know, and which system headers if that matters too.
layers.txt has a row for each folder with sources: `folder: the folders that it may include`, and system headers are free.
The rows are exactly what the files include: an include without an entry, an entry without an include, a folder without a row and a
row without a folder are complaints. So a new arrow between folders is a line that somebody has to write and somebody reviews.

`layers.py` checks both; `layers.py --write` writes the rows as the includes are now."""
import argparse
import os
import sys
import textwrap

import includes
import tree

TABLE = "tests/lint/layers.txt"
FIXED = ("stdint.h", "stddef.h", "stdbool.h")
# layer (the longest prefix wins): parts of the project that it may include beside itself; system headers allowed, or None for any.
# An entry that ends in `/` is a folder with all that is below it, any other one is a single header.
RULES = {
    "include/hw/": ((), FIXED),
    "include/uapi/": ((), FIXED + ("linux/ioctl.h", "sys/ioctl.h", "linux/types.h")),
    "include/nrt/": (("include/ndl/", "include/uapi/"), None),
    "include/ndl/": (("include/nrt/", "include/uapi/"), None),
    "include/ccom/": (("include/nrt/",), None),
    "driver/base/": ((), None),
    "driver/core/": (
        ("include/hw/", "include/uapi/"),
        FIXED + ("string.h", "errno.h", "linux/errno.h", "linux/string.h", "linux/types.h"),
    ),
    "driver/isa/": (("include/hw/",), None),
    "driver/operator/": (("include/hw/",), None),
    "driver/compression/": (("driver/base/", "include/hw/"), None),
    "driver/profiles/": (("driver/base/",), None),
    "driver/wire/": (("include/uapi/",), None),
    "driver/kmod/": (("driver/core/", "include/hw/", "include/uapi/"), None),
    "driver/ndl/": (("include/ndl/", "include/nrt/", "include/uapi/", "include/hw/", "driver/base/", "driver/wire/"), None),
    "driver/emulator/numerics/": (("driver/base/", "include/hw/"), None),
    "driver/emulator/chip/": (
        ("driver/emulator/numerics/", "driver/base/", "driver/compression/", "driver/isa/", "include/hw/"),
        None,
    ),
    "driver/emulator/neuroncore/": (("driver/emulator/chip/", "driver/emulator/numerics/", "driver/base/", "driver/isa/", "include/hw/"), None),
    "driver/emulator/service/": (
        ("driver/core/", "driver/base/", "driver/profiles/", "driver/emulator/chip/", "include/hw/", "include/uapi/"),
        None,
    ),
    "driver/emulator/": (
        ("driver/core/", "driver/base/", "driver/profiles/", "driver/wire/", "include/hw/", "include/uapi/", "include/ndl/emulator.h"),
        None,
    ),
    "runtime/": (
        (
            "include/nrt/",
            "include/ndl/",
            "include/hw/",
            "include/ccom/",
            "driver/base/",
            "driver/compression/",
            "driver/isa/",
            "driver/core/",
            "driver/ndl/port.h",
            "driver/ndl/error.h",
        ),
        None,
    ),
    "ccom/": (
        (
            "include/ccom/",
            "include/nrt/nec.h",
            "include/nrt/nrt_status.h",
            "include/ndl/",
            "include/hw/",
            "driver/base/",
            "driver/isa/",
            "driver/profiles/",
        ),
        None,
    ),
    "tools/compiler/": (("include/", "driver/base/", "driver/compression/", "driver/isa/", "runtime/base/", "runtime/neff/"), None),
    "tools/nccom-test/": (
        (
            "tools/",
            "include/",
            "driver/base/",
            "driver/isa/",
            "runtime/base/",
            "runtime/neff/",
            "ccom/base/",
            "ccom/plan/",
            "ccom/request/",
            "ccom/simulator/",
            "ccom/topology/",
        ),
        None,
    ),
    "tools/": (
        (
            "include/",
            "driver/base/",
            "driver/isa/",
            "driver/profiles/",
            "runtime/base/",
            "runtime/neff/",
            "runtime/ntff/",
            "runtime/debug/",
            "driver/emulator/transport/control/",
        ),
        None,
    ),
}


def broken_rules(found):
    complaints = []
    for include in found:
        layer = max((prefix for prefix in RULES if include.file.startswith(prefix)), key=len, default=None)
        if layer is None:
            continue
        allowed, system = RULES[layer]
        if include.project:
            if not any(include.target.startswith(part) if part.endswith("/") else include.target == part for part in (layer, *allowed)):
                complaints.append(f"{include}: {layer} may include {', '.join(allowed) or 'nothing of the project'}")
        elif system is not None and include.target not in system:
            complaints.append(f"{include}: {layer} may include of the system {', '.join(system)}")
    return complaints


def read_rows(text):
    """({folder: [the folders that it may include]}, complaints) of a table; an indented line continues the row above it."""
    rows, complaints = {}, []
    folder = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if not line[0].isspace():
            folder, colon, line = line.partition(":")
            if not colon:
                complaints.append(f"{TABLE}:{number}: a row is `folder: folders that it may include`")
            if folder in rows:
                complaints.append(f"{TABLE}:{number}: {folder} has two rows")
            rows.setdefault(folder, [])
        rows[folder] += line.split()
    return rows, complaints


def differences(rows, graph):
    complaints = []
    for folder in sorted(graph.keys() - rows.keys()):
        complaints.append(f"{TABLE}: {folder} has no row; what it includes: {' '.join(sorted(graph[folder])) or 'no other folder'}")
    for folder in sorted(rows.keys() - graph.keys()):
        complaints.append(f"{TABLE}: {folder} has a row, and no sources")
    for folder in sorted(rows.keys() & graph.keys()):
        for target in sorted(graph[folder].keys() - set(rows[folder])):
            complaints.append(f"{graph[folder][target]}: the row of {folder} in {TABLE} has no {target}")
        for target in sorted(set(rows[folder]) - graph[folder].keys()):
            complaints.append(f"{TABLE}: {folder} may include {target}, and does not: remove it from the row")
    return complaints


def head(text):
    """The comment that a table begins with."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))])


def format_rows(graph):
    lines = []
    top = None
    for folder in sorted(graph):
        if top not in (None, folder.split("/")[0]):
            lines.append("")
        top = folder.split("/")[0]
        lines += textwrap.wrap(
            " ".join([folder + ":", *sorted(graph[folder])]), 140, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write the rows of {TABLE} as the includes are")
    arguments = parser.parse_args()
    found = includes.read()
    graph = includes.arrows(found)
    text = tree.text(TABLE) if os.path.exists(TABLE) else ""
    if arguments.write:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(head(text) + format_rows(graph))
        return tree.report(broken_rules(found))
    rows, complaints = read_rows(text)
    return tree.report(complaints + differences(rows, graph) + broken_rules(found))


if __name__ == "__main__":
    sys.exit(main())
