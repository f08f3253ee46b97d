# SPDX-License-Identifier: Apache-2.0
"""What a call of a kernel depends on: nothing that the kernel reads is taken from an earlier call, and
nothing that a caller gives or gets is lost."""
import gc
import json
import os
import tempfile
import threading
import types
import unittest
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output
from nki import compiler

FACTOR = 2.0
SETTINGS = {"factors": [2.0, 1.0]}
other_module = types.ModuleType("a_module_of_the_test")
other_module.FACTOR = 2.0


class Shape:
    factor = 2.0

    def scaled(self, tile):
        return tile * self.factor


def of_the_module(tile):
    return tile * FACTOR


@nki.jit
def by_variable(x):
    y = output(x.shape)
    nl.store(y, nl.load(x) * FACTOR)
    return y


@nki.jit
def by_function(x):
    y = output(x.shape)
    nl.store(y, of_the_module(nl.load(x)))
    return y


@nki.jit
def by_container(x):
    y = output(x.shape)
    nl.store(y, nl.load(x) * SETTINGS["factors"][0])
    return y


@nki.jit
def by_module(x):
    y = output(x.shape)
    nl.store(y, nl.load(x) * other_module.FACTOR)
    return y


@nki.jit
def by_class(x):
    y = output(x.shape)
    nl.store(y, Shape().scaled(nl.load(x)))
    return y


@nki.jit
def by_argument(x, how):
    y = output(x.shape)
    nl.store(y, how(nl.load(x)))
    return y


@nki.jit
def by_field(x, settings):
    y = output(x.shape)
    nl.store(y, nl.load(x) * settings.factor)
    return y


@nki.jit
def doubled(x):
    tile = nl.load(x)
    nl.store(x, tile * 2.0)


@nki.jit
def twice(x):
    y = output(x.shape)
    nl.store(y, nl.load(x) * 2.0)
    return y


@dataclass(slots=True)
class Slots:
    factor: float = 2.0


