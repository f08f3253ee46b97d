# SPDX-License-Identifier: Apache-2.0
"""Licences, as the REUSE specification has them: every file says its own in an SPDX line near its top, or an entry of
REUSE.toml says it; LICENSES/ has the text of each licence that is named, and no other; an entry that names no file is
wrong. What becomes part of the kernel module may be distributed under its licence."""
import re
import sys
import tomllib

import tree

FIRST_LINES = 5
LINE = re.compile(r"SPDX-License-Identifier:\s*([A-Za-z0-9.+() -]+?)\s*(?:\*/|-->)?\s*$")
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
OPERATORS = {"AND", "OR", "WITH"}
# Texts of licences carry none themselves.
TEXTS = ("LICENSES/", "LICENSE")
MODULE = ("driver/kmod/", "driver/core/", "include/uapi/", "include/hw/")
MODULE_LICENCE = "GPL-2.0-only"


def own_licence(name):
    """What the file says, or None."""
    with open(name, "rb") as file:
        for line in file.read(4096).decode("utf-8", "replace").splitlines()[:FIRST_LINES]:
            if found := LINE.search(line):
                return found[1]
    return None


def pattern(glob):
    """A star stands for all but slashes, two for those too."""
    parts = re.split(r"(\*\*|\*)", glob)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part) or re.escape(part) for part in parts) + r"\Z")


def read_entries():
    with open("REUSE.toml", "rb") as file:
        for entry in tomllib.load(file)["annotations"]:
            paths = entry["path"] if isinstance(entry["path"], list) else [entry["path"]]
            yield [(path, pattern(path)) for path in paths], entry["SPDX-License-Identifier"]


def names_in(expression):
    return set(NAMES.findall(expression)) - OPERATORS


def complaints():
    found = []
    entries = list(read_entries())
    used, named = set(), set()
    for name in tree.files(""):
        if name.startswith(TEXTS):
            continue
        covered = None
        for paths, licence in entries:
            for path, matches in paths:
                if matches.match(name):
                    used.add(path)
                    covered = licence
        licence = own_licence(name) or covered
        if not licence:
            found.append(f"{name}: no SPDX-License-Identifier in its first {FIRST_LINES} lines, and no entry of REUSE.toml")
            continue
        named |= names_in(licence)
        if name.startswith(MODULE) and name.endswith((".c", ".h", "Kbuild", "Makefile")):
            if MODULE_LICENCE not in names_in(licence) or "AND" in licence.split():
                found.append(f"{name}: is part of the kernel module, but its licence is {licence}, not {MODULE_LICENCE}")
    texts = {name.removeprefix("LICENSES/").removesuffix(".txt") for name in tree.files(".txt") if name.startswith("LICENSES/")}
    found += [f"LICENSES/{name}.txt: the text of a licence that files name is missing" for name in sorted(named - texts)]
    found += [f"LICENSES/{name}.txt: no file names this licence" for name in sorted(texts - named)]
    unused = {path for paths, _ in entries for path, _ in paths} - used
    found += [f"REUSE.toml: {path} matches no file" for path in sorted(unused)]
    return found


if __name__ == "__main__":
    sys.exit(tree.report(complaints()))
