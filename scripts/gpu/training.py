"""Gradients and training steps of the exported models on the CUDA device, against the framework's in f64."""
import glob
import os
import subprocess

import numpy as np
import torch

from gpu.library import Library, compile_library
from gpu.measure import poison
from gpu.models import NOT_YET, inputs_of, models_folder

LOSSES = {"mnist_mlp": "cross_entropy", "mnist_cnn": "nll", "bert_tiny": "mse", "gpt2_tiny": "cross_entropy:axis=-1",
          "resnet_torchvision_slim": "cross_entropy", "unet_mini": "l1"}
OPTIMIZERS = {"sgd": "sgd:lr=0.01,momentum=0.9,nesterov=true,weight_decay=1e-4", "adam": "adam:beta1=0.9,beta2=0.99",
              "adamw": "adamw:weight_decay=0.01"}
TIED = {"m.transformer.wte.weight": "m.lm_head.weight"}   # gpt2_tiny's initializer has the second name


def intact_parameters(path):
    """Of a default export: the parameters whose name and bytes are those of the unoptimized one; the others were folded or merged. None for that one itself."""
    if os.path.basename(path) == "unoptimized.onnx":
        return None
    import onnx
    from onnx import numpy_helper
    read = lambda name: {t.name: numpy_helper.to_array(t) for t in onnx.load(name).graph.initializer}
    now, then = read(path), read(os.path.join(os.path.dirname(path), "unoptimized.onnx"))
    return {name for name, value in now.items() if name in then and value.shape == then[name].shape and value.tobytes() == then[name].tobytes()}


def check_gradients(options, folder):
    """The cotangent of the first output is linspace(-1, 1, n) / sqrt(n), as in ref.npz; gradients of parameters
    to 1e-3 of each element, or to 1e-5 of the tensor's largest or 1e-7 of the model's, whichever is larger."""
    rows = []
    root = models_folder(options, folder)
    for path in sorted(glob.glob(os.path.join(root or "", "*", "*.onnx"))) if root else []:
        model, name = os.path.basename(os.path.dirname(path)), os.path.relpath(path, root)
        if model in NOT_YET or options.only not in name or not os.path.exists(os.path.join(os.path.dirname(path), "unoptimized.onnx")):
            continue
        try:
            with np.load(os.path.join(os.path.dirname(path), "ref.npz")) as reference:
                inputs = inputs_of(reference)
                expected = {key[5:]: torch.from_numpy(reference[key]).double().cuda() for key in reference if key.startswith("grad.")}
            if not expected:   # a model without parameters
                continue
            intact = intact_parameters(path)
            output = os.path.join(folder, f"grad{len(rows)}.so")
            compile_library(options.tcc, [path, "--mode=grad", "--target=cuda", "-q"], output)
            library = Library(output)
            first = library.outputs[0][0]
            for input_name, dtype, shape in library.inputs[len(inputs):]:
                cotangent = torch.zeros(shape, dtype=dtype, device="cuda")
                if input_name == "cotangent." + first:
                    n = cotangent.numel()
                    cotangent = (torch.linspace(-1, 1, n, dtype=torch.float64) / n**0.5).to(dtype).reshape(shape).cuda()
                inputs.append(cotangent.contiguous())
            outputs, run = library.bind(inputs)
            worst, compared = 0.0, 0
            largest = max(value.abs().max().item() for value in expected.values() if value.numel())
            for _ in range(2):   # the second time from the CUDA graph
                poison(outputs)
                run()
                torch.cuda.synchronize()
                found = {output_name[5:]: value.double() for (output_name, _, _), value in zip(library.outputs, outputs) if output_name.startswith("grad.")}
                for key, value in expected.items():
                    ours = TIED[key] if model == "gpt2_tiny" and key in TIED else key
                    if intact is not None and ours not in intact:
                        continue
                    bound = 1e-3 * value.abs() + max(1e-5 * value.abs().max().item(), 1e-7 * largest)
                    worst = max(worst, ((found[ours] - value).abs() / bound).nan_to_num(nan=float("inf")).max().item())
                    compared += 1
            ok = worst <= 1 and compared > 0
            rows.append((ok, f"gradients {name:42s} {'ok' if ok else 'WRONG':6s} {compared // 2:4d} of {len(expected)} tensors, worst {worst:5.2f} of the "
                             f"tolerance, {library.function_info(0).num_launches} launches"))
            library.close()
        except Exception as error:  # the other models are worth a look all the same
            rows.append((False, f"gradients {name:42s} FAILED {str(error)[:600]}"))
        print(rows[-1][1], flush=True)
    return rows


