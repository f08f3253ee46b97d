# SPDX-License-Identifier: Apache-2.0
"""The package neuron: compile, load, call, profile, refuse."""
import gc
import os
import subprocess
import sys
import types
import unittest

from common import BUILD, PackageTest, neuron, np
from wire import Hlo, Onnx


def network(weights):
    model = Onnx()
    model.input("x", ["n", 16])
    model.constant("w", weights)
    model.node("MatMul", ["x", "w"], "h")
    model.node("Relu", ["h"], "y")
    model.output("y", ["n", 4])
    return model.bytes()


class Models(PackageTest):
    def test_a_python_without_numpy_is_told_what_the_package_needs(self):
        # -S: without the folder of Debian's packages.
        done = subprocess.run([sys.executable, "-S", "-c", "import neuron"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(neuron.__file__))})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"ImportError: the package neuron needs NumPy, which \S+ lacks; install it \(.*\n$")

    def test_an_onnx_model_gives_its_values_for_the_size_of_its_batch(self):
        weights, x = self.normal(16, 4), self.normal(5, 16)
        model = neuron.load(self.write("net.onnx", network(weights)), batch=5)
        self.addCleanup(model.close)
        wanted = np.maximum(x.astype(np.float64) @ weights, 0)
        self.near(model(x), wanted, 1e-5)
        self.near(model(x=x), wanted, 1e-5)
        self.assertGreater(model.report.device_ps, 0)
        self.assertGreater(model.report.instructions["PE"], 0)
        self.assertEqual(list(model.inputs), ["x"])
        self.assertEqual(model.outputs["y"].shape, [5, 4])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["net.onnx"])

    def test_a_neff_is_written_where_it_is_wanted_and_loaded_from_path_and_bytes(self):
        weights, x = self.normal(16, 4), self.normal(1, 16)
        path = neuron.compile(self.write("net.onnx", network(weights)), batch=1, check=True)
        self.assertEqual(path, self.folder / "net.neff")
        for source in (path, path.read_bytes()):
            with neuron.load(source) as model:
                self.near(model(x), np.maximum(x @ weights, 0), 1e-5)

    def test_an_hlo_module_gives_several_outputs_by_their_names(self):
        hlo = Hlo()
        x = hlo.parameter("x", (3, 4))
        total = hlo.reduce(hlo.map("multiply", x, x), 0, [1], "add")
        path = self.write("sums.pb", hlo.bytes([total, hlo.map("negate", x)], ["sums", "other"]))
        values = self.normal(3, 4)
        with neuron.load(path) as model:
            results = model(values)
        self.assertEqual(list(results), ["sums", "other"])
        self.near(results["sums"], (values.astype(np.float64) ** 2).sum(1), 1e-5)
        self.near(results["other"], -values, 0)

    def test_whole_numbers_keep_their_values_or_are_refused(self):
        hlo = Hlo()
        a = hlo.parameter("a", (8,), "int32")
        path = self.write("twice.pb", hlo.bytes([hlo.add("add", (8,), [a, a], "int32")], ["b"]))
        with neuron.load(path) as model:
            self.assertTrue(np.array_equal(model(np.arange(8)), 2 * np.arange(8)))
            with self.assertRaisesRegex(TypeError, "values that int32 cannot hold"):
                model(np.arange(8) << 40)
            with self.assertRaisesRegex(TypeError, "expected int32"):
                model(np.zeros(8, np.float32))

    def test_a_profile_is_one_that_neuron_profile_reads(self):
        path = neuron.compile(self.write("net.onnx", network(self.normal(16, 4))), batch=2)
        with neuron.load(path) as model:
            model.profile(self.normal(2, 16), ntff=self.folder / "one.ntff")
        shown = subprocess.run([BUILD / "bin" / "neuron-profile", "view", "-n", path, "-s",
                                self.folder / "one.ntff"], capture_output=True, text=True,
                               check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("CRITICAL PATH", shown.stdout)

    def test_what_cannot_be_compiled_has_the_compilers_sentences(self):
        model = Onnx()
        model.input("x", [2])
        model.node("StringNormalizer", ["x"], "y")
        model.output("y", [2])
        with self.assertRaisesRegex(neuron.CompileError, "StringNormalizer"):
            neuron.compile(self.write("words.onnx", model.bytes()))
        free = self.write("free.onnx", network(self.normal(16, 4)))
        with self.assertRaisesRegex(neuron.CompileError, r'a free dimension; say shapes=\{"x": \(1, 16\)\}, or batch=1$'):
            neuron.compile(free)
        with self.assertRaisesRegex(neuron.CompileError, "missing.onnx"):
            neuron.compile(self.folder / "missing.onnx")
        with self.assertRaises(neuron.NeuronError):
            neuron.load(b"no NEFF")

    def test_calls_with_wrong_arrays_say_what_is_expected(self):
        path = neuron.compile(self.write("net.onnx", network(self.normal(16, 4))), batch=2)
        with neuron.load(path) as model:
            for arrays, named, sentence in (((self.normal(3, 16),), {}, r"expected \(2, 16\)"),
                                            ((), {}, "without a value: x"),
                                            ((), {"z": 1}, "no input 'z'; it has x"),
                                            ((1, 2), {}, "has 1 inputs; found 2")):
                with self.assertRaisesRegex((TypeError, ValueError), sentence):
                    model(*arrays, **named)
        with self.assertRaisesRegex(neuron.NeuronError, "is closed"):
            model(self.normal(2, 16))

    def test_a_model_ends_with_its_runtime_and_says_so(self):
        path = neuron.compile(self.write("net.onnx", network(self.normal(16, 4))), batch=2)
        old, x = neuron.load(path), self.normal(2, 16)
        old(x)
        neuron.close()
        with neuron.load(path) as model:
            for use in (lambda: old(x), old.execute, lambda: old.read("y"), lambda: old.write(x=x),
                        lambda: old.profile(x, ntff=self.folder / "no.ntff")):
                with self.assertRaisesRegex(neuron.NeuronError, "is closed, or the runtime"):
                    use()
            old.close()
            model(x)

    def test_a_tensor_whose_bytes_are_not_those_of_its_shape_is_refused(self):
        # The library would copy beyond the end of the array.
        with neuron.load(neuron.compile(self.write("net.onnx", network(self.normal(16, 4))), batch=2)) as model:
            info = model.inputs["x"]
            self.assertEqual(info.size, 2 * 16 * 4)
            for change in ({"size": 4 * info.size}, {"shape": [2, 15]}, {"dtype": "uint8"}):
                wrong = types.SimpleNamespace(**{**vars(info), **change})
                with self.assertRaisesRegex(neuron.NeuronError, "tensor 'x' has .* bytes in the NEFF"):
                    neuron.model._Tensor(model._lib, wrong, 0)

    def test_a_dropped_model_gives_its_memory_back(self):
        path = neuron.compile(self.write("net.onnx", network(self.normal(16, 4))), batch=2)
        model = neuron.load(path)
        lib, handle = model._lib, model._model
        model(self.normal(2, 16))
        del model
        gc.collect()
        with self.assertRaises(neuron.NeuronError):
            lib.report(handle)

    def test_a_file_whose_name_begins_like_an_option_is_a_file(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        self.write("-O.onnx", network(self.normal(16, 4)))
        self.assertEqual(str(neuron.compile("-O.onnx", batch=1)), "-O.neff")
        self.assertTrue((self.folder / "-O.neff").exists())


if __name__ == "__main__":
    unittest.main()
