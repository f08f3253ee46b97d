# SPDX-License-Identifier: Apache-2.0
"""A copy of the sources with a build folder of its own, in which mutations are made and taken back."""
import glob
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field

from fence import Fence

# The options of the build that everybody has, but that a mutation compiles one source.
_OPTIONS = ["--preset", "default", "-DNEURON_UNITE=1",
            # A program need not be linked again because a library that it opens has changed.
            "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON"]


@dataclass
class Test:
    """A test of ctest, and what it takes to run it."""
    name: str
    command: list
    environment: dict
    folder: str
    limit: float
    targets: list  # what to build: the program; for a script, every program, library and NEFF
    sources: set = field(default_factory=set)  # every file that the target is made of, relative to the tree
    seconds: float = 0.0  # how long it takes where nothing is mutated


class CopiedTree:
    def __init__(self, origin, folder, jobs):
        self._origin, self._jobs = origin, str(jobs)
        self.folder = os.path.realpath(folder)
        self.source = os.path.join(self.folder, "source")
        self.build_folder = os.path.join(self.source, "build")
        os.makedirs(self.source, exist_ok=True)
        writable = [self.folder]
        if shutil.which("ccache"):
            cache = subprocess.run(["ccache", "-k", "cache_dir"], capture_output=True, text=True).stdout.strip()
            os.makedirs(cache, exist_ok=True)
            writable.append(cache)
        self.fence = Fence(writable)

    def files(self):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self._origin,
                                check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted({name for name in listed if name and os.path.lexists(os.path.join(self._origin, name))})

    def synchronize(self):
        """Makes the copy equal to the tree, changes that are not committed included; touches nothing that is equal."""
        wanted = set(self.files())
        for parent, folders, names in os.walk(self.source):
            folders[:] = [name for name in folders
                          if not os.path.islink(os.path.join(parent, name)) and os.path.join(parent, name) != self.build_folder]
            for name in names:
                path = os.path.join(parent, name)
                if os.path.relpath(path, self.source) not in wanted:
                    os.remove(path)
        for name in wanted:
            here, there = os.path.join(self._origin, name), os.path.join(self.source, name)
            if os.path.islink(here) or os.path.isdir(here) or not _same(here, there):
                os.makedirs(os.path.dirname(there), exist_ok=True)
                if os.path.lexists(there) and not os.path.isdir(there):
                    os.remove(there)
                if os.path.isdir(here) and not os.path.islink(here):
                    continue  # another repository in the tree
                shutil.copy(here, there, follow_symlinks=False)

    def original(self, file):
        with open(os.path.join(self._origin, file), encoding="utf-8", newline="") as opened:
            return opened.read()

    def write(self, file, text):
        with open(os.path.join(self.source, file), "w", encoding="utf-8", newline="") as opened:
            opened.write(text)

    def configure(self):
        options = list(_OPTIONS)
        for linker in ("mold", "lld", "gold"):
            if shutil.which(f"ld.{linker}"):
                options += [f"-DCMAKE_{kind}_LINKER_FLAGS=-fuse-ld={linker}" for kind in ("EXE", "SHARED", "MODULE")]
                break
        done = subprocess.run(["cmake", *options], cwd=self.source, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"cmake failed in {self.build_folder}:\n{done.stdout}{done.stderr}")

    def build(self, targets):
        """Builds what is not mutated; a failure ends the program."""
        done = subprocess.run(["ninja", "-C", self.build_folder, "-j", self._jobs, *targets],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            raise SystemExit(f"the tree does not build without a mutation:\n{done.stdout[-4000:]}")

    def build_mutated(self, targets, seconds):
        """Builds what may be mutated: "built", "does not compile", or how a program that the build runs failed."""
        # What is compiled here is compiled once: it shall not push anything out of the cache.
        ended = self.fence.run(["ninja", "--quiet", "-C", self.build_folder, "-j", self._jobs, *targets], seconds,
                               environment={"CCACHE_READONLY": "1", "NINJA_STATUS": ""})
        if ended.status == 0:
            # What a function does that has lost its last `return` is not defined: no test can tell anything about it.
            return "does not compile" if "[-Wreturn-type]" in ended.tail else "built"
        made = re.findall(r"^FAILED: (\S+)", ended.tail, re.MULTILINE)
        if made and not made[0].endswith((".o", ".a")) and not re.search(r"\bld(\.\w+)?: error|ld returned", ended.tail):
            return f"the build of {made[0]}"
        return "the time limit of the build" if ended.status is None else "does not compile"

    def _commands(self):
        """The command of each test. ctest tells it only of programs that are built; its own files tell it of all."""
        commands = {}
        for path in glob.glob(os.path.join(self.build_folder, "**", "CTestTestfile.cmake"), recursive=True):
            with open(path, encoding="utf-8") as file:
                for name, words in re.findall(r'^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$', file.read(), re.MULTILINE):
                    commands[name] = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', words)]
        return commands

    def tests(self, names):
        """The tests of ctest whose names match, but for those with the label slow."""
        commands = self._commands()
        everything = [name for name in self._ninja("-t", "inputs", "all") if re.match(r"(?:bin|lib|neff)/", name)]
        listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build_folder, check=True,
                                           capture_output=True, text=True).stdout)
        found = []
        for entry in listed["tests"]:
            name = entry["name"]
            if names.fullmatch(name) is None:
                continue
            properties = {item["name"]: item["value"] for item in entry.get("properties", [])}
            if properties.get("DISABLED") or "slow" in properties.get("LABELS", []):
                continue
            environment = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))
            program = os.path.relpath(commands[name][0], self.build_folder)
            found.append(Test(name, commands[name], environment,
                              properties.get("WORKING_DIRECTORY", self.build_folder),
                              float(properties.get("TIMEOUT", 120)), everything if program.startswith("..") else [program]))
        return found

    def read_sources(self, tests):
        """Finds what each test is made of: what ninja knows of targets, and what compilers told it of headers."""
        headers, output = {}, None
        for line in self._ninja("-t", "deps"):
            if line.startswith(" "):
                headers[output].add(self._relative(line.strip()))
            elif ": " in line:
                output = line.split(": ")[0]
                headers[output] = set()
        for test in tests:
            for name in self._ninja("-t", "inputs", *test.targets):
                test.sources.add(self._relative(name))
                test.sources |= headers.get(name, set())
            test.sources.discard("")

    def _ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.build_folder, *arguments], check=True, capture_output=True,
                              text=True).stdout.splitlines()

    def _relative(self, name):
        path = os.path.normpath(os.path.join(self.build_folder, name))
        return os.path.relpath(path, self.source) if path.startswith(self.source + os.sep) else ""


def _same(here, there):
    try:
        if os.path.islink(there) or os.stat(here).st_size != os.stat(there).st_size:
            return False
        if os.stat(here).st_mode != os.stat(there).st_mode:
            return False
        with open(here, "rb") as one, open(there, "rb") as other:
            return one.read() == other.read()
    except FileNotFoundError:
        return False
