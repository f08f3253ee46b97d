# SPDX-License-Identifier: Apache-2.0
"""A step of training as one program: forward, backward, update, with weights that stay where they
are. The reference is NumPy in float64."""
import gzip
import unittest

from common import TREE, PackageTest, neuron, np
from wire import Hlo, Onnx

INPUTS, HIDDEN, CLASSES, BATCH, RATE = 64, 32, 10, 120, 0.5
WEIGHTS = ("w1", "b1", "w2", "b2")


def step_module():
    """Cross entropy of softmax(relu(x w1 + b1) w2 + b2), and gradient descent."""
    h = Hlo()
    x, labels = h.parameter("x", (BATCH, INPUTS)), h.parameter("labels", (BATCH, CLASSES))
    w1, b1 = h.parameter("w1", (INPUTS, HIDDEN)), h.parameter("b1", (HIDDEN,))
    w2, b2 = h.parameter("w2", (HIDDEN, CLASSES)), h.parameter("b2", (CLASSES,))
    before = h.map("add", h.dot(x, w1, 1, 0), h.broadcast(b1, (BATCH, HIDDEN), [1]))
    zero = h.full(0, (BATCH, HIDDEN))
    hidden = h.map("maximum", before, zero)
    scores = h.map("add", h.dot(hidden, w2, 1, 0), h.broadcast(b2, (BATCH, CLASSES), [1]))
    most = h.reduce(scores, -1e30, [1], "maximum")
    shifted = h.map("subtract", scores, h.broadcast(most, (BATCH, CLASSES), [0]))
    powers = h.map("exponential", shifted)
    sums = h.reduce(powers, 0, [1], "add")
    logs = h.map("subtract", shifted,
                 h.broadcast(h.map("log", sums), (BATCH, CLASSES), [0]))
    picked = h.reduce(h.map("multiply", logs, labels), 0, [0, 1], "add")
    loss = h.map("multiply", picked, h.constant(-1 / BATCH))
    found = h.map("divide", powers, h.broadcast(sums, (BATCH, CLASSES), [0]))
    error = h.map("multiply", h.map("subtract", found, labels),
                  h.full(1 / BATCH, (BATCH, CLASSES)))
    back = h.add("select", (BATCH, HIDDEN),
                 [h.compare(before, zero, "GT"), h.dot(error, w2, 1, 1), zero])
    gradients = (h.dot(x, back, 0, 0), h.reduce(back, 0, [0], "add"),
                 h.dot(hidden, error, 0, 0), h.reduce(error, 0, [0], "add"))
    results = [loss]
    for weight, gradient in zip((w1, b1, w2, b2), gradients):
        rate = h.full(RATE, h.shapes[weight])
        results.append(h.map("subtract", weight, h.map("multiply", gradient, rate)))
    for place in range(4):
        h.alias(1 + place, 2 + place)
    return h.bytes(results, ["loss"] + [f"new_{name}" for name in WEIGHTS])


def reference_step(weights, x, labels):
    """The loss before the step; changes the weights, of float64."""
    w1, b1, w2, b2 = weights
    before = x @ w1 + b1
    hidden = np.maximum(before, 0)
    scores = hidden @ w2 + b2
    shifted = scores - scores.max(1, keepdims=True)
    powers = np.exp(shifted)
    sums = powers.sum(1, keepdims=True)
    loss = -((shifted - np.log(sums)) * labels).sum() / len(x)
    error = (powers / sums - labels) / len(x)
    back = np.where(before > 0, error @ w2.T, 0)
    for weight, gradient in zip(weights, (x.T @ back, back.sum(0), hidden.T @ error, error.sum(0))):
        weight -= RATE * gradient
    return loss


def digits():
    path = TREE / "tools" / "compiler" / "kernels" / "digits" / "digits.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    return (rows[:, :64] / 16).astype(np.float32), rows[:, 64].astype(int)


class Training(PackageTest):
    def batches(self, count):
        pixels, classes = digits()
        for i in range(count):
            rows = np.arange(i * BATCH, (i + 1) * BATCH) % len(pixels)
            yield pixels[rows], np.eye(CLASSES, dtype=np.float32)[classes[rows]]

    def weights(self):
        random = np.random.default_rng(3)
        return [(random.standard_normal(shape) * scale).astype(np.float32) for shape, scale in
                (((INPUTS, HIDDEN), 0.2), ((HIDDEN,), 0), ((HIDDEN, CLASSES), 0.2), ((CLASSES,), 0))]

    def train(self, neff, steps):
        losses = []
        with neuron.load(neff, aliases={f"new_{name}": name for name in WEIGHTS}) as model:
            model.write(**dict(zip(WEIGHTS, self.weights())))
            for x, labels in self.batches(steps):
                model.write(x=x, labels=labels)
                model.execute()
                losses.append(float(model.read("loss")))
            return losses, [model.read(f"new_{name}") for name in WEIGHTS]

    def test_the_digits_network_learns_as_numpy_says_and_each_time_to_the_bit(self):
        steps = 60
        neff = neuron.compile(self.write("step.pb", step_module()), check=True)
        losses, weights = self.train(neff, steps)
        wanted = [weight.astype(np.float64) for weight in self.weights()]
        expected = [reference_step(wanted, x, labels) for x, labels in self.batches(steps)]
        np.testing.assert_allclose(losses, expected, rtol=1e-3)
        self.assertLess(losses[-1], losses[0] / 4)
        for got, weight in zip(weights, wanted):
            self.near(got, weight, 1e-3)
        again, bits = self.train(neff, steps)
        self.assertEqual(losses, again)
        for first, second in zip(weights, bits):
            self.assertEqual(first.tobytes(), second.tobytes())


