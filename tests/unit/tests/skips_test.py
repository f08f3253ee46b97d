#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A skip is a skip: tests/skips finds each with its reason, and fails on one that nobody expects."""
import importlib.machinery
import importlib.util
import io
import contextlib
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "skips"
loader = importlib.machinery.SourceFileLoader("skips", str(SCRIPT))
loader_spec = importlib.util.spec_from_loader("skips", loader)
skips = importlib.util.module_from_spec(loader_spec)
loader.exec_module(skips)

GTEST = """[ RUN      ] Limits.AFullTmpIsNamed
/there/limits_test.cpp:104: Skipped
this process may not mount
[  SKIPPED ] Limits.AFullTmpIsNamed (3 ms)
[ RUN      ] Limits.Other
[       OK ] Limits.Other (0 ms)
[  SKIPPED ] Paths/Reduce.GivesTheBits/2, where GetParam() = 4-byte object <02-00 00-00> (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Limits.AFullTmpIsNamed
"""


class Skips(unittest.TestCase):
    def run_lane(self, lane, log, expected):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "log")
            file.write_text(log)
            skips.EXPECTED = pathlib.Path(folder, "expected.tsv")
            skips.EXPECTED.write_text(expected)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                status = skips.main([lane, str(file)])
            return status, said.getvalue()

    def test_each_skip_of_a_test_program_is_found_once_with_its_reason(self):
        found = skips.skips_of(GTEST)
        self.assertEqual(found[0], ("Limits.AFullTmpIsNamed", "this process may not mount"))
        self.assertEqual([skip.name for skip in found], ["Limits.AFullTmpIsNamed", "Paths/Reduce.GivesTheBits/2"])

    def test_skips_of_guests_scripts_and_parts_of_a_test_are_found(self):
        found = skips.skips_of("smoke: ok 12 a batch # SKIP this driver has no batches\nok 13 a copy\n"
                               "skipped: the units of systemd: systemd-analyze is not installed\n"
                               "test 3\n3: skipped: Rows.X on avx512: this processor does not have it\n")
        self.assertEqual(found, [("a batch", "this driver has no batches"),
                                 ("the units of systemd", "systemd-analyze is not installed"),
                                 ("Rows.X on avx512", "this processor does not have it")])

    def test_a_skip_that_nobody_expects_fails_the_lane_and_is_named(self):
        status, said = self.run_lane("tests", GTEST, "asan\tLimits.*\tother lane\ntests\tPaths/*\tno such processor\n")
        self.assertEqual(status, 1)
        self.assertIn("Limits.AFullTmpIsNamed: this process may not mount -- NOT EXPECTED", said)

    def test_expected_skips_are_counted_and_pass(self):
        log = "skipped: A.B on amx: no such processor\n"
        self.assertEqual(self.run_lane("tests", log, "# why\n*\t* on amx\tno processor\n"),
                         (0, "skipped in tests: A.B on amx: no such processor\n1 skipped in tests, 0 of them not expected\n"))

    def test_a_skip_without_a_reason_fails_though_it_is_expected(self):
        log = "[ RUN      ] A.B\n/x.cpp:3: Skipped\n[  SKIPPED ] A.B (0 ms)\n"
        self.assertEqual(self.run_lane("tests", log, "*\tA.B\twhy\n")[0], 1)

    def test_a_broken_list_of_expected_skips_fails(self):
        status, said = self.run_lane("tests", "", "tests Limits.* spaces instead of tabs\n")
        self.assertEqual(status, 1)
        self.assertIn("line 1: found 1 cells", said)

    def test_the_committed_list_is_well_formed(self):
        self.assertTrue(skips.read_expected((SCRIPT.parent / "expected-skips.tsv").read_text()))


class Readme(unittest.TestCase):
    def test_each_command_of_a_page_that_is_not_run_is_a_skip_that_is_expected(self):
        file = SCRIPT.parent / "system" / "programs" / "readme"
        source_loader = importlib.machinery.SourceFileLoader("readme", str(file))
        readme = importlib.util.module_from_spec(importlib.util.spec_from_loader("readme", source_loader))
        with unittest.mock.patch.object(sys, "argv", [str(file), "build"]):
            source_loader.exec_module(readme)
        rows = skips.read_expected((SCRIPT.parent / "expected-skips.tsv").read_text())
        _, skipped, _ = readme.script("README.md")
        self.assertGreater(len(skipped), 5)
        found = skips.skips_of("\n".join(skipped))
        self.assertEqual(len(found), len(skipped))
        for skip in found:
            self.assertTrue(skips.is_expected(skip, "tests", rows), skip)


if __name__ == "__main__":
    unittest.main()
