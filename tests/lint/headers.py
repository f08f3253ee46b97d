#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C11 and as C++17 with both compilers, warnings as errors; every other header
of the tree compiles alone as C++20 (driver/core: C11; driver/kmod: only in a kernel), but -inl.h files, which are included once per SIMD target.
Argument: the build folder, for generated headers."""
import concurrent.futures
import os
import subprocess
import sys

import tree

FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", "-Iinclude", f"-I{sys.argv[1]}/generated"]


def compile_alone(job):
    compiler, language, standard, header = job
    # Included from an empty main file: as a main file itself a header would draw warnings of its own.
    text = f'#include "{header}"\ntypedef int not_empty;\n'
    result = subprocess.run(
        [compiler, "-x", language, f"-std={standard}", *FLAGS, "-"], input=text, capture_output=True, text=True, check=False
    )
    return None if result.returncode == 0 else f"{header}: {compiler} -std={standard} refuses it alone\n{result.stderr[:2000]}"


def main():
    jobs = []
    for header in tree.files(".h"):
        if header.startswith("include/"):
            jobs += [("gcc", "c", "c11", header), ("g++", "c++", "c++17", header), ("clang-14", "c", "c11", header)]
        elif header.startswith("driver/core/"):
            jobs += [("gcc", "c", "c11", header), ("g++", "c++", "c++20", header)]
        elif not header.startswith(("tests/", "driver/kmod/")) and not header.endswith("-inl.h"):
            jobs.append(("g++", "c++", "c++20", header))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(compile_alone, jobs) if text]
    for text in complaints:
        print(text)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
