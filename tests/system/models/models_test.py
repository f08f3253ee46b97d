#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public models through neuron-serve: an utterance that espeak-ng speaks is told from silence and noise,
and the words of pictures that Chromium draws are found and read.

The models and onnxruntime come from npm (packages.py). Every value is compared with onnxruntime's for
the same input, decisions and words must be those that its values give, and also what was spoken
and drawn.
"""
import http.client
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
import wave
import zlib
from pathlib import Path

import numpy as np

from packages import BUILD, VOICE, WORDS, package, runtime

HERE = Path(__file__).resolve().parent


# |served - onnxruntime's| <= BOUND * (1 + |onnxruntime's|). f32 has 6e-8; layers behind each other, and
# sums in another order, may lose three digits of it. README.md has what was measured: at most 2.6e-5.
BOUND = 3e-5


class Reference:
    """A model on onnxruntime, one thread; it gives outputs by name as a Server does."""

    def __init__(self, model, folder):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.process = subprocess.Popen(["node", HERE / "reference.mjs", runtime(), model], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **inputs):
        described = {}
        for name, array in inputs.items():
            array = np.ascontiguousarray(array)
            file = self.folder / f"input-{name}.raw"
            file.write_bytes(array.tobytes())
            described[name] = {"type": array.dtype.name, "shape": array.shape, "file": str(file)}
        print(json.dumps({"inputs": described, "folder": str(self.folder)}), file=self.process.stdin,
              flush=True)
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": "node ended, see above"}
        if "error" in reply:
            raise RuntimeError(f"onnxruntime: {reply['error']}")
        return {name: np.fromfile(output["file"], output["type"]).reshape(output["shape"])
                for name, output in reply["outputs"].items()}

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Server:
    def __init__(self, folder):
        environment = {**os.environ, "NEURON_EMULATOR": "trn1.2xlarge",
                       # Its names are hashes of all that a program follows from.
                       "NEURON_SERVE_CACHE": str(BUILD / "models" / "cache")}
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [BUILD / "bin" / "neuron-serve", "--models", folder / "models", "--listen",
             "127.0.0.1:0", "--request-timeout", "120s"],
            env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        address = self.process.stdout.readline()
        if not address.startswith("http://"):
            self.log.seek(0)
            raise RuntimeError(self.log.read())
        self.port = int(address.rstrip("/\n").rsplit(":", 1)[1])

    def ask(self, model, **inputs):
        """Outputs by name, through KServe's binary tensors."""
        request = {"parameters": {"binary_data_output": True},
                   "inputs": [{"name": name, "datatype": "FP32", "shape": list(array.shape),
                               "parameters": {"binary_data_size": array.nbytes}}
                              for name, array in inputs.items()]}
        text = json.dumps(request).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        connection.request("POST", f"/v2/models/{model}/infer",
                           text + b"".join(array.tobytes() for array in inputs.values()),
                           {"Inference-Header-Content-Length": str(len(text))})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        if reply.status != 200:
            raise RuntimeError(body.decode())
        at = int(reply.headers["Inference-Header-Content-Length"])
        results = {}
        for output in json.loads(body[:at])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            array = np.frombuffer(body[at:at + size], np.float32)
            results[output["name"]] = array.reshape(output["shape"])
            at += size
        return results

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        self.log.close()