DROPOUT = """graph @dropout(%x: f32[64, 1000], %seed: i64[]) -> (%y: f32[64, 1000], %kept: bool[64, 1000], %n: f32[64, 1000]) {
  %y: f32[64, 1000], %kept: bool[64, 1000] = dropout(%x, %seed) {ratio=0.3, stream=5}
  %n: f32[64, 1000] = random_normal(%seed, %x) {shape=[64, 1000], dtype=f32, stream=6, mean=0.0, scale=1.0}
}
"""


def check_random(options, folder):
    """Random numbers are those of the CPU, bit for bit where they are bits; a seed gives the same ones again, another one others."""
    text, output, saved = (os.path.join(folder, name) for name in ("dropout.graph", "dropout.so", "dropout"))
    with open(text, "w") as file:
        file.write(DROPOUT)
    try:
        compile_library(options.tcc, ["--from=graph", text, "-q"], output)
        x = torch.randn(64, 1000, device="cuda")
        np.save(os.path.join(folder, "x.npy"), x.cpu().numpy())
        subprocess.run([options.tcc, "run", output, "--device", "cpu", "--seed", "7", "--input", os.path.join(folder, "x.npy"), "--save", saved], check=True,
                       capture_output=True)
        on_cpu = [torch.from_numpy(np.load(os.path.join(saved, f"{i}.npy"))).cuda() for i in range(3)]
        library = Library(output)
        outputs, run = library.bind([x])
        results = []
        for seed in (7, 7, 8):
            library.set_scalar("seed", seed)
            poison(outputs)
            run()
            torch.cuda.synchronize()
            results.append([tensor.clone() for tensor in outputs])
        library.close()
        same = all(torch.equal(a, b) for a, b in zip(results[0], results[1])) and not torch.equal(results[0][1], results[2][1])
        bits = torch.equal(results[0][1], on_cpu[1]) and torch.allclose(results[0][0], on_cpu[0], rtol=1e-6) and torch.allclose(
            results[0][2], on_cpu[2], rtol=1e-4, atol=1e-5)
        share = results[0][1].float().mean().item()
        ok = same and bits and abs(share - 0.7) < 0.01
        row = (ok, f"random    dropout and normal: {'ok' if ok else 'WRONG'}; as on the CPU {bits}, by seed {same}, kept {share:.3f}")
    except Exception as error:
        row = (False, f"random    FAILED {str(error)[:600]}")
    print(row[1], flush=True)
    return [row]


def check_parts(options, folder):
    """forward, backward and update are a step; two equal micro-batches are one."""
    rows = []
    root = models_folder(options, folder)
    for model in ("bert_tiny", "resnet_torchvision_slim") if root else ():
        try:
            source = os.path.join(root, model, "unoptimized.onnx")
            flags = [source, "--mode=train", f"--loss={LOSSES[model]}", "--optimizer=adamw", "--target=cuda", "-q"]
            whole, twice = os.path.join(folder, model + ".parts.so"), os.path.join(folder, model + ".twice.so")
            compile_library(options.tcc, flags, whole)
            compile_library(options.tcc, [*flags, "--accumulate=2"], twice)
            with np.load(os.path.join(root, model, "ref.npz")) as reference:
                inputs = inputs_of(reference)
            training = dict(np.load(os.path.join(root, model, "train.npz")))
            names = [key[len("adamw.param."):] for key in training if key.startswith("adamw.param.")]
            by_step, by_parts, by_halves = Library(whole), Library(whole), Library(twice)
            _, dtype, shape = by_step.signature(by_step.find("step"))[0][-1]
            inputs.append(torch.from_numpy(training["target"]).to(dtype).reshape(shape).contiguous().cuda())
            _, step = by_step.bind(inputs, "step")
            _, halves = by_halves.bind(inputs, "step")
            outputs, forward = by_parts.bind(inputs, "forward")
            _, backward = by_parts.bind([*inputs, outputs[-1]], "backward")
            _, update = by_parts.bind([], "update")
            for _ in range(5):
                step()
                forward()
                backward()
                update()
                halves()
                halves()
            torch.cuda.synchronize()
            worst = 0.0
            for name in names:
                expected = by_step.state(name)
                if expected is None:
                    continue
                for other in (by_parts, by_halves):
                    worst = max(worst, ((other.state(name) - expected).abs().max() / expected.abs().max()).item())
            for library in (by_step, by_parts, by_halves):
                library.close()
            rows.append((worst < 1e-4, f"parts     {model:32s} {'ok' if worst < 1e-4 else 'WRONG':6s} parameters differ by {worst:.1e} of their largest"))
        except Exception as error:
            rows.append((False, f"parts     {model:32s} FAILED {str(error)[:600]}"))
        print(rows[-1][1], flush=True)
    return rows


