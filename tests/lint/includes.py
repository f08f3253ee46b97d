# SPDX-License-Identifier: Apache-2.0
"""What the product's files include, and the graph of their folders.

A file belongs to the folder that it lies in: the files beside the folders of driver/emulator belong to driver/emulator, those of
driver/emulator/chip do not. A folder has an arrow to each other folder of which one of its files includes one."""
import os
import re
from typing import NamedTuple

import tree

SUFFIXES = (".c", ".h", ".cpp")
TOPS = tree.PRODUCT + ("include/",)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


class Include(NamedTuple):
    file: str
    line: int
    target: str  # path of a project's file, else the name of a system header
    project: bool

    def __str__(self):
        return f"{self.file}:{self.line} includes {self.target}"


def resolve(name, target):
    """The path of a project's header that `name` includes as `target`; None for one of the system."""
    for path in (target, "include/" + target, os.path.normpath(os.path.join(os.path.dirname(name), target))):
        if path.startswith(TOPS) and os.path.exists(path):
            return path
    # A generated header lies in the build folder, under the path of what it is generated from.
    return target if target.startswith(TOPS) and os.path.isdir(os.path.dirname(target)) else None


def read():
    """The includes of all files below the product's folders and include/."""
    found = []
    for name in tree.files(*SUFFIXES):
        if name.startswith(TOPS):
            found += of_file(name)
    return found


def of_file(name):
    text = tree.text(name)
    found = []
    for match in INCLUDE.finditer(text):
        path = resolve(name, match.group(2))
        line = text.count("\n", 0, match.start()) + 1
        found.append(Include(name, line, path or match.group(2), path is not None))
    return found


def folders():
    """All folders that hold sources, or headers that others include."""
    return sorted({os.path.dirname(name) for name in tree.files(*SUFFIXES) if name.startswith(TOPS)})


def arrows(found):
    """{folder: {other folder that it includes: the first include that does}}."""
    graph = {folder: {} for folder in folders()}
    for include in found:
        here, there = os.path.dirname(include.file), os.path.dirname(include.target)
        if include.project and here != there:
            graph.setdefault(here, {}).setdefault(there, include)
    return graph
