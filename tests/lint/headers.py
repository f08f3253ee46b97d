#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C11 and as C++17 with both compilers, warnings as errors; every other header
of the tree compiles alone as C++20 (driver/core: C11; driver/kmod: only in a kernel), but -inl.h files, which are included once per SIMD target.
A header that a source of the build includes first has compiled alone there; what is left to see of such headers are warnings,
and names that two of them define in one namespace: they are compiled many at a time. Argument: the build folder, for generated headers and for what it compiles."""
import concurrent.futures
import os
import re
import subprocess
import sys

import compilations
import tree

FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", "-Iinclude", f"-I{sys.argv[1]}/generated"]


BATCH = 24  # headers of one compilation for warnings


def included_first():
    """The headers that a source compiled in the build folder includes before anything else."""
    headers = set()
    sources = {source for source, _, _ in compilations.entries(sys.argv[1])}
    for source in sources:
        if source.endswith(".cpp") and os.path.exists(source):
            with open(source, encoding="utf-8") as file:
                first = re.search(r'^#(?!include ")|^#include "([^"]+)"', file.read(), re.MULTILINE)
            if first and first.group(1):
                headers.add(first.group(1))
    return headers


def compile_headers(job):
    compiler, language, standard, *headers = job
    # Included from an empty main file: as a main file itself a header would draw warnings of its own.
    text = "".join(f'#include "{header}"\n' for header in headers) + "typedef int not_empty;\n"
    result = subprocess.run(
        [compiler, "-x", language, f"-std={standard}", *FLAGS, "-"], input=text, capture_output=True, text=True, check=False
    )
    if result.returncode == 0:
        return None
    how = "alone" if len(headers) == 1 else "together"
    return f"{', '.join(headers)}: {compiler} -std={standard} refuses it {how}\n{result.stderr[:2000]}"


def main():
    jobs = []
    built = included_first()
    together = []
    for header in tree.files(".h"):
        if header.startswith("include/"):
            jobs += [("gcc", "c", "c11", header), ("g++", "c++", "c++17", header), ("clang-14", "c", "c11", header)]
        elif header.startswith("driver/core/"):
            jobs += [("gcc", "c", "c11", header), ("g++", "c++", "c++20", header)]
        elif header.startswith(("tests/", "driver/kmod/")) or header.endswith("-inl.h"):
            continue
        elif header in built:
            together.append(header)
        else:
            jobs.append(("g++", "c++", "c++20", header))
    jobs += [("g++", "c++", "c++20", *together[i : i + BATCH]) for i in range(0, len(together), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(compile_headers, jobs) if text]
    for text in complaints:
        print(text)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
