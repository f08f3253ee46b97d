# SPDX-License-Identifier: Apache-2.0
"""Clients that know libnrt.so.1 by ctypes or by layouts of their own: Python programs, libnrt-rs, the guide's client."""
import ctypes
import os
import struct
import threading
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("NEURON_BUILD_DIR", Path(__file__).resolve().parents[3] / "build"))
NEFF = (BUILD / "neff" / "tensor_add.neff").read_bytes()
INFO_BYTES = 296  # one nrt_tensor_info_t
SUCCESS, FAILURE, INVALID, CLOSED = 0, 1, 2, 14


class Ctypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["NEURON_EMULATOR"] = "trn1.2xlarge"
        os.environ["NEURON_RT_LOG_LEVEL"] = "QUIET"
        cls.lib = ctypes.CDLL(str(BUILD / "lib" / "libnrt.so.1"))
        cls.lib.nrt_get_status_as_str.restype = ctypes.c_char_p
        cls.lib.nrt_tensor_get_va.restype = ctypes.c_void_p
        cls.lib.nrt_tensor_get_size.restype = ctypes.c_size_t

    def setUp(self):
        # Versions are texts of the caller; some pass none at all.
        self.assertEqual(self.lib.nrt_init(1, b"", None), SUCCESS)

    def tearDown(self):
        self.lib.nrt_close()

    def load(self, core=-1, count=-1):
        model = ctypes.c_void_p()
        self.assertEqual(self.lib.nrt_load(NEFF, ctypes.c_size_t(len(NEFF)), core, count, ctypes.byref(model)), SUCCESS)
        return model

    def infos(self, model):
        """The inputs and outputs as bytes say them: name, usage, size, dtype, shape."""
        array = ctypes.c_void_p()
        self.assertEqual(self.lib.nrt_get_model_tensor_info(model, ctypes.byref(array)), SUCCESS)
        count = ctypes.c_uint64.from_address(array.value).value
        found = {}
        for index in range(count):
            raw = ctypes.string_at(array.value + 8 + INFO_BYTES * index, INFO_BYTES)
            name, usage, size, dtype, shape, ndim = struct.unpack("<256sixxxxQixxxxQIxxxx", raw)
            extents = struct.unpack(f"<{ndim}I", ctypes.string_at(shape, 4 * ndim))
            found[name.split(b"\0")[0].decode()] = (usage, size, dtype, extents)
        self.assertEqual(self.lib.nrt_free_model_tensor_info(array), SUCCESS)
        return found

    def tensor(self, size, core=0):
        tensor = ctypes.c_void_p()
        self.assertEqual(self.lib.nrt_tensor_allocate(0, core, ctypes.c_size_t(size), None, ctypes.byref(tensor)), SUCCESS)
        return tensor

    def sets(self, model, skip=()):
        inputs, outputs, tensors = ctypes.c_void_p(), ctypes.c_void_p(), {}
        for handle in (inputs, outputs):
            self.assertEqual(self.lib.nrt_allocate_tensor_set(ctypes.byref(handle)), SUCCESS)
        for name, (usage, size, _, _) in self.infos(model).items():
            if name in skip:
                continue
            tensors[name] = self.tensor(size)
            into = outputs if usage else inputs
            self.assertEqual(self.lib.nrt_add_tensor_to_tensor_set(into, name.encode(), tensors[name]), SUCCESS)
        return inputs, outputs, tensors

    def write(self, tensor, values):
        data = struct.pack(f"<{len(values)}f", *values)
        self.assertEqual(self.lib.nrt_tensor_write(tensor, data, ctypes.c_size_t(0), ctypes.c_size_t(len(data))), SUCCESS)

    def read(self, tensor, count):
        data = ctypes.create_string_buffer(4 * count)
        self.assertEqual(self.lib.nrt_tensor_read(tensor, data, ctypes.c_size_t(0), ctypes.c_size_t(4 * count)), SUCCESS)
        return struct.unpack(f"<{count}f", data.raw)

    def test_the_layout_of_tensor_information_is_what_bindings_assert(self):
        found = self.infos(self.load())
        self.assertEqual(set(found), {"a", "b", "sum"})
        for name, (usage, size, dtype, extents) in found.items():
            self.assertEqual(usage, 1 if name == "sum" else 0)
            self.assertEqual(dtype, 10)
            product = 4
            for extent in extents:
                product *= extent
            self.assertEqual(size, product)

    def test_the_guides_client_gets_the_sum(self):
        model = self.load()
        inputs, outputs, tensors = self.sets(model)
        count = self.lib.nrt_tensor_get_size(tensors["a"]) // 4
        self.write(tensors["a"], [float(n % 1000) for n in range(count)])
        self.write(tensors["b"], [0.5] * count)
        self.assertEqual(self.lib.nrt_execute(model, inputs, outputs), SUCCESS)
        self.assertEqual(self.read(tensors["sum"], count), tuple(n % 1000 + 0.5 for n in range(count)))
        found = ctypes.c_void_p(7)
        self.assertEqual(self.lib.nrt_get_tensor_from_tensor_set(outputs, b"sum", ctypes.byref(found)), SUCCESS)
        self.assertEqual(found.value, tensors["sum"].value)
        found = ctypes.c_void_p(7)
        self.assertEqual(self.lib.nrt_get_tensor_from_tensor_set(outputs, b"none", ctypes.byref(found)), FAILURE)
        self.assertEqual(found.value, 7)
        for handle in (inputs, outputs):
            self.lib.nrt_destroy_tensor_set(ctypes.byref(handle))
            self.assertIsNone(handle.value)
        for handle in tensors.values():
            self.lib.nrt_tensor_free(ctypes.byref(handle))
            self.assertIsNone(handle.value)
        self.assertEqual(self.lib.nrt_unload(model), SUCCESS)

    def test_threads_share_a_model(self):
        model = self.load()
        sets = [self.sets(model) for _ in range(4)]
        results = [None] * 4

        def work(index):
            inputs, outputs, tensors = sets[index]
            self.write(tensors["a"], [float(index)] * 8)
            self.write(tensors["b"], [1.0] * 8)
            results[index] = [self.lib.nrt_execute(model, inputs, outputs), self.read(tensors["sum"], 8)]

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [[SUCCESS, (index + 1.0,) * 8] for index in range(4)])

    def test_what_is_wrong_has_a_status_and_a_text(self):
        model = self.load(0, 1)
        inputs, outputs, _ = self.sets(model, skip=("b",))
        self.assertEqual(self.lib.nrt_execute(model, inputs, outputs), INVALID)
        tensor = ctypes.c_void_p()
        self.assertEqual(self.lib.nrt_tensor_allocate(0, 2, ctypes.c_size_t(64), b"t", ctypes.byref(tensor)), INVALID)
        other = ctypes.c_void_p()
        half = len(NEFF) // 2
        self.assertEqual(self.lib.nrt_load(NEFF, ctypes.c_size_t(half), -1, -1, ctypes.byref(other)), INVALID)
        tensor = self.tensor(64)
        self.assertNotEqual(self.lib.nrt_tensor_write(tensor, bytes(65), ctypes.c_size_t(0), ctypes.c_size_t(65)), SUCCESS)
        for status in (0, 1, 2, 4, 5, 13, 14, 101, 1002, 1003, 1004, 1006, 1200):
            self.assertTrue(self.lib.nrt_get_status_as_str(status))

    def test_a_closed_runtime_says_so_and_opens_again_with_other_cores(self):
        tensor = self.tensor(64)
        self.lib.nrt_close()
        self.assertEqual(self.lib.nrt_tensor_write(tensor, bytes(8), ctypes.c_size_t(0), ctypes.c_size_t(8)), CLOSED)
        os.environ["NEURON_RT_VISIBLE_CORES"] = "1"
        self.addCleanup(os.environ.pop, "NEURON_RT_VISIBLE_CORES")
        self.assertEqual(self.lib.nrt_init(1, b"", b""), SUCCESS)
        count = ctypes.c_uint32()
        self.assertEqual(self.lib.nrt_get_visible_vnc_count(ctypes.byref(count)), SUCCESS)
        self.assertEqual(count.value, 1)


if __name__ == "__main__":
    unittest.main()
