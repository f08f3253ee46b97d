# SPDX-License-Identifier: Apache-2.0
"""How the sources of a build folder are compiled, one entry for each source, also where several are compiled at once."""
import json
import os
import re
import shlex

INCLUDE = re.compile(r'^#include "(/[^"]+)"$', re.MULTILINE)


def united(name):
    """The sources that a source of CMake's (unity_0_cxx.cxx) is made of; none of another one."""
    if not re.search(r"/Unity/unity_\d+_cxx\.cxx$", name) or not os.path.exists(name):
        return []
    with open(name, encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


def entries(build):
    """Yields (source, directory, [words of the command]); a source of several targets has several."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        database = json.load(file)
    for entry in database:
        command = entry.get("arguments") or shlex.split(entry["command"])
        for source in united(entry["file"]) or [entry["file"]]:
            yield source, entry["directory"], [source if word == entry["file"] else word for word in command]
