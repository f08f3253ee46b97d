#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/exported proves what it says: it mutes one function of a library, and tells tests that notice from those that do not."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parent / "exported"
loader = importlib.machinery.SourceFileLoader("exported", str(SCRIPT))
exported = importlib.util.module_from_spec(importlib.util.spec_from_loader("exported", loader))
loader.exec_module(exported)

LIBRARY = "int answer(void) { return 42; }\nint unread(void) { return 43; }\n"
# Stands for a test program: prints what GoogleTest prints, and fails if the answer is not there.
PROGRAM = """#include <stdio.h>
int answer(void);
int unread(void);
int own(void) { return 1; }
int main(void) {
  int good = answer() == 42 && own() == 1 && unread() != 1;
  printf("[  %s  ] 1 test\\n", good ? "PASSED" : "FAILED");
  return !good;
}
"""


class Exported(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name)
        for name in ("lib", "tests"):
            (root / name).mkdir()
        (root / "library.c").write_text(LIBRARY)
        (root / "program.c").write_text(PROGRAM)
        library = root / "lib" / "libsample.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libsample.so.1", root / "library.c", "-o", library], check=True)
        subprocess.run(["cc", "-O0", root / "program.c", "-o", root / "tests" / "program", library,
                        "-Wl,-rpath,$ORIGIN/../lib", "-Wl,--enable-new-dtags"], check=True)
        self.root = root

    def prove(self, rows):
        (self.root / "list.tsv").write_text(rows)
        said = io.StringIO()
        with mock.patch.object(exported, "LIBRARIES", ("libsample.so.1",)), mock.patch.object(exported, "LIST", self.root / "list.tsv"), \
                mock.patch.object(sys, "argv", ["exported", str(self.root)]), contextlib.redirect_stdout(said):
            status = exported.main()
        return status, said.getvalue()

    def test_a_test_that_fails_without_the_function_notices_and_another_does_not(self):
        status, said = self.prove("libsample.so.1\tanswer\tprogram\tA.B\nlibsample.so.1\tunread\tprogram\tA.B\n")
        self.assertEqual(status, 1)
        self.assertIn("noticed: answer by A.B of program", said)
        self.assertIn("NOT NOTICED: A.B of program passes although unread does nothing", said)
        self.assertTrue(said.endswith("1 of 2 functions are noticed\n"))

    def test_a_function_without_a_row_and_a_row_without_a_function_fail(self):
        status, said = self.prove("libsample.so.1\tanswer\tprogram\tA.B\nlibsample.so.1\tgone\tprogram\tA.B\n")
        self.assertEqual(status, 1)
        self.assertIn("unread of libsample.so.1 has no row", said)
        self.assertIn("libsample.so.1 does not export gone, which has a row", said)

    def test_a_test_that_fails_anyway_proves_nothing(self):
        shutil.copy("/bin/false", self.root / "tests" / "broken")
        status, said = self.prove("libsample.so.1\tanswer\tbroken\tA.B\n")
        self.assertEqual(status, 1)
        self.assertIn("does not pass with every function in place", said)

    def test_the_committed_list_is_well_formed(self):
        rows = exported.read_list(SCRIPT.with_name("exported.tsv").read_text())
        self.assertGreater(len(rows), 200)
        with self.assertRaisesRegex(ValueError, "stands twice"):
            exported.read_list("a\tb\tc\td\na\tb\tc\te\n")


if __name__ == "__main__":
    unittest.main()
