# SPDX-License-Identifier: Apache-2.0
"""The program neuron-nki: what its commands print, write and refuse."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from common import BUILD

KERNELS = '''
import nki, nki.language as nl, nki.isa as nisa
@nki.jit
def double(x, factor=2.0):
    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * factor)
    return y
@nki.jit
def broken(x):
    tile = nl.load(x)
    try:
        return tile
    finally:
        pass
@nki.jit
def lonely(x):
    return x
'''
TESTS = '''
import numpy as np
from kernels import broken, double
def test_double():
    assert (double(np.ones((128, 8), np.float32)) == 2).all()
def test_broken():
    broken(np.ones((128, 8), np.float32))
'''


class Tool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Python's compiled files of the first command serve the others.
        compiled = tempfile.TemporaryDirectory()
        cls.addClassCleanup(compiled.cleanup)
        cls.compiled = compiled.name

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "kernels.py").write_text(KERNELS)

    def nki(self, *words, status=0, **environment):
        done = subprocess.run([str(BUILD / "bin" / "neuron-nki"), *words], cwd=self.folder,
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "HOME": str(self.folder),
                                   "PYTHONPYCACHEPREFIX": self.compiled, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_run_prints_values_time_and_lines(self):
        said = self.nki("run", "kernels.py::double", "--shapes", "128x64", "VALUE=0.0", "--target",
                        "trn1")
        self.assertIn("float32[128, 64]", said)
        self.assertRegex(said, "least -?0  most -?0")
        self.assertIn("double on trn1", said)
        self.assertIn("kernels.py:6", said)

    def test_what_is_kept_lies_where_the_variable_says_and_without_a_cache_nowhere(self):
        home = self.folder / "home"
        kept = self.folder / "kept"
        for cache, written in ((None, home / ".cache" / "neuron-nki"), (str(kept), kept), ("", None)):
            with self.subTest(cache):
                home.mkdir()
                environment = {**os.environ, "HOME": str(home)}
                for name in ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "NEURON_NKI_CACHE"):
                    environment.pop(name, None)
                if cache is not None:
                    environment["NEURON_NKI_CACHE"] = cache
                subprocess.run([str(BUILD / "bin" / "neuron-nki"), "run", "kernels.py::double", "--shapes", "128x64",
                                "VALUE=2.0"], cwd=self.folder, env=environment, check=True, capture_output=True)
                folders = {path.parent for path in self.folder.rglob("*.pyc")}
                self.assertEqual(written is not None, bool(folders))
                self.assertTrue(all(path.is_relative_to(written) for path in folders), folders)
                self.assertEqual(written is not None, bool(list(self.folder.rglob("*.neff"))))
                shutil.rmtree(home)
                shutil.rmtree(kept, ignore_errors=True)

    def test_run_draws_a_bar_for_each_engine_beside_the_lines(self):
        self.nki("run", "kernels.py::double", "--shapes", "128x64", "VALUE=2.0", "--picture", "a.html")
        page = (self.folder / "a.html").read_text(encoding="utf-8")
        bars = dict(re.findall(r"<tr><td>(\w+)</td><td><div style='[^']*width:(\d+)px'", page))
        self.assertEqual(set(bars), {"Tensor", "Scalar", "GpSimd", "Vector", "Sync"})
        self.assertGreater(max(map(int, bars.values())), 0)
        self.assertIn("kernels.py:6", page)

    def test_bench_has_a_row_for_each_shape(self):
        said = self.nki("bench", "kernels.py::double", "--shapes", "128x64", ",", "128x4096")
        first, second = [float(line.split()[1]) for line in said.splitlines()[1:]]
        self.assertLess(first, second)

    def test_check_compares_with_float64(self):
        said = self.nki("check", "kernels.py::double", "--shapes", "64x32:bfloat16")
        self.assertIn("agree with float64", said)

    def test_compile_writes_what_lower_makes_of_the_trace(self):
        self.nki("compile", "kernels.py::double", "--shapes", "128x64", "-o", "a.neff", "--trace",
                 "a.trace")
        self.nki("lower", "a.trace", "-o", "b.neff", "--logical-nc-config", "2")
        self.assertEqual((self.folder / "a.neff").read_bytes(), (self.folder / "b.neff").read_bytes())
        shown = subprocess.run([str(BUILD / "bin" / "neuron-as"), "-d", "b.neff"], cwd=self.folder,
                               capture_output=True, text=True, check=True).stdout
        self.assertIn("kernels.py", shown)

    def test_an_error_in_the_file_of_a_kernel_is_one_line_with_its_place(self):
        start = "import nki, nki.language as nl\n"
        kernel = "@nki.jit\ndef double(x):\n    return {}\n"
        for name, text, said in (
                ("name", start + kernel.format("factr * nl.load(x)"), "name.py:4: NameError: name 'factr' is not defined"),
                ("call", start + kernel.format("nl.loads(x)"), "call.py:4: AttributeError: "),
                ("module", "import nosuchmodule\n" + start, "module.py:1: ModuleNotFoundError: No module named 'nosuchmodule'"),
                ("imports", start + "import json\njson.loads('{')\n", "imports.py:3: JSONDecodeError: ")):
            with self.subTest(name):
                (self.folder / f"{name}.py").write_text(text)
                words = ("compile", f"{name}.py::double", "--shapes", "128x64", "-o", "x.neff")
                one = self.nki(*words, status=1)
                self.assertRegex(one, r"^neuron-nki: (\S*/)?" + re.escape(said))
                self.assertEqual(one.count("\n"), 1, one)
                self.assertIn("Traceback (most recent call last)", self.nki(*words, "--traceback", status=1))

    def test_lint_names_what_a_compiler_refuses(self):
        self.assertIn("kernels.py:11: try and except", self.nki("lint", "kernels.py", status=1))

    def test_a_file_without_kernels_is_told_apart_from_a_name_that_is_not_there(self):
        (self.folder / "none.py").write_text("import nki\n")
        self.assertIn("none of its functions is decorated with @nki.jit", self.nki("run", "none.py", status=1))
        self.assertIn("1 file read, nothing found", self.nki("lint", "none.py"))
        self.assertIn("has no kernel twice; its kernels are: ", self.nki("run", "kernels.py::twice", status=1))

    def test_corpus_has_a_row_for_each_kernel(self):
        (self.folder / "test_kernels.py").write_text(TESTS)
        said = self.nki("corpus", ".", status=1)
        rows = {line.split("::")[1].split()[0]: line for line in said.splitlines() if "::" in line}
        self.assertIn("as its test", rows["double"])
        self.assertIn("results are tensors in nl.shared_hbm", rows["broken"])
        self.assertIn("no test or script", rows["lonely"])
        self.assertIn("3 kernels: 1 as their tests, 1 failed, 1 not run", said)

    def test_corpus_of_no_folder_is_a_failure(self):
        self.assertIn("nowhere is no folder", self.nki("corpus", "nowhere", status=1))

    def test_corpus_runs_scripts_as_python_does(self):
        (self.folder / "sub").mkdir()
        (self.folder / "sub" / "beside.py").write_text(KERNELS)
        (self.folder / "src" / "packaged").mkdir(parents=True)
        (self.folder / "src" / "packaged" / "__init__.py").write_text("SIZE = 8")
        (self.folder / "sub" / "script.py").write_text(
            "import argparse\nimport numpy as np\nfrom beside import double\nfrom packaged import SIZE\n"
            "if __name__ == '__main__':\n    argparse.ArgumentParser().parse_args()\n"
            "    assert (double(np.ones((SIZE, SIZE), np.float32)) == 2).all()\n")
        row = next(line for line in self.nki("corpus", ".").splitlines() if "beside.py::double" in line)
        self.assertIn("as its test", row)

    def test_corpus_counts_what_a_file_of_tests_calls_while_it_is_imported(self):
        for wanted, status, result in ((2, 0, "as its test"), (3, 1, "failed")):
            (self.folder / "test_kernels.py").write_text(
                "import numpy as np, nki\nfrom kernels import double\n"
                f"def test_double(times):\n    assert (nki.simulate(nki.jit(double))(X) == times).all()\n"
                f"X = np.ones((8, 8), np.float32)\ntest_double({wanted})\n")
            said = self.nki("corpus", ".", status=status)
            self.assertIn(result, next(line for line in said.splitlines() if "::double" in line))

    def test_a_folder_of_the_same_name_is_not_the_package(self):
        for name in ("nki", "numpy"):
            (self.folder / name).mkdir()
            (self.folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')")
        (self.folder / "beside.py").write_text("FACTOR = 3.0")
        (self.folder / "sub").mkdir()
        (self.folder / "sub" / "kernel.py").write_text(KERNELS.replace("factor=2.0", "factor=beside.FACTOR")
                                                       .replace("import nki,", "import beside, nki,"))
        said = self.nki("run", "sub/kernel.py::double", "--shapes", "8x8")
        self.assertIn("float32[8, 8]", said)

    def test_corpus_believes_no_test_that_expects_what_did_not_happen(self):
        for body, wanted in (("with pytest.raises(ValueError): double(x)", "(?i)nothing was raised|did not raise"),
                             ("double(x); raise SystemExit(1)", "SystemExit"),
                             ("assert double(x)[0, 0] == pytest.approx(2.1)", "AssertionError"),
                             ("assert double(x)[0, 0] == pytest.approx(2.0000001)", "as its test"),
                             ("with pytest.raises(KeyError, match='nowhere'): double(x); {}['there']",
                              "expected 'nowhere'|AssertionError"),
                             ("with pytest.raises(KeyError): double(x); {}['there']", "as its test")):
            (self.folder / "test_kernels.py").write_text(
                "import numpy as np\nimport pytest\nfrom kernels import double\n"
                f"x = np.ones((8, 8), np.float32)\ndef test_double():\n    {body}\n")
            said = self.nki("corpus", ".", status=0 if wanted == "as its test" else 1)
            row = next(line for line in said.splitlines() if "::double" in line)
            self.assertRegex(row, wanted)

    def test_corpus_passes_over_what_has_nothing_to_do_with_kernels(self):
        mark = self.folder / "started"
        start = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
        (self.folder / "server.py").write_text(f"if __name__ == '__main__':\n    {start.replace(chr(10), chr(10) + '    ')}")
        (self.folder / "test_other.py").write_text(f"# of nki no word\n{start}def test_other(): pass\n")
        (self.folder / "scripts").mkdir()
        (self.folder / "scripts" / "__init__.py").write_text("")
        (self.folder / "scripts" / "helper.py").write_text("from kernels import double\n")
        (self.folder / "scripts" / "script.py").write_text(
            "import numpy as np\nfrom scripts import helper\n"
            "if __name__ == '__main__': helper.double(np.ones((8, 8), np.float32))\n")
        said = self.nki("corpus", ".")
        self.assertFalse(mark.exists())
        self.assertIn("as its test", next(line for line in said.splitlines() if "::double" in line))
        self.assertIn("tests and scripts passed over, because they neither import nki or neuronxcc, nor have a function under "
                      "@nki.jit, nor import a file of the folder that does: 2 (server.py, test_other.py)", said)

    def corpus_of(self, **texts):
        """What corpus says of a folder with these files alone; __ in a name is a folder's end."""
        folder = self.folder / "corpus"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in texts.items():
            path = folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.nki("corpus", "corpus")

    def test_corpus_has_a_row_for_kernels_whose_nki_comes_from_another_package(self):
        kernel = "@nki.jit\ndef {}(x): return x\n"
        said = self.corpus_of(softmax="from ..shim import nki\n" + kernel.format("softmax"),
                              norm="from ourlib import nki_shim\n" + kernel.format("norm").replace("nki.", "nki_shim.nki."))
        for name in ("softmax", "norm"):
            self.assertRegex(said, rf"corpus/{name}.py::{name} +not run +no test or script")
        self.assertNotIn("note", said)

    def test_corpus_names_every_file_with_functions_under_jit_that_it_passes_over(self):
        texts = {f"file{number}": f"from ourlib import jit\n@jit\ndef kernel{number}(x): return x\n" for number in range(5)}
        said = self.corpus_of(other="import numba\n@numba.jit\ndef fast(x): return x\n", **texts)
        names = ", ".join(f"corpus/file{number}.py" for number in range(5))
        self.assertRegex(said, rf"note: files with functions under @jit passed over, because .*: 6 \({names}, corpus/other.py\)")
        self.assertIn("0 kernels", said)

    def test_corpus_takes_no_installed_module_for_a_file_of_its_name_elsewhere_in_the_folder(self):
        mark = self.folder / "started"
        start = f"\nif __name__ == '__main__': open({str(mark)!r}, 'a').write(__file__)\n"
        kernels = {"kernels__site_package": "import nki\n", "kernels__utils": "import nki\n"}
        site = self.folder / "site"
        site.mkdir()
        (site / "site_package.py").write_text("parse = 1\n")
        inherited = os.environ.get("PYTHONPATH", "")
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=f"{site}:{inherited}"):
            said = self.corpus_of(app__server="from site_package import parse" + start, **kernels)
        self.assertFalse(mark.exists())
        self.assertIn("1 (corpus/app/server.py)", said)
        # Nor one that no Python finds: such a script cannot be run, or its packages are those of another Python.
        said = self.corpus_of(app__server="try: from utils import parse\nexcept ImportError: pass" + start, **kernels)
        self.assertFalse(mark.exists())
        self.assertIn("1 (corpus/app/server.py)", said)

    def test_corpus_follows_imports_from_folders_that_a_script_puts_on_its_path(self):
        mark = self.folder / "started"
        start = f"\nif __name__ == '__main__': open({str(mark)!r}, 'a').write('x')\n"
        self.corpus_of(kernels__first="import nki\n", tools__parts__second="import nki\n",
                       app__one="import os, sys\nsys.path.append(os.path.dirname(os.path.abspath(__file__)) + '/../kernels')\n"
                                "import first" + start,
                       tools__sub__two="import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent.parent))\n"
                                       "from parts import second" + start)
        self.assertEqual(mark.read_text(), "xx")

    def test_run_says_how_many_elements_nothing_wrote(self):
        (self.folder / "part.py").write_text(
            "import nki, nki.language as nl\n@nki.jit\ndef part(x):\n"
            "    whole, y, z = [nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(3)]\n"
            "    nl.store(whole, nl.load(x) / 0.0)\n"
            "    nl.store(y[:, 0:24], nl.load(x[:, 0:24]))\n"
            "    nl.store(z[:, 8:16], nl.load(x[:, 8:16]))\n    return whole, y, z[:, 0:16]\n")
        for kind in ("bfloat16", "int32"):
            with self.subTest(kind):
                said = self.nki("run", "part.py::part", "--shapes", f"64x32:{kind}", status=1)
                self.assertIn("neuron-nki: part: 512 of 2048 elements of result 1 were never written; "
                              "512 of 1024 elements of result 2 were never written; they", said)
                self.assertIn("part on trn2", said)
        (self.folder / "one.py").write_text(
            "import nki, nki.language as nl\n@nki.jit\ndef one(x):\n"
            "    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(y[0:16], nl.load(x[0:16]))\n    return y\n")
        self.assertIn("neuron-nki: one: 3584 of 4096 elements of the result were never written; they are shown as NaN",
                      self.nki("run", "one.py", "--shapes", "128x32", status=1))
        self.assertNotIn("never", self.nki("run", "kernels.py::double", "--shapes", "64x32", "VALUE=nan"))

    def test_run_counts_what_nothing_wrote_in_views_of_another_width(self):
        start = ("import nki, nki.language as nl\n@nki.jit\ndef part(x):\n"
                 "    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n")
        columns = "    nl.store(y[:, 0:24], nl.load(x[:, 0:24]))\n"
        halves = "    nl.store(y.view(nl.bfloat16)[:, {0}], nl.load(x.view(nl.bfloat16)[:, {0}]))\n"
        for kind, other, body, wanted in (
                ("float32", "bfloat16", columns, "1024 of 4096"), ("bfloat16", "float32", columns, "256 of 1024"),
                # Half of the bytes of one element of each row.
                ("bfloat16", "float32", "    nl.store(y[:, 0:31], nl.load(x[:, 0:31]))\n", "64 of 1024"),
                ("float32", "float32", halves.format("0:64"), ""), ("float32", "float32", halves.format("0:63"), "64 of 2048"),
                ("float32", "bfloat16", "    nl.store(y, nl.load(x))\n", "")):
            with self.subTest(kind=kind, other=other, body=body):
                (self.folder / "part.py").write_text(f"{start}{body}    return y.view(nl.{other})\n")
                said = self.nki("run", "part.py", "--shapes", f"64x32:{kind}", status=1 if wanted else 0)
                self.assertEqual(re.findall(r"(\d+ of \d+) elements of the result were never", said), [wanted] if wanted else [])

    def test_an_argument_that_has_only_a_name_is_told_apart_from_wrong_numbers_of_shapes(self):
        (self.folder / "named.py").write_text("import nki\n@nki.jit\ndef k(x, *, eps, scale, start=0): return x\n")
        for shapes in ((), ("128x8",), ("128x8", "VALUE=1"), ("128x8", "VALUE=1", "VALUE=1")):
            said = self.nki("run", "named.py::k", *(("--shapes", *shapes) if shapes else ()), status=1)
            self.assertEqual(said, "neuron-nki: k takes eps and scale by name only, and --shapes gives arguments by their place; "
                             "give each a default in the kernel's file\n")

    def test_more_shapes_than_arguments_are_refused(self):
        words = ("--shapes", "128x64", "VALUE=2.0", "128x64")
        for command in (("run",), ("bench",), ("check",), ("compile", "-o", "a.neff")):
            said = self.nki(command[0], "kernels.py::double", *command[1:], *words, status=1)
            self.assertTrue(said.endswith("neuron-nki: double takes x, factor; --shapes gives 3, expected at most 2\n"), said)

    def test_wrong_words_are_refused(self):
        self.assertIn("FILE.py::KERNEL", self.nki("run", "none.py::k", status=1))
        self.assertIn("its kernels are", self.nki("run", "kernels.py::none", status=1))
        said = self.nki("run", "kernels.py::double", "--shapes", "128x-1", status=1)
        self.assertTrue(said.startswith("neuron-nki: --shapes 128x-1: expected"), said)
        for wrong in ("float99", "float8_e4m3fn_x4"):
            said = self.nki("run", "kernels.py::double", "--shapes", f"128x64:{wrong}", status=1)
            self.assertRegex(said, rf"^neuron-nki: --shapes 128x64:{wrong}: .*{wrong}.*; it has float32, .*\n$")
        (self.folder / "bad.py").write_text("x = 1\ndef f(:\n")
        said = self.nki("run", "bad.py::f", status=1)
        self.assertRegex(said, r"^neuron-nki: .*bad.py:2: invalid syntax: def f\(:\n$")

    def test_what_is_refused_is_refused_before_arrays_are_filled(self):
        # Numbers of 164 GB, for which the test's host has no room: the refusal needs none.
        said = self.nki("run", "kernels.py::double", "--shapes", "128x160000000", status=1)
        self.assertRegex(said, r"^neuron-nki: .*kernels.py:\d+: .*\n$")
        self.assertNotIn("allocate", said)

    def test_a_file_that_cannot_be_written_is_named_and_what_was_there_stays(self):
        kept = self.folder / "kept" / "a.neff"
        kept.parent.mkdir()
        kept.write_text("as before")
        limited = ("import resource, sys; from nki.tool import write; from nki.errors import NkiError\n"
                   "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
                   "try: write(sys.argv[1], bytes(1000))\n"
                   "except NkiError as error: print(error)")
        done = subprocess.run(["/usr/bin/python3", "-c", limited, str(kept)], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": str(BUILD / "share" / "neuron" / "python")})
        self.assertEqual(done.stdout, f"cannot write {kept}: File too large\n")
        self.assertEqual([path.name for path in kept.parent.iterdir()], ["a.neff"])
        self.assertEqual(kept.read_text(), "as before")
        said = self.nki("compile", "kernels.py::double", "--shapes", "128x64", "-o", "/nowhere/a.neff", status=1)
        self.assertEqual(said, "neuron-nki: cannot write /nowhere/a.neff: No such file or directory\n")

    def test_a_reader_that_has_gone_is_told_nothing_and_a_full_disk_is(self):
        words = f"{BUILD}/bin/neuron-nki bench kernels.py::double --shapes 128x64 , 128x32"
        for rest, status, wanted in (("| head -c 1 >/dev/null", 1, ""), (">/dev/full", 1, "cannot write to standard output")):
            done = subprocess.run(["bash", "-c", f"{words} {rest}; exit ${{PIPESTATUS[0]}}"], cwd=self.folder,
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "HOME": str(self.folder), "PYTHONPYCACHEPREFIX": self.compiled})
            self.assertEqual(done.returncode, status)
            self.assertIn(wanted, done.stderr)
            self.assertLessEqual(done.stderr.count("\n"), 1)
            self.assertEqual(bool(wanted), bool(done.stderr), done.stderr)

    def test_a_python_without_numpy_is_told_what_the_program_needs(self):
        bare = self.folder / "bare"
        bare.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
        bare.chmod(0o755)
        said = self.nki("run", "kernels.py::double", "--shapes", "128x64", status=1, NEURON_NKI_PYTHON=str(bare))
        self.assertRegex(said, r"^neuron-nki: the package nki needs NumPy, .*; NEURON_NKI_PYTHON names one\n$")

    def test_a_device_of_another_family_is_named(self):
        said = self.nki("run", "kernels.py::double", "--shapes", "128x64", "--target", "trn2",
                        status=1, NEURON_EMULATOR="trn1.2xlarge")
        self.assertIn("the kernel is for trn2, and NEURON_EMULATOR=trn1.2xlarge", said)
        self.assertIn("double needs x", self.nki("run", "kernels.py::double", status=1))
        self.assertIn("expected SHAPE", self.nki("run", "kernels.py::double", "--shapes", "12y",
                                                 status=1))
        (self.folder / "empty").write_text("")
        self.assertIn("empty: line 1 is missing: the trace is empty", self.nki("lower", "empty", "-o", "x.neff", status=1))
        (self.folder / "cut.trace").write_text('{"trace": ')
        said = self.nki("lower", "cut.trace", "-o", "x.neff", status=1)
        self.assertRegex(said, r"^neuron-nki: cut.trace: line 1, column \d+: not valid JSON.*\n$")


if __name__ == "__main__":
    unittest.main()
