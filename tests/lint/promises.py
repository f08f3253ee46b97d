#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each sentence of driver/emulator/SECURITY.md names tests that exist: a promise whose test was renamed or taken away is
a promise that nothing holds. Names of GoogleTest are asked of the programs themselves (argument: the build folder).

A cell has, between backticks, `PROGRAM Suite.Name` with stars as in --gtest_filter, `Suite.Name` of the program before,
`…Name` as another test of the suite before, the path of a file in tests/, or a file of the guest's tests, behind
which a sentence between quotes must be one of that file."""
import fnmatch
import os
import re
import subprocess
import sys

import tree

PAGE = "driver/emulator/SECURITY.md"
GUEST = "tests/vm/guest/"
HEADER = "| what holds | test |"
NAME = re.compile(r"`([^`]+)`|\"([^\"]+)\"")


class Programs:
    """The tests of each program, asked once."""

    def __init__(self, build):
        self.folder = os.path.join(build, "tests")
        self.listed = {}

    def tests(self, program):
        """Full names, or None where there is no such program."""
        if program not in self.listed:
            path = os.path.join(self.folder, program)
            self.listed[program] = names_of(path) if os.access(path, os.X_OK) else None
        return self.listed[program]


def names_of(path):
    listing = subprocess.run([path, "--gtest_list_tests"], check=True, capture_output=True, text=True, timeout=60).stdout
    suite, names = "", []
    for line in listing.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith(" "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def rows(text):
    """(line, sentence, cell) of each row of the tables of promises."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line == HEADER:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield number, cells[0], cells[1] if len(cells) == 2 else ""


def file_of(word):
    """The file that a word names, or None if it is no file's name."""
    if word.startswith("tests/"):
        return word
    return GUEST + word if word.endswith(".cpp") else None


def faults_of_cell(cell, programs):
    """What is wrong with the names in one cell."""
    program = suite = text = None
    count = 0
    for found in NAME.finditer(cell):
        word, sentence = found.groups()
        if sentence is not None:
            if text is None or sentence not in text:
                yield f'"{sentence}" is no sentence of the file before it'
            continue
        count += 1
        text = None
        if path := file_of(word):
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            elif not os.path.exists(path):
                yield f"there is no {path}"
            continue
        if " " in word:
            program, word = word.split(" ", 1)
        if program is None:
            yield f"`{word}` has no program before it"
            continue
        if word.startswith("…"):
            word = f"{suite}.*{word[1:]}"
        suite = word.split(".")[0]
        tests = programs.tests(program)
        if tests is None:
            yield f"there is no program {program} in {programs.folder}"
        elif not any(fnmatch.fnmatchcase(test, word) for test in tests):
            yield f"{program} has no test {word}"
    if count == 0:
        yield "no test is named"


def complaints(build):
    with open(PAGE, encoding="utf-8") as file:
        table = list(rows(file.read()))
    if not table:
        return [f"{PAGE}: no table begins with {HEADER}"]
    programs = Programs(build)
    return [f"{PAGE}:{number}: {fault}" for number, _, cell in table for fault in faults_of_cell(cell, programs)]


if __name__ == "__main__":
    sys.exit(tree.report(complaints(sys.argv[1] if len(sys.argv) > 1 else "build")))
