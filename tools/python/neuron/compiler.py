# SPDX-License-Identifier: Apache-2.0
"""From a model to a NEFF, by the program neuron-compile."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

from . import device, libnrt
from .libnrt import NeuronError


class CompileError(NeuronError):
    """The model cannot be compiled; the text has the compiler's sentences."""


def _in_python(sentence):
    """The advice of a sentence, in the arguments of compile() and not in options of the program."""
    def shape(found):
        sizes = ", ".join(found[2].split("x"))
        return f'shapes={{"{found[1]}": ({sizes}{"," if "," not in sizes else ""})}}'
    sentence = re.sub(r"--shape (\S+)=(\d+(?:x\d+)*)", shape, sentence)
    return re.sub(r"--batch (\d+)", r"batch=\1", sentence)


def _run(words):
    program = libnrt.root() / "bin" / "neuron-compile"
    done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [_in_python(line.removeprefix("neuron-compile: ")) for line in done.stderr.splitlines()]
        raise CompileError("\n".join(lines) or f"neuron-compile ended with {done.returncode}")
    return done.stdout


def _constant(value, folder, number):
    import numpy as np
    path = os.path.join(folder, f"constant{number}.npy")
    np.save(path, np.asarray(value))
    return "@" + path


def _export(module, example, path):
    """Writes a torch module as ONNX. Torch is imported only here."""
    import torch
    arguments = example if isinstance(example, tuple) else (example,)
    arguments = tuple(torch.as_tensor(argument) for argument in arguments)
    names = [f"input{i}" for i in range(len(arguments))]
    trains = module.training
    module.eval()
    try:
        # With gradients: without them, torch takes short cuts of its own that it cannot export.
        results = module(*arguments)
        count = len(results) if isinstance(results, (tuple, list)) else 1
        torch.onnx.export(module, arguments, path, input_names=names,
                          output_names=[f"output{i}" for i in range(count)])
    finally:
        module.train(trains)


def compile(model, example=None, output=None, *, target=None, shapes=None, dimensions=None,
            batch=None, constants=None, auto_cast=None, optlevel=None, donated=None, check=False):
    """Compiles a model and returns the path of its NEFF.

    model: the path of an .onnx file or of an HLO module; a .neff is returned as it is. Or a torch
    module, with `example`: a tensor or a tuple of them, as the module is called.
    output: the NEFF to write; beside the model by default, a temporary file for a torch module.
    target: "trn1", "inf2", "trn2" or "trn3"; that of this process's device by default.
    shapes, dimensions, batch: sizes of free dimensions, {"x": (1, 3, 224, 224)}, {"n": 128}, 8.
    constants: inputs that become part of the program, {"shape": [2, 3]}.
    auto_cast: "bf16" or "fp16": what operands of products are rounded to.
    donated: outputs that have the memory of an input, {"w_new": "w"}; see Model's `aliases`.
    check: execute the program with made-up inputs and compare it with the reference interpreter.
    Raises CompileError with the node, the reason and the cure.
    """
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if path.suffix == ".neff":
            return path
        return _compile_file(path, Path(output) if output else path.with_suffix(".neff"), target,
                             shapes, dimensions, batch, constants, auto_cast, optlevel, donated,
                             check)
    if example is None:
        raise TypeError("a torch module needs `example`, the arguments it is called with")
    with tempfile.TemporaryDirectory(prefix="neuron.") as folder:
        exported = os.path.join(folder, type(model).__name__ + ".onnx")
        _export(model, example, exported)
        temporary = output is None
        if temporary:
            handle, output = tempfile.mkstemp(prefix=type(model).__name__ + ".", suffix=".neff")
            os.close(handle)
        try:
            return _compile_file(Path(exported), Path(output), target, shapes, dimensions, batch,
                                 constants, auto_cast, optlevel, donated, check)
        except BaseException:
            if temporary:
                os.unlink(output)
            raise


def _compile_file(path, output, target, shapes, dimensions, batch, constants, auto_cast, optlevel,
                  donated, check):
    target = target or device.target()
    # Absolute, because a name that begins with "-" would be an option.
    words = [str(path.absolute()), "-o", str(output.absolute()), "--target", target, "--lnc",
             str(device.physical_cores(target))]
    for name, shape in (shapes or {}).items():
        words += ["--shape", f"{name}=" + "x".join(str(int(size)) for size in shape)]
    for name, size in (dimensions or {}).items():
        words += ["--dim", f"{name}={int(size)}"]
    if batch is not None:
        words += ["--batch", str(int(batch))]
    if auto_cast is not None:
        words += ["--auto-cast", "matmult", "--auto-cast-type", auto_cast]
    if optlevel is not None:
        words += ["-O", str(int(optlevel))]
    for name, source in (donated or {}).items():
        words += ["--donate", f"{name}={source}"]
    if check:
        words.append("--check")
    with tempfile.TemporaryDirectory(prefix="neuron.") as folder:
        for number, (name, value) in enumerate((constants or {}).items()):
            words += ["--constant", f"{name}={_constant(value, folder, number)}"]
        _run(words)
    return output