class WhatAKernelReads(DeviceTest):
    def setUp(self):
        self.x = normal(8, 4)

    def gives(self, kernel, factor, *others):
        self.near(kernel(self.x, *others), self.x * np.float64(factor), 1e-5)

    def test_defaults_that_change_between_calls_are_those_of_the_call(self):
        def body(x, factor=2.0):
            y = output(x.shape)
            nl.store(y, nl.multiply(nl.load(x), factor))
            return y

        kernel, x = nki.jit(body), normal(8, 8)
        self.near(kernel(x), 2 * x, 1e-6)
        body.__defaults__ = (3.0,)
        self.near(kernel(x), 3 * x, 1e-6)

        def named(x, *, factor=2.0):
            return body(x, factor)

        kernel = nki.jit(named)
        self.near(kernel(x), 2 * x, 1e-6)
        named.__kwdefaults__["factor"] = 5.0
        self.near(kernel(x), 5 * x, 1e-6)

    def test_objects_that_share_others_are_read_once(self):
        class Node:
            def __init__(self, *below):
                self.below, self.factor = below, 2.0

        node = leaf = Node()
        for _ in range(40):  # 2^40 ways from the last one to the first
            node = Node(node, node)

        @nki.jit
        def kernel(x):
            lowest = node
            while lowest.below:
                lowest = lowest.below[0]
            y = output(x.shape)
            nl.store(y, nl.load(x) * lowest.factor)
            return y

        x = normal(8, 8)
        self.near(kernel(x), 2 * x, 0)
        leaf.factor = 4.0
        self.near(kernel(x), 4 * x, 0)

    def test_a_variable_of_the_module_is_read_at_each_call(self):
        global FACTOR
        self.addCleanup(globals().__setitem__, "FACTOR", FACTOR)
        for kernel in (by_variable, by_function):
            FACTOR = 2.0
            self.gives(kernel, 2)
            FACTOR = 3.0
            self.gives(kernel, 3)
            known = len(kernel.specialisations)
            self.gives(kernel, 3)
            FACTOR = 2.0
            self.gives(kernel, 2)
            self.assertEqual(len(kernel.specialisations), known)

    def test_so_are_containers_and_other_modules_and_classes(self):
        self.gives(by_container, 2)
        SETTINGS["factors"][0] = 3.0
        self.gives(by_container, 3)
        self.gives(by_module, 2)
        other_module.FACTOR = 3.0
        self.gives(by_module, 3)
        self.gives(by_class, 2)
        Shape.factor = 3.0
        self.gives(by_class, 3)

    def test_a_closure_counts_with_what_it_holds(self):
        held = [2.0]

        @nki.jit
        def kernel(x):
            y = output(x.shape)
            nl.store(y, nl.load(x) * held[0])
            return y

        self.gives(kernel, 2)
        held[0] = 3.0
        self.gives(kernel, 3)

    def test_functions_as_arguments_count_with_what_they_read(self):
        def scale(factor):
            return lambda tile: tile * factor

        self.gives(by_argument, 2, scale(2.0))
        self.gives(by_argument, 3, scale(3.0))
        known = len(by_argument.specialisations)
        self.gives(by_argument, 3, scale(3.0))
        self.assertEqual(len(by_argument.specialisations), known)
        shape = Shape()
        shape.factor = 4.0
        self.gives(by_argument, 4, shape.scaled)
        shape.factor = 5.0
        self.gives(by_argument, 5, shape.scaled)

    def test_fields_without_a_dictionary_count(self):
        settings = Slots()
        self.gives(by_field, 2, settings)
        settings.factor = 3.0
        self.gives(by_field, 3, settings)

    def test_texts_and_lists_with_fields_count_with_them(self):
        class Name(str):
            pass

        class Row(list):
            pass

        for settings in (Name("n"), Row([1])):
            settings.factor = 2.0
            self.gives(by_field, 2, settings)
            settings.factor = 3.0
            self.gives(by_field, 3, settings)

    def test_a_file_of_constants_is_read_again_when_it_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "factor.npy")

            @nki.jit
            def kernel(x):
                y = output(x.shape)
                tile = nl.load(x)
                nisa.tensor_tensor(tile, tile, nl.load(nl.shared_constant(path)), nl.multiply)
                nl.store(y, tile)
                return y

            for factor in (2.0, 3.0):
                np.save(path + ".new", np.full((8, 4), factor, np.float32))
                os.replace(path + ".new.npy", path)
                self.gives(kernel, factor)


class Arrays(DeviceTest):
    def test_another_order_of_bytes_has_the_same_values(self):
        x = normal(16, 8)
        self.near(twice(x.astype(">f4")), 2.0 * x, 0)
        changed = x.astype(">f4")
        doubled(changed)
        self.near(changed, 2.0 * x, 0)

        @nki.jit
        def kernel(x):
            y = output(x.shape)
            nl.store(y, nl.load(x) + nl.load(nl.shared_constant(np.arange(128).astype(">f4").reshape(16, 8))))
            return y

        self.near(kernel(x), x + np.arange(128.0).reshape(16, 8), 1e-5)

    def test_what_a_kernel_changes_reaches_the_caller_or_is_refused(self):
        x = normal(16, 8)
        x.flags.writeable = False
        self.refused(doubled, (x,), '"x"', "read-only", "return the tensor")

        class Copying:
            shape = (16, 8)

            def __array__(self, dtype=None):
                return np.ones((16, 8), np.float32)

        self.refused(doubled, (Copying(),), "a copy of what was given")

    def test_a_type_that_the_chip_lacks_names_the_argument(self):
        with self.assertRaises(TypeError) as caught:
            twice(np.ones((4, 4)))
        for word in ("specialisations_test.py:", "argument x of twice", "float64", "use float32"):
            self.assertIn(word, str(caught.exception))

    def test_calls_of_several_threads_do_not_meet(self):
        x = [np.full((128, 512), i, np.float32) for i in range(4)]
        twice(x[0])
        wrong = []

        def call(i):
            for _ in range(5):
                if not (twice(x[i]) == 2 * i).all():
                    wrong.append(i)

        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_devices_memory_goes_with_the_kernel(self):
        def once():
            @nki.jit
            def kernel(x):
                y = output(x.shape)
                nl.store(y, nl.load(x))
                return y

            kernel(self.x)
            executable = next(iter(kernel.specialisations.values())).executable
            return executable.model, executable.session

        self.x = normal(8, 8)
        model, session = once()
        gc.collect()
        with self.assertRaises(nki.DeviceError):
            session.report(model)