def samples_of(tensor, count):
    """As train.npz takes them: flat indices linspace(0, n - 1, count), truncated."""
    flat = tensor.reshape(-1)
    return flat[torch.from_numpy(np.linspace(0, flat.numel() - 1, count).astype(np.int64))]


def compare_parameters(read, training, optimizer, name):
    """Worst difference over its tolerance: 1e-4 of the tensor's largest, or 5 times the framework's own f32 deviation."""
    worst = 0.0
    tolerance = max(1e-4, 5 * float(training[f"{optimizer}.f32_dev"].reshape(-1)[0]))
    for key in training:
        if not key.startswith(optimizer + ".param."):
            continue
        parameter = key[len(optimizer) + 7:]
        tensor = read(parameter)
        if tensor is None and parameter in TIED:
            tensor = read(TIED[parameter])
        if tensor is None:
            continue   # nothing depends on it
        expected = torch.from_numpy(training[key]).double().reshape(-1)
        found = samples_of(tensor.double(), expected.numel())
        worst = max(worst, ((found - expected).abs().max() / (tolerance * tensor.double().abs().max())).item())
    return worst


def check_steps(options, folder):
    """20 steps of each optimizer on each model that has a train.npz, through `tcc run --steps` and through the C interface."""
    rows = check_random(options, folder) + check_parts(options, folder)
    root = models_folder(options, folder)
    for model, loss in LOSSES.items() if root else []:
        for optimizer, text in OPTIMIZERS.items():
            name = f"{model} {optimizer}"
            if options.only not in name:
                continue
            try:
                source = os.path.join(root, model)
                output = os.path.join(folder, f"{model}.{optimizer}.so")
                compile_library(options.tcc, [os.path.join(source, "unoptimized.onnx"), "--mode=train", f"--loss={loss}", f"--optimizer={text}",
                                              "--target=cuda", "-q"], output)
                training = dict(np.load(os.path.join(source, "train.npz")))
                with np.load(os.path.join(source, "ref.npz")) as reference:
                    inputs = inputs_of(reference)
                library = Library(output)
                _, dtype, shape = library.signature(library.find("step"))[0][-1]
                inputs.append(torch.from_numpy(training["target"]).to(dtype).reshape(shape).contiguous().cuda())
                outputs, step = library.bind(inputs, "step")
                losses = []
                for _ in range(20):
                    poison(outputs)
                    step()
                    losses.append(outputs[0].item())
                expected = training[f"{optimizer}.losses"].astype(np.float64)
                loss_error = float(np.abs(np.array(losses) - expected).max() / (1e-4 * max(1.0, np.abs(expected).max())))
                worst = compare_parameters(library.state, training, optimizer, model)
                library.close()

                saved = os.path.join(folder, "saved")
                arguments = [options.tcc, "run", output, "--device", "cuda", "--steps", "20", "--save", saved, "--save-state", saved + ".safetensors"]
                for i, tensor in enumerate(inputs):
                    np.save(os.path.join(folder, f"in{i}.npy"), tensor.cpu().numpy())
                    arguments += ["--input", os.path.join(folder, f"in{i}.npy")]
                result = subprocess.run(arguments, capture_output=True, text=True)
                if result.returncode:
                    raise RuntimeError(result.stderr[:600])
                by_tcc = np.load(os.path.join(saved, "losses.npy")).astype(np.float64)
                again = float(np.abs(by_tcc - np.array(losses)).max())
                ok = worst <= 1 and loss_error <= 1 and again <= 1e-4 * max(1.0, np.abs(expected).max())
                rows.append((ok, f"20 steps  {name:32s} {'ok' if ok else 'WRONG':6s} losses {loss_error:5.2f}, parameters {worst:5.2f} of the tolerance; "
                                 f"tcc run differs by {again:.1e}; loss {losses[0]:.4f} to {losses[-1]:.4f}"))
            except Exception as error:
                rows.append((False, f"20 steps  {name:32s} FAILED {str(error)[:600]}"))
            print(rows[-1][1], flush=True)
    return rows
