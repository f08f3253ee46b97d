# SPDX-License-Identifier: Apache-2.0
"""The names of NKIPy's binding, used as its package `spike` uses them."""
import json
import os
import subprocess
import sys
import unittest

from common import TREE, PackageTest, neuron, np
from wire import Hlo

from neuron import spike


def sum_module():
    hlo = Hlo()
    x, y = hlo.parameter("x", (4, 8)), hlo.parameter("y", (4, 8))
    return hlo.bytes([hlo.map("add", x, y)], ["output0"])


class Binding(PackageTest):
    def setUp(self):
        super().setUp()
        self.neff = str(neuron.compile(self.write("sum.pb", sum_module())))

    def test_a_model_runs_on_tensors_and_their_slices(self):
        runtime = spike.Spike()
        self.addCleanup(runtime.close)
        self.assertGreaterEqual(spike.Spike.get_visible_neuron_core_count(), 1)
        model = runtime.load_model(self.neff)
        info = runtime.get_tensor_info(model)
        self.assertEqual(info.inputs["x"].shape, [4, 8])
        self.assertEqual((info.outputs["output0"].dtype, info.outputs["output0"].size),
                         ("float32", 128))
        x, y = self.normal(4, 8), self.normal(4, 8)
        both = runtime.allocate_tensor(256, name="both")
        inputs = {"x": runtime.slice_from_tensor(both, 0, 128),
                  "y": runtime.slice_from_tensor(both, 128, 128)}
        runtime.tensor_write(both, x.tobytes())
        runtime.tensor_write_from_pybuffer(inputs["y"], y)
        output = runtime.allocate_tensor(128)
        runtime.execute(model, inputs, {"output0": output})
        found = np.frombuffer(runtime.tensor_read(output), np.float32).reshape(4, 8)
        self.near(found, x + y, 1e-6)
        part = np.zeros(2, np.float32)
        runtime.tensor_read_to_pybuffer(output, part, offset=4, size=8)
        self.near(part, (x + y).ravel()[1:3], 1e-6)
        runtime.unload_model(model)
        with self.assertRaises(spike.SpikeError):
            runtime.execute(model, inputs, {"output0": output})

    def test_what_an_ended_runtime_gave_is_refused(self):
        runtime = spike.Spike()
        tensor, model = runtime.allocate_tensor(128), runtime.load_model(self.neff)
        neuron.close()
        other = spike.Spike()
        self.addCleanup(other.close)
        kept = other.allocate_tensor(128)
        for use in (lambda: runtime.tensor_read(tensor), lambda: other.tensor_read(tensor),
                    lambda: runtime.get_tensor_info(model), lambda: runtime.allocate_tensor(8),
                    lambda: other.execute(model, {}, {})):
            with self.assertRaises(spike.SpikeError):
                use()
        runtime.close()
        self.assertEqual(len(other.tensor_read(kept)), 128)

    def test_a_trace_has_an_event_pair_for_each_execution(self):
        runtime = spike.Spike()
        self.addCleanup(runtime.close)
        model = runtime.load_model(self.neff)
        tensors = [runtime.allocate_tensor(128) for _ in range(3)]
        with spike.SystemTraceSession(0) as trace:
            runtime.execute(model, {"x": tensors[0], "y": tensors[1]}, {"output0": tensors[2]})
            trace.drain_events()
            for _ in range(3):
                runtime.execute(model, {"x": tensors[0], "y": tensors[1]}, {"output0": tensors[2]})
            events = json.loads(trace.fetch_events_json())["events"]
        running = [e["phase"] for e in events if e["event_type"] == "nc_exec_running"]
        self.assertEqual(running, ["start", "stop"] * 3)

    def test_a_saved_trace_is_a_file(self):
        runtime = spike.Spike()
        self.addCleanup(runtime.close)
        model = runtime.load_model(self.neff)
        tensors = [runtime.allocate_tensor(128) for _ in range(3)]
        runtime.execute(model, {"x": tensors[0], "y": tensors[1]}, {"output0": tensors[2]},
                        ntff_name=str(self.folder / "one.ntff"), save_trace=True)
        self.assertGreater((self.folder / "one.ntff").stat().st_size, 0)

    def test_what_is_wrong_is_an_exception_of_its_kind(self):
        runtime = spike.Spike()
        model = runtime.load_model(self.neff)
        tensor = runtime.allocate_tensor(16)
        for call, kind in ((lambda: runtime.load_model("missing.neff"), spike.SpikeError),
                           (lambda: runtime.execute(model, {}, {}), spike.NrtError),
                           (lambda: runtime.tensor_write(tensor, bytes(17)), spike.NrtError),
                           (lambda: runtime.tensor_read_to_pybuffer(tensor, bytearray(8)),
                            spike.SpikeError),
                           (lambda: runtime.tensor_read_to_pybuffer(tensor, bytes(16)),
                            spike.SpikeError)):
            self.assertRaises(kind, call)
        runtime.free_tensor(tensor)
        self.assertRaises(spike.SpikeError, runtime.tensor_read, tensor)
        self.assertEqual(runtime.close(), 0)
        self.assertEqual(runtime.close(), 0)
        self.assertRaises(spike.SpikeError, runtime.allocate_tensor, 4)
        again = spike.Spike()
        self.assertEqual(again.allocate_tensor(4).size, 4)
        again.close()

    def test_a_link_in_a_package_is_its_binding(self):
        package = self.folder / "spike"
        package.mkdir()
        self.write("spike/__init__.py", b"from ._spike import NrtTensor, Spike, SpikeError\n")
        (package / "_spike.py").symlink_to(TREE / "tools" / "python" / "neuron" / "_spike.py")
        said = subprocess.run(
            [sys.executable, "-c", "import spike; print(spike.Spike().allocate_tensor(8).size)"],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual(said.stdout.strip(), "8", said.stderr)


if __name__ == "__main__":
    unittest.main()
