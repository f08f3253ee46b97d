#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What failed is on one screen: tests/failures prints it, and nothing of what passed."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "failures"
loader = importlib.machinery.SourceFileLoader("failures", str(SCRIPT))
loader_spec = importlib.util.spec_from_loader("failures", loader)
failures = importlib.util.module_from_spec(loader_spec)
loader.exec_module(failures)

RULE = "-" * 58


def section(name, output, verdict):
    return f"""{RULE}
1/3 Testing: {name}
1/3 Test: {name}
Command: "{name}"
"{name}" start time: Nov 30 17:16 UTC
Output:
{RULE}
{output}
<end of output>
Test time =   0.95 sec
{RULE}
Test {verdict}.
"{name}" end time: Nov 30 17:16 UTC
{RULE}

"""


GOOD = "[ RUN      ] Page.IsShown\n[       OK ] Page.IsShown (3 ms)"
BAD = """[ RUN      ] Page.IsAsked
page_test.cpp:56: Failure
[  FAILED  ] Page.IsAsked (60093 ms)
[ RUN      ] Page.IsClosed
[       OK ] Page.IsClosed (1 ms)
[  FAILED  ] Page.IsAsked
"""
HANGS = "[ RUN      ] Page.First\n[       OK ] Page.First (3 ms)\n[ RUN      ] Page.Hangs\nit waits"


class Failures(unittest.TestCase):
    @staticmethod
    def said(log):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            path = pathlib.Path(folder) / "LastTest.log"
            path.write_text(log, encoding="utf-8")
            failures.main([str(path)])
        return out.getvalue().splitlines()

    def test_nothing_is_said_of_programs_that_passed(self):
        self.assertEqual(self.said(section("a", GOOD, "Passed") + section("b", "skipped: b: no root", "Passed")), [])

    def test_what_stands_between_tests_is_shown_with_those_that_failed(self):
        begin = "Running main() from gtest_main.cc\n[==========] Running 2 tests.\nsuite.cpp:7: Failure\n"
        end = "\n[==========] 2 tests ran.\n[  PASSED  ] 1 test.\n\n 1 FAILED TEST\n==12==ERROR: LeakSanitizer: 8 bytes\n"
        self.assertEqual(self.said(section("serve", begin + BAD + end, "Failed")),
                         ["== serve: Failed", "suite.cpp:7: Failure", *BAD.splitlines()[:3], "==12==ERROR: LeakSanitizer: 8 bytes"])

    def test_of_a_program_only_the_tests_that_failed_are_shown(self):
        self.assertEqual(self.said(section("a", GOOD, "Passed") + section("serve", BAD, "Failed")),
                         ["== serve: Failed", *BAD.splitlines()[:3]])

    def test_a_test_that_never_ended_is_shown_to_its_end(self):
        self.assertEqual(self.said(section("serve", HANGS, "Failed")),
                         ["== serve: Failed", "[ RUN      ] Page.Hangs", "it waits"])

    def test_of_other_programs_the_end_is_shown(self):
        lines = [f"line {i}" for i in range(1000)]
        said = self.said(section("readme", "\n".join(lines), "Failed"))
        self.assertEqual(said, ["== readme: Failed", *lines[-failures.MOST_LINES:]])

    def test_a_long_block_loses_its_middle_and_says_so(self):
        long = "[ RUN      ] A.B\n" + "x\n" * 500 + "[  FAILED  ] A.B (1 ms)"
        said = self.said(section("long", long, "Failed"))
        self.assertEqual(len(said), failures.MOST_LINES + 2)
        self.assertIn(f"... {502 - failures.MOST_LINES} more lines ...", said)
        self.assertEqual(said[-1], "[  FAILED  ] A.B (1 ms)")

    def test_a_log_that_breaks_off_is_shown(self):
        cut = section("serve", HANGS, "Failed").partition("<end of output>")[0]
        self.assertEqual(self.said(cut)[0], "== serve: did not end")


if __name__ == "__main__":
    unittest.main()