class Cache(DeviceTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        before = os.environ["NEURON_NKI_CACHE"]
        self.addCleanup(os.environ.__setitem__, "NEURON_NKI_CACHE", before)
        os.environ["NEURON_NKI_CACHE"] = folder.name
        self.text = twice.trace(normal(8, 8))
        self.wanted = compiler.lower(self.text, "trn2").neff
        self.files = {path.suffix: path for path in self.folder.iterdir()}

    def test_what_is_kept_is_found_again(self):
        self.assertEqual(sorted(self.files), [".json", ".neff"])
        self.assertIsNotNone(compiler._kept(self.folder, self.files[".neff"].stem))
        self.assertEqual(compiler.lower(self.text, "trn2").neff, self.wanted)

    def test_a_named_folder_that_cannot_be_used_is_told_and_the_kernel_is_lowered(self):
        os.environ["NEURON_NKI_CACHE"] = str(self.files[".neff"])
        with self.assertWarnsRegex(RuntimeWarning, r"NEURON_NKI_CACHE=.*\.neff: no lowered kernel is kept there"):
            self.assertEqual(compiler.lower(self.text, "trn2").neff, self.wanted)

    def test_damaged_files_count_as_none(self):
        good = {ending: path.read_bytes() for ending, path in self.files.items()}
        report = json.loads(good[".json"])
        for ending, data in ((".neff", b""), (".neff", good[".neff"][:-1]), (".neff", bytes(len(self.wanted))),
                             (".json", b""), (".json", b"[]"), (".json", b"[" * 100000), (".json", b"\xff"),
                             (".json", json.dumps({**report, "neff": 0}).encode())):
            self.files[ending].write_bytes(data)
            self.assertIsNone(compiler._kept(self.folder, self.files[".neff"].stem), (ending, data[:8]))
            self.assertEqual(compiler.lower(self.text, "trn2").neff, self.wanted)
            self.assertEqual(self.files[ending].read_bytes(), good[ending])

    def test_files_that_another_could_write_count_as_none(self):
        stem = self.files[".neff"].stem
        for ending in (".neff", ".json"):
            self.files[ending].chmod(0o666)
            self.assertIsNone(compiler._kept(self.folder, stem))
            self.files[ending].chmod(0o600)
            aside = self.files[ending].rename(self.folder / "aside")
            self.files[ending].symlink_to(aside)
            self.assertIsNone(compiler._kept(self.folder, stem))
            self.files[ending].unlink()
            os.mkfifo(self.files[ending])
            self.assertIsNone(compiler._kept(self.folder, stem))
            self.files[ending].unlink()
            aside.rename(self.files[ending])
            self.assertIsNotNone(compiler._kept(self.folder, stem))

    def test_a_folder_without_the_program_is_named(self):
        before = os.environ["NEURON_NKI_ROOT"]
        self.addCleanup(os.environ.__setitem__, "NEURON_NKI_ROOT", before)
        os.environ["NEURON_NKI_ROOT"] = str(self.folder)
        with self.assertRaisesRegex(nki.NkiError, "bin/neuron-nki cannot be used.*NEURON_NKI_ROOT names"):
            compiler.lower(self.text, "trn2")

    def test_nothing_half_written_stays(self):
        for path in self.files.values():
            path.unlink()
            path.mkdir()  # Nothing can be renamed to it
        compiler.lower(self.text, "trn2")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         sorted(p.name for p in self.files.values()))


if __name__ == "__main__":
    unittest.main()