def unfiltered(line, above, step, kind):
    """A line of a PNG file without its filter."""
    line = line.copy()
    for i in range(len(line)):
        left = int(line[i - step]) if i >= step else 0
        up = int(above[i])
        corner = int(above[i - step]) if i >= step else 0
        distances = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
        nearest = (left, up, corner)[distances.index(min(distances))]
        line[i] = (int(line[i]) + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
    return line


def read_png(path):
    """Red, green and blue of the pixels of an 8-bit picture."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", chunk[:10])
        elif kind == b"IDAT":
            packed += chunk
    step = {2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * step)
    above, lines = np.zeros(width * step, np.uint8), []
    for row in rows:
        above = unfiltered(row[1:], above, step, row[0])
        lines.append(above)
    return np.array(lines).reshape(height, width, step)[:, :, :3]


def resized(pixels, width, height):
    """A picture of another size; what lies between pixels is between their values."""
    for axis, size in ((0, height), (1, width)):
        places = np.clip((np.arange(size) + 0.5) * pixels.shape[axis] / size - 0.5, 0, pixels.shape[axis] - 1)
        below = np.minimum(places.astype(int), max(pixels.shape[axis] - 2, 0))
        share = (places - below).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        above = np.minimum(below + 1, pixels.shape[axis] - 1)
        pixels = pixels.take(below, axis) * (1 - share) + pixels.take(above, axis) * share
    return pixels


def cut(pixels, box, width, height):
    """A box of a picture as a line of that height; gray is what it lacks in width."""
    left, top, right, bottom = box
    found = pixels[top:bottom, left:right]
    wide = min(width, max(1, round(found.shape[1] * height / found.shape[0])))
    line = np.full((height, width, 3), 0.5)
    line[:, :wide] = resized(found, wide, height)
    return line


def boxes(map_of_words):
    """Left, top, right, bottom of what is joined above 0.3 and on average above 0.6, from the top; the
    model marks the middle of words, so that boxes are as much wider as its authors make them."""
    left_over = {tuple(at) for at in np.argwhere(map_of_words > 0.3)}
    found = []
    while left_over:
        ahead, part = [left_over.pop()], []
        while ahead:
            y, x = ahead.pop()
            part.append((y, x))
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if near in left_over:
                    left_over.remove(near)
                    ahead.append(near)
        (top, left), (bottom, right) = np.min(part, 0), np.max(part, 0) + 1
        if min(bottom - top, right - left) < 3 or map_of_words[top:bottom, left:right].mean() < 0.6:
            continue
        wider = round(1.5 * (bottom - top) * (right - left) / 2 / (bottom - top + right - left))
        found.append((max(0, left - wider), max(0, top - wider), min(map_of_words.shape[1], right + wider),
                      min(map_of_words.shape[0], bottom + wider)))
    return sorted(found, key=lambda box: box[1])


class Served(unittest.TestCase):
    """Tests of models by name, each of file and settings: one server has them, and so has onnxruntime."""

    @staticmethod
    def models():
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="neuron-models.")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        (cls.folder / "models").mkdir()
        cls.largest, cls.references = {}, {}
        cls.addClassCleanup(cls.tell)
        for name, (file, settings) in cls.models().items():
            shutil.copy(file, cls.folder / "models" / f"{name}.onnx")
            (cls.folder / "models" / f"{name}.json").write_text(json.dumps(settings))
            cls.references[name] = Reference(file, cls.folder)
            cls.addClassCleanup(cls.references[name].end)
        cls.server = Server(cls.folder)
        cls.addClassCleanup(cls.server.end)

    @classmethod
    def tell(cls):
        for name, (absolute, share, count) in sorted(cls.largest.items()):
            print(f"{name}: {count} values, at most {absolute:.2g} from onnxruntime's, {share:.2g} of "
                  "1 + |value|", flush=True)

    def assert_close(self, model, served, expected):
        """All outputs of a model, within BOUND."""
        self.assertEqual(served.keys(), expected.keys())
        for name, values in expected.items():
            self.assertEqual(served[name].shape, values.shape, f"{model}: {name}")
            off = np.abs(served[name].astype(float) - values)
            shares = off / (1 + np.abs(values.astype(float)))
            before = self.largest.get(f"{model}.{name}", (0, 0, 0))
            self.largest[f"{model}.{name}"] = (max(before[0], off.max()), max(before[1], shares.max()),
                                               before[2] + off.size)
            worst = np.unravel_index(shares.argmax(), off.shape)
            self.assertLessEqual(shares[worst], BOUND,
                                 f"{model}: {name}{list(map(int, worst))} is {served[name][worst]}, "
                                 f"onnxruntime gives {values[worst]}")

    def both(self, model, inputs, constants=()):
        """Outputs of neuron-serve and of onnxruntime, after they are known to be close."""
        served = self.server.ask(model, **inputs)
        expected = self.references[model].ask(**inputs, **dict(constants))
        self.assert_close(model, served, expected)
        return served, expected


class Voice(Served):
    RATE, CHUNK, CONTEXT = 16000, 512, 64
    CONSTANTS = {"sr": np.array(RATE, np.int64)}
    SHAPES = {"input": [1, CONTEXT + CHUNK], "state": [2, 1, 128]}

    @staticmethod
    def models():
        weights = package(VOICE) / "weights"
        fixed = {"shapes": Voice.SHAPES, "constants": {"sr": Voice.RATE}}
        return {"voice": (weights / "silero_vad.onnx", fixed),
                "voice-op15": (weights / "silero_vad_16k_op15.onnx", fixed),
                "voice-op18": (weights / "silero_vad_op18_ifless.onnx", fixed),
                "voice-half": (weights / "silero_vad_half.onnx", {"shapes": Voice.SHAPES})}

    def probabilities(self, sound):
        """Of speech, for each chunk; the model gets the end of the chunk before, and its state. Served
        and expected ones go on with states of their own, so that what differs may grow."""
        states = [np.zeros(self.SHAPES["state"], np.float32)] * 2
        sound = np.concatenate([np.zeros(self.CONTEXT, np.float32), sound.astype(np.float32)])
        found = []
        for at in range(self.CONTEXT, len(sound) - self.CHUNK, self.CHUNK):
            chunk = sound[None, at - self.CONTEXT:at + self.CHUNK]
            results = [self.server.ask("voice", input=chunk, state=states[0]),
                       self.references["voice"].ask(input=chunk, state=states[1], **self.CONSTANTS)]
            self.assert_close("voice", *results)
            states = [result["stateN"] for result in results]
            found.append([float(result["output"].ravel()[0]) for result in results])
        served, expected = np.array(found).T
        self.assertEqual(list(served > 0.5), list(expected > 0.5))
        return served

    def utterance(self):
        spoken = self.folder / "said.wav"
        subprocess.run(["espeak-ng", "-w", spoken, "the quick brown fox jumps over the lazy dog"],
                       check=True, timeout=60)
        with wave.open(str(spoken)) as file:
            sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
            step = file.getframerate() / self.RATE
        return np.interp(np.arange(0, len(sound) - 1, step), np.arange(len(sound)), sound)

    def test_an_utterance_is_told_from_silence_and_noise_as_onnxruntime_tells_it(self):
        self.assertGreater(np.median(self.probabilities(self.utterance())), 0.9)
        self.assertLess(self.probabilities(np.zeros(self.RATE)).max(), 0.1)
        noise = np.random.default_rng(0).standard_normal(self.RATE) * 0.02
        self.assertLess(self.probabilities(noise).max(), 0.3)

    def test_random_input_gives_the_values_of_onnxruntime(self):
        random = np.random.default_rng(1)
        for size in (0.001, 0.1, 0.1, 1, 1, 10):
            inputs = {"input": (random.standard_normal(self.SHAPES["input"]) * size).astype(np.float32),
                      "state": random.standard_normal(self.SHAPES["state"]).astype(np.float32)}
            for model in self.references:
                self.both(model, inputs, {} if model == "voice-half" else self.CONSTANTS)


class Words(Served):
    WIDTH, HEIGHT = 320, 48  # of a line of words
    PAGE = 512, 192  # of a picture with several

    @staticmethod
    def models():
        def shape(width, height):
            return {"shapes": {"x": [1, 3, height, width]}}

        assets = package(WORDS) / "assets"
        return {"find": (assets / "ch_PP-OCRv4_det_infer.onnx", shape(*Words.PAGE)),
                "turned": (assets / "ch_ppocr_mobile_v2.0_cls_infer.onnx", shape(192, Words.HEIGHT)),
                "words": (assets / "ch_PP-OCRv4_rec_infer.onnx", shape(Words.WIDTH, Words.HEIGHT))}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        letters = package(WORDS) / "assets" / "ppocr_keys_v1.txt"
        cls.letters = [""] + letters.read_text(encoding="utf-8").splitlines() + [" "]

    def picture(self, content, width, height):
        """Pixels from 0 to 1, each blue, green and red as the models take them."""
        page = self.folder / "page.html"
        page.write_text("<!doctype html><meta charset=utf-8><body style='margin:0;background:#fff;"
                        f"white-space:pre;font-family:\"DejaVu Sans\",sans-serif'>{content}")
        drawn = self.folder / "words.png"
        subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                        f"--user-data-dir={self.folder / 'profile'}",
                        # The window's own parts take some of its height.
                        f"--window-size={width},{height + 250}", f"--screenshot={drawn}", page.as_uri()],
                       check=True, timeout=60, capture_output=True)
        return (read_png(drawn)[:height, :width, ::-1] / 255).astype(np.float32)

    def line(self, words):
        return self.picture(f"<div style='height:{self.HEIGHT}px;padding-left:6px;"
                            f"font-size:34px;line-height:{self.HEIGHT}px'>{words}</div>", self.WIDTH, self.HEIGHT)

    def read(self, scores):
        """The words of a line, by the scores of its columns."""
        self.assertEqual(scores.shape[1:], (self.WIDTH // 8, len(self.letters)))
        best = scores[0].argmax(1)
        # A letter that repeats without a blank in between is one.
        return "".join(self.letters[k] for i, k in enumerate(best) if i == 0 or best[i - 1] != k).strip()

    def read_by_both(self, pixels):
        """Words of a line by neuron-serve; onnxruntime's are equal."""
        x = np.ascontiguousarray(((pixels - 0.5) / 0.5).transpose(2, 0, 1)[None], np.float32)
        served, expected = ({self.read(scores) for scores in results.values()}
                            for results in self.both("words", {"x": x}))
        self.assertEqual(served, expected)
        return served.pop()

    def test_the_words_of_a_line_are_read_as_onnxruntime_reads_them(self):
        for words in ("Hello NEURON 42", "open runtime 2026"):
            self.assertEqual(self.read_by_both(self.line(words)), words)

    def test_words_are_found_in_a_picture_and_read_as_onnxruntime_does(self):
        lines = {"Hello NEURON 42": (30, 14, 28, "#000"), "open runtime 2026": (190, 74, 26, "#a00"),
                 "speech and pictures": (60, 132, 24, "#035")}
        pixels = self.picture("".join(
            f"<div style='position:absolute;left:{x}px;top:{y}px;font-size:{size}px;color:{color}'>{words}</div>"
            for words, (x, y, size, color) in lines.items()), *self.PAGE)
        spread = (pixels - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
        x = np.ascontiguousarray(spread.transpose(2, 0, 1)[None], np.float32)
        served, expected = (boxes(next(iter(results.values()))[0, 0])
                            for results in self.both("find", {"x": x}))
        self.assertEqual(served, expected)
        self.assertEqual([self.read_by_both(cut(pixels, box, self.WIDTH, self.HEIGHT)) for box in served],
                         list(lines))

    def test_a_line_that_stands_on_its_head_is_told_as_onnxruntime_tells_it(self):
        line = self.line("open runtime 2026")
        for pixels, turned in ((line, 0), (line[::-1, ::-1], 1)):
            fitted = cut(pixels, (0, 0, self.WIDTH, self.HEIGHT), 192, self.HEIGHT)
            x = np.ascontiguousarray(((fitted - 0.5) / 0.5).transpose(2, 0, 1)[None], np.float32)
            for results in self.both("turned", {"x": x}):
                self.assertEqual(next(iter(results.values())).argmax(), turned)

    def test_random_input_gives_the_values_of_onnxruntime(self):
        random = np.random.default_rng(2)
        for model, (width, height) in (("find", self.PAGE), ("turned", (192, self.HEIGHT)),
                                       ("words", (self.WIDTH, self.HEIGHT))):
            for size in (0.1, 1, 1, 3):
                x = random.uniform(-size, size, (1, 3, height, width)).astype(np.float32)
                self.both(model, {"x": x})


if __name__ == "__main__":
    unittest.main()