class Donated(PackageTest):
    def exchange(self, results, names, aliases):
        """x and y of 2 x 300; what a program gives whose outputs overwrite its inputs."""
        hlo = Hlo()
        parameters = [hlo.parameter("x", (2, 300)), hlo.parameter("y", (2, 300))]
        values = results(hlo, *parameters)
        for output, parameter in aliases.items():
            hlo.alias(names.index(output), ["x", "y"].index(parameter))
        path = self.write("exchange.pb", hlo.bytes(values, names))
        x, y = self.normal(2, 300), self.normal(2, 300)
        with neuron.load(path, aliases=aliases) as model:
            return x, y, model(x, y)

    def test_two_arrays_change_places(self):
        x, y, got = self.exchange(lambda h, x, y: [y, x], ["a", "b"], {"a": "x", "b": "y"})
        self.near(got["a"], y, 0)
        self.near(got["b"], x, 0)

    def test_what_an_output_overwrites_is_read_before(self):
        x, y, got = self.exchange(
            lambda h, x, y: [h.map("add", x, y), h.map("subtract", x, y), x], ["a", "b", "c"],
            {"a": "x", "b": "y"})
        self.near(got["a"], x + y, 1e-6)
        self.near(got["b"], x - y, 1e-6)
        self.near(got["c"], x, 0)

    def test_an_array_is_reversed_where_it_is(self):
        def reverse(hlo, x, y):
            from wire import text, varint
            return [hlo.add("reverse", (2, 300), [x], extra=text(14, varint(0) + varint(1))), y]
        x, _, got = self.exchange(reverse, ["a", "b"], {"a": "x"})
        self.near(got["a"], x[::-1, ::-1], 0)

    def test_an_onnx_model_trains_with_weights_that_are_given_by_option(self):
        # A line through points: the gradient of the mean square by hand.
        model = Onnx()
        for name, shape in (("x", [64, 1]), ("y", [64, 1]), ("xt", [1, 64]), ("w", [1, 1])):
            model.input(name, shape)
        model.constant("rate", 0.2 / 64)
        model.node("MatMul", ["x", "w"], "found")
        model.node("Sub", ["found", "y"], "error")
        model.node("MatMul", ["xt", "error"], "gradient")
        model.node("Mul", ["gradient", "rate"], "change")
        model.node("Sub", ["w", "change"], "w_new")
        model.output("w_new", [1, 1])
        path = self.write("line.onnx", model.bytes())
        neff = neuron.compile(path, donated={"w_new": "w"})
        x = self.normal(64, 1)
        with neuron.load(neff, aliases={"w_new": "w"}) as step:
            step.write(x=x, xt=x.T, y=3 * x, w=np.zeros((1, 1)))
            for _ in range(80):
                step.execute()
            self.near(step.read("w_new"), [[3.0]], 1e-3)
        with self.assertRaisesRegex(neuron.CompileError, "no input \"v\""):
            neuron.compile(path, donated={"w_new": "v"})

    def test_aliases_of_a_model_that_is_compiled_here_are_its_donated_outputs(self):
        # The largest exponential reads x behind the output that takes its memory.
        size = 2000
        model = Onnx()
        model.input("x", [size, size])
        model.node("Neg", ["x"], "negative")
        model.node("Exp", ["x"], "powers")
        model.node("ReduceMax", ["powers"], "largest")
        model.output("negative", [size, size])
        model.output("largest", [1, 1])
        path = self.write("both.onnx", model.bytes())
        x = self.normal(size, size)
        with neuron.load(path, aliases={"negative": "x"}) as model:
            got = model(x)
        self.near(got["negative"], -x, 0)
        self.near(got["largest"] / np.exp(np.float64(x.max())), [[1.0]], 1e-4)

    def test_two_outputs_cannot_have_the_memory_of_one_input(self):
        model = Onnx()
        model.input("x", [4])
        for operator, name in (("Relu", "a"), ("Neg", "b")):
            model.node(operator, ["x"], name)
            model.output(name, [4])
        path = self.write("both.onnx", model.bytes())
        with self.assertRaisesRegex(neuron.NeuronError, "that input already"):
            neuron.load(path, aliases={"a": "x", "b": "x"})
        with self.assertRaisesRegex(neuron.NeuronError, "memory of several outputs"):
            neuron.load(neuron.compile(path), aliases={"a": "x", "b": "x"})


if __name__ == "__main__":
    unittest.main()
