"""Every exported model: its first output against the framework's f64 output of its ref.npz."""
import glob
import os
import tarfile

import numpy as np
import torch

from gpu.library import Library, compile_library
from gpu.measure import difference, poison, time_together

# Control flow and recurrent ops of ONNX.
NOT_YET = ("cond_branch", "lstm_tagger", "gru_classifier")


def models_folder(options, folder):
    """Where the models are, unpacked; None when none are asked for."""
    if not options.models:
        return None
    if os.path.isdir(options.models):
        return options.models
    root = os.path.join(folder, "models")
    if not os.path.exists(root):
        with tarfile.open(options.models) as archive:
            archive.extractall(root)
    return root


def inputs_of(reference):
    """The inputs of a ref.npz on the device, in order."""
    inputs = []
    while f"in{len(inputs)}" in reference:
        inputs.append(torch.from_numpy(reference[f"in{len(inputs)}"]).contiguous().cuda())
    return inputs


def check_models(options, folder):
    root = models_folder(options, folder)
    rows = []
    if root is None:
        return rows
    for path in sorted(glob.glob(os.path.join(root, "*", "*.onnx"))):
        name = os.path.relpath(path, root)
        if name.split("/")[0] in NOT_YET or options.only not in name:
            continue
        try:
            output = os.path.join(folder, f"model{len(rows)}.so")   # a name of its own: what is loaded once stays loaded under its name
            compile_library(options.tcc, [path, "--target=cuda"], output)
            with np.load(os.path.join(os.path.dirname(path), "ref.npz")) as reference:
                inputs = inputs_of(reference)
                expected = torch.from_numpy(reference["out0_f64"]).cuda()
            library = Library(output)
            outputs, run = library.bind(inputs)
            poison(outputs)
            run()
            torch.cuda.synchronize()
            largest, beyond = difference(outputs[0], expected, 1e-4, 1e-5)
            poison(outputs)
            run()   # from the CUDA graph this time
            torch.cuda.synchronize()
            again, beyond_again = difference(outputs[0], expected, 1e-4, 1e-5)
            milliseconds = time_together([run], 5)[0] if beyond <= 1 else 0.0
            ok = beyond <= 1 and beyond_again <= 1
            rows.append((ok, f"{name:44s} {'ok' if ok else 'WRONG':6s} {max(largest, again):10.2e} {milliseconds * 1000:9.1f} us {library.info.num_launches:5d} launches"))
            library.close()
        except Exception as error:  # the other models are worth a look all the same
            rows.append((False, f"{name:44s} FAILED {str(error)[:600]}"))
        print(rows[-1][1], flush=True)
    return rows
