#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of cmake/build-times and cmake/processor-time with logs made here."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
CMAKE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../cmake")


def load(name):
    loader = importlib.machinery.SourceFileLoader("build_times", os.path.join(CMAKE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("build_times", loader))
    sys.modules["build_times"] = module
    loader.exec_module(module)
    return module


build_times = load("build-times")

LOG = "# ninja log v5\n" + """0 9000 1 runtime/CMakeFiles/nrt.dir/model/loader.cpp.o aa
100 3100 1 tests/CMakeFiles/unit_top.dir/__/tools/neuron-top/recording.cpp.o bb
3100 4100 1 generated/control.pb.cc cc
3100 4100 1 generated/control.pb.h cc
3100 4100 1 /build/generated/control.pb.h cc
5000 6500 1 lib/libnrt.so.1.0.0 dd
0 2000 2 runtime/CMakeFiles/nrt.dir/model/loader.cpp.o ee
0 500 2 tests/CMakeFiles/precompiled_googletest.dir/cmake_pch.hxx.gch ff
""".replace(" ", "\t")


class Logs(unittest.TestCase):
    def setUp(self):
        self.commands = build_times.read_log(LOG.splitlines(True))

    def test_the_newest_run_of_an_output_counts_and_a_command_counts_once(self):
        self.assertEqual({command.output: command.seconds for command in self.commands},
                         {"runtime/CMakeFiles/nrt.dir/model/loader.cpp.o": 2.0,
                          "tests/CMakeFiles/unit_top.dir/__/tools/neuron-top/recording.cpp.o": 3.0,
                          "generated/control.pb.cc": 1.0, "lib/libnrt.so.1.0.0": 1.5,
                          "tests/CMakeFiles/precompiled_googletest.dir/cmake_pch.hxx.gch": 0.5})

    def test_time_goes_to_the_folder_of_the_source_not_of_the_target(self):
        self.assertEqual(build_times.by_folder(self.commands, 2),
                         [(3.0, 1, "tools/neuron-top"), (2.0, 1, "runtime/model"), (1.5, 1, "(archives and links)"),
                          (1.0, 1, "(generated files and others)"), (0.5, 1, "tests")])

    def test_the_slowest_come_first_with_their_target(self):
        lines = list(build_times.report(self.commands, 2, 2))
        self.assertIn("     3.0  tools/neuron-top/recording.cpp (unit_top)", lines)
        self.assertEqual(lines[-1], "     2.0  runtime/model/loader.cpp (nrt)")
        self.assertIn("    0.13             5  in all", lines)

    def test_measured_times_replace_elapsed_ones(self):
        times = build_times.read_processor_times(["9.0\tlib/libnrt.so.1.0.0\n", "0.75\tlib/libnrt.so.1.0.0\n", "broken\n"])
        build_times.apply_processor_times(self.commands, times)
        self.assertEqual([command.seconds for command in self.commands if command.measured], [0.75])
        self.assertIn("of 1 commands, elapsed time of 4 others", next(iter(build_times.report(self.commands, 2, 2))))


class United(unittest.TestCase):
    def test_an_object_of_several_sources_is_named_by_the_first_and_counts_in_its_folder(self):
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "build/runtime/CMakeFiles/nrt.dir/Unity")
            os.makedirs(folder)
            with open(os.path.join(folder, "unity_0_cxx.cxx"), "w", encoding="utf-8") as file:
                file.write(f'/* of CMake */\n#include "{root}/runtime/model/a.cpp"\n#include "{root}/runtime/model/b.cpp"\n')
            commands = build_times.read_log(["0\t4000\t1\truntime/CMakeFiles/nrt.dir/Unity/unity_0_cxx.cxx.o\taa\n"])
            build_times.read_united(commands, os.path.join(root, "build"), root)
        self.assertEqual(commands[0].source(), "runtime/model/a.cpp and 1 more")
        self.assertEqual(build_times.by_folder(commands, 2), [(4.0, 1, "runtime/model")])


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name

    def test_reads_a_build_folder(self):
        with open(os.path.join(self.build, ".ninja_log"), "w", encoding="utf-8") as file:
            file.write(LOG)
        printed = subprocess.run([os.path.join(CMAKE, "build-times"), self.build], check=True, capture_output=True, text=True).stdout
        self.assertIn("runtime/model/loader.cpp (nrt)", printed)

    def test_says_that_there_is_no_log(self):
        ended = subprocess.run([os.path.join(CMAKE, "build-times"), self.build], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("build the tree first", ended.stderr)

    def test_measures_a_command_and_keeps_its_status(self):
        log = os.path.join(self.build, "times")
        launcher = [os.path.join(CMAKE, "processor-time"), log]
        busy = "for i in range(3000000): pass"
        self.assertEqual(subprocess.run([*launcher, sys.executable, "-c", busy, "-o", "made"]).returncode, 0)
        self.assertEqual(subprocess.run([*launcher, "sh", "-c", "exit 3", "-o", "failed"]).returncode, 3)
        self.assertEqual(subprocess.run([*launcher, "sh", "-c", "kill -TERM $$"]).returncode, 143)
        self.assertEqual(subprocess.run([*launcher, "ar", "qc", "libmade.a"], cwd=self.build).returncode, 0)
        with open(log, encoding="utf-8") as file:
            times = build_times.read_processor_times(file)
        self.assertEqual(list(times), ["made", "libmade.a"])
        self.assertGreater(times["made"], 0.01)


if __name__ == "__main__":
    unittest.main()
