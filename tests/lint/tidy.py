#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy with the checks of .clang-tidy, over the sources that a build folder compiles: all of them, or those that changed last.

`tidy.py BUILD` takes all (make tidy). `tidy.py BUILD --changed` takes what the working tree changes, then what the commits behind HEAD
have changed, the newest first, until it has enough sources; a header stands for a source that includes it. It stops when its time is
over, and says which sources it has left out. A clone of one commit does not tell what has changed: there it takes sources at random, others for
each commit."""
import argparse
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import compilations
import includes
import tree

HEADERS = "(driver/(base|emulator|isa|ndl|profiles|wire)|runtime|ccom|tools|tests)/"
DIAGNOSTIC = re.compile(r"^(?=\S+:\d+:\d+: (?:warning|error):)", re.MULTILINE)
C_DIALECT = "--checks=-google-readability-*"  # C of the driver is written as the kernel's is


def clean(command):
    """A compile command without what only the compiler that built needs: its precompiled headers, its warnings, its debug sections."""
    kept, words = [], iter(command)
    for word in words:
        if word in ("-include", "-o"):
            value = next(words, "")
            if word == "-include" and os.path.basename(value) != "cmake_pch.hxx":
                kept += [word, value]
        elif not word.startswith(("-W", "-g", "-fpch-")):
            kept.append(word)
    return kept


def database(build):
    """{source: entry} of a build folder, for the sources of the tree; a source of several targets has its first entry."""
    root = os.getcwd() + "/"
    known = set(tree.files(".c", ".cpp"))
    sources = {}
    for source, folder, command in compilations.entries(build):
        name = source.removeprefix(root)
        if name in known:
            sources.setdefault(name, {"directory": folder, "file": source, "arguments": clean(command)})
    return sources


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def changes():
    """Yields (what it is, [files]) of the working tree and of the commits behind HEAD; ends before a commit that has no parent here."""
    yield "the working tree", git("diff", "--name-only", "HEAD").split("\n") + git("ls-files", "--others", "--exclude-standard").split("\n")
    for line in git("log", "--first-parent", "-n", "100", "--format=%H %P").splitlines():
        commit, *parents = line.split()
        if not parents:
            return
        yield f"commit {commit[:10]}", git("diff", "--name-only", parents[0], commit).split("\n")


def includers(sources):
    """{header: a source that includes it}; the source of the same name comes first."""
    found = {}
    for name in sources:
        for include in includes.of_file(name):
            if include.project:
                same = os.path.splitext(include.target)[0] == os.path.splitext(name)[0]
                if same or include.target not in found:
                    found[include.target] = name
    return found


def changed_sources(sources, limit):
    """([sources that have changed, the newest first], the sentence that says since when)."""
    by_header = includers(sources)
    found, last = [], None
    for what, names in changes():
        here = [name if name in sources else by_header.get(name) for name in names]
        here = sorted({name for name in here if name} - set(found))
        random.Random(what).shuffle(here)  # of a commit that touches more than there is time for, it is not always the same folders
        if found and len(found) + len(here) > limit:
            return found, f"changed since {what}"
        found += here
        last = what
        if len(found) >= limit:
            break
    if not found:
        names = sorted(sources)
        random.Random(git("rev-parse", "HEAD")).shuffle(names)
        return names[:limit], "taken at random, because this clone does not tell what has changed"
    return found, f"that the working tree and the commits down to {last} have changed"


def check(name, folder, deadline):
    """(name, complaints or None where there was no time); the database of compilations is in the folder."""
    left = deadline - time.monotonic()
    if left <= 0:
        return name, None
    command = ["clang-tidy-14", "-p", folder, "--quiet", f"--header-filter=^{os.getcwd()}/{HEADERS}"]
    if name.endswith(".c"):
        command.append(C_DIALECT)
    try:
        result = subprocess.run([*command, name], capture_output=True, text=True, check=False, timeout=left)
    except subprocess.TimeoutExpired:
        return name, None
    return name, result.stdout + (result.stderr if result.returncode and not result.stdout else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--changed", action="store_true", help="only what has changed last")
    parser.add_argument("--files", type=int, default=40, help="of how many sources a commit more is enough")
    parser.add_argument("--seconds", type=float, default=0, help="time for all; 0: as long as it takes")
    parser.add_argument("paths", nargs="*", help="only sources whose path begins so")
    arguments = parser.parse_args()
    sources = database(arguments.build)
    if arguments.changed:
        names, reason = changed_sources(sources, arguments.files)
    else:
        names, reason = sorted(sources), "that are built"
    if arguments.paths:
        names = [name for name in names if name.startswith(tuple(arguments.paths))]
    start = time.monotonic()
    deadline = start + (arguments.seconds or 1e6)  # a wait of 1e9 s is more milliseconds than poll() takes
    told, left_out = set(), []
    # A folder of its own: two runs at once write different databases.
    with tempfile.TemporaryDirectory(prefix="tidy-", dir=arguments.build) as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump([sources[name] for name in names], file)
        for name, complaints in pool.map(lambda name: check(name, folder, deadline), names):
            if complaints is None:
                left_out.append(name)
                continue
            for complaint in DIAGNOSTIC.split(complaints):
                place = complaint.split("\n")[0]
                if complaint.strip() and place not in told:  # many sources say the same of a header
                    told.add(place)
                    print(complaint.rstrip(), flush=True)
    seconds = time.monotonic() - start
    print(f"clang-tidy: {len(names) - len(left_out)} of {len(names)} sources {reason}, in {seconds:.0f} s; not looked at: {len(sources) - len(names)}")
    if left_out:
        print(f"clang-tidy: no time for {len(left_out)} of them: {' '.join(left_out[:8])}{' …' if len(left_out) > 8 else ''}; make tidy looks at all")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
