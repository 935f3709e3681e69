"""torch.compile(backend="tcc") and tcc_torch.dump against eager mode, on the CPU and, where there is one, a GPU.

    TCC=build/dev/bin/tcc python3 tests/torch/backend_test.py        or: ctest -R torch_backend
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import torch
except ImportError:
    print("skipped: Python has no torch")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import tcc_torch  # noqa: E402  pylint: disable=wrong-import-position

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
FOLDER = tempfile.TemporaryDirectory()
OPTIONS = {"cache": os.path.join(FOLDER.name, "cache")}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8, 5)
        self.register_buffer("shift", torch.ones(5))

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        return self.fc(y.mean((2, 3))) + self.shift


class BackendTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(1)
        self.libraries = 0
        made = tcc_torch.Library.__init__

        def counted(library, *arguments):
            self.libraries += 1
            made(library, *arguments)
        tcc_torch.Library.__init__ = counted
        self.addCleanup(lambda: setattr(tcc_torch.Library, "__init__", made))

    def compile(self, function, **keys):
        return torch.compile(function, backend="tcc", options=OPTIONS, **keys)

    def check(self, function, *arguments, libraries=1, tolerance=1e-5):
        """Compiled like eager mode: values, dtypes, strides, and that a library did it."""
        with torch.no_grad():
            expected, found = function(*arguments), self.compile(function)(*arguments)
        expected, found = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (expected, found))
        self.assertEqual(len(expected), len(found))
        for a, b in zip(expected, found):
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)
            if isinstance(a, torch.Tensor):
                self.assertEqual((a.stride(), a.device), (b.stride(), b.device))
        if libraries is not None:
            self.assertEqual(self.libraries, libraries)
        return found

    def on_devices(self, test):
        for device in DEVICES:
            with self.subTest(device=device):
                torch._dynamo.reset()
                self.libraries = 0
                test(device)

    def test_layouts(self):
        def test(device):
            x = torch.randn(2, 3, 4, 5, device=device)
            for value in (x, x.permute(0, 2, 3, 1), x.to(memory_format=torch.channels_last), x[:, 1:, ::2], x.transpose(1, 3)[:, 1],
                          x[:, :1].expand(2, 3, 4, 5), x[1:2].permute(3, 0, 2, 1)):
                torch._dynamo.reset()
                self.libraries = 0
                self.check(lambda a: (a.sin() + 1, a.transpose(0, -1) * 2, a.cos().permute(*reversed(range(a.dim())))), value)
        self.on_devices(test)

    def test_outputs_that_are_arguments_and_views(self):
        def test(device):
            x = torch.randn(4, 6, device=device)
            y = self.check(lambda a: (a, a.t(), a[1:, ::2], a.exp(), a.view(2, 12)), x)
            self.assertIs(y[0], x)
            for view in (y[1], y[2], y[4]):
                self.assertEqual(view.untyped_storage().data_ptr(), x.untyped_storage().data_ptr())
        self.on_devices(test)

    def test_writes(self):
        def test(device):
            def function(a, b):
                a.add_(1)
                b[1].mul_(3)
                return a * b
            first, second = ([torch.arange(6.0, device=device).reshape(2, 3), torch.ones(2, 3, device=device)] for _ in range(2))
            with torch.no_grad():
                expected, found = function(*first), self.compile(function)(*second)
            for a, b in zip([expected] + first, [found] + second):
                torch.testing.assert_close(b, a)
            self.assertEqual(self.libraries, 1)
        self.on_devices(test)

    def test_dtypes_scalars_and_constants(self):
        def test(device):
            table = torch.tensor([[1, 2], [3, 4]], device=device)
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
                torch._dynamo.reset()
                self.libraries = 0
                x = torch.arange(1, 5, device=device).reshape(2, 2).to(dtype)
                self.check(lambda a: (a * 2 + table, a > 2, torch.where(a > 2, a, torch.zeros_like(a)), a.sum()), x, tolerance=1e-3)
            self.libraries = 0
            self.check(lambda a, s: a * s, torch.ones(3, device=device), torch.tensor(2.5))  # a number of the host beside any tensor
        self.on_devices(test)

    def test_sizes(self):
        def test(device):
            def function(a):
                return torch.softmax(a, -1) + a.shape[0], a.reshape(-1)
            compiled = self.compile(function)
            for rows in (3, 4, 7, 4, 3):
                x = torch.randn(rows, 5, device=device)
                for a, b in zip(function(x), compiled(x)):
                    torch.testing.assert_close(b, a)
            self.assertEqual(self.libraries, 4)  # 3 rows, then with symbols: 4, 7 and 3 rows
        self.on_devices(test)

    def test_training(self):
        def test(device):
            for dynamic in (False, True):
                torch._dynamo.reset()
                self.libraries = 0
                torch.manual_seed(3)
                eager, other = Net().to(device), Net().to(device)
                other.load_state_dict(eager.state_dict())
                compiled = self.compile(other, dynamic=dynamic)
                optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (eager, other)]
                for _ in range(3):
                    x, labels = torch.randn(4, 3, 6, 6, device=device), torch.randint(0, 5, (4,), device=device)
                    losses = []
                    for model, optimizer in zip((eager, compiled), optimizers):
                        optimizer.zero_grad()
                        loss = torch.nn.functional.cross_entropy(model(x), labels)
                        loss.backward()
                        optimizer.step()
                        losses.append(loss.detach())
                    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
                for (name, a), b in zip(eager.state_dict().items(), other.state_dict().values()):
                    torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
                self.assertEqual(self.libraries, 2)
        self.on_devices(test)

    def test_lacking_operators_fall_back_with_one_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = self.compile(lambda a: torch.linalg.eigvalsh(a @ a.t()) + 1)
            x = torch.randn(3, 3)
            for _ in range(3):
                torch.testing.assert_close(compiled(x), torch.linalg.eigvalsh(x @ x.t()) + 1)
        messages = [str(w.message) for w in caught if "tcc does not compile" in str(w.message)]
        self.assertEqual(len(messages), 1)
        self.assertIn("linalg_eigh", messages[0])
        self.assertEqual(self.libraries, 0)

    def test_bad_indices_are_errors(self):
        compiled = self.compile(lambda table, i: table[i])
        with self.assertRaisesRegex(RuntimeError, "index 9"):
            compiled(torch.randn(4, 2), torch.tensor([1, 9]))

    def test_random_numbers(self):
        def test(device):
            x = torch.zeros(2000, device=device)
            compiled = self.compile(lambda a: (torch.nn.functional.dropout(a + 1, 0.25), a + torch.rand_like(a)))
            torch.manual_seed(5)
            first, second = compiled(x), compiled(x)
            torch.manual_seed(5)
            again = compiled(x)
            self.assertFalse(torch.equal(first[1], second[1]))
            self.assertTrue(torch.equal(first[1], again[1]))
            self.assertAlmostEqual(float((first[0] == 0).float().mean()), 0.25, delta=0.05)
            self.assertAlmostEqual(float(first[1].mean()), 0.5, delta=0.05)
        self.on_devices(test)

    def test_kept_by_content(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                torch._dynamo.reset()
                torch.compile(lambda a: a * 3 + 1, backend="tcc", options={"cache": folder})(torch.ones(7))
            files = [f for _, _, names in os.walk(folder) for f in names]
            self.assertEqual(len(files), 1, files)

    # ---- the three patterns: a decision in Python, its form without one, a list of tensors

    def test_decision_in_python(self):
        def function(x):
            y = x * 2
            y = torch.sin(y) if random.random() > 0.5 else torch.cos(y)
            return y + 1
        x = torch.randn(5)
        random.seed(2)
        expected = [function(x) for _ in range(6)]
        random.seed(2)
        compiled = self.compile(function)
        for each in expected:
            torch.testing.assert_close(compiled(x), each)
        self.assertGreaterEqual(self.libraries, 3)  # before, and both ways on

    def test_decision_as_where(self):
        compiled = self.compile(lambda x: torch.where(torch.rand(()) > 0.5, torch.sin(x), torch.cos(x)))
        x = torch.randn(5)
        seen = set()
        for _ in range(40):
            y = compiled(x)
            is_sine = torch.allclose(y, torch.sin(x), atol=1e-6)
            self.assertTrue(is_sine or torch.allclose(y, torch.cos(x), atol=1e-6))
            seen.add(is_sine)
        self.assertEqual((len(seen), self.libraries), (2, 1))

    def test_loop_over_a_list(self):
        def loop(values):
            total = torch.zeros_like(values[0])
            for value in values:
                total = total + torch.tanh(value)
            return total
        values = [torch.randn(4, 3) for _ in range(5)]
        self.check(loop, values)
        self.libraries = 0
        torch._dynamo.reset()
        self.check(lambda v: torch.stack(v).tanh().sum(0), values)


class DumpTest(unittest.TestCase):
    def dump(self, function, arguments, **keys):
        path = os.path.join(FOLDER.name, self.id() + ".json")  # the loader takes a path that it knows for the same library
        result = tcc_torch.dump(function, arguments, path, **keys)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        made = subprocess.run([os.environ["TCC"], path, "-q", "--target=cpu", "-o", path + ".so"], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        return result, document, tcc_torch.Library(path + ".so", "cpu")

    @staticmethod
    def call(library, function, arguments):
        index, _, inputs, outputs = library.interface(function)
        device = torch.device("cpu")
        ins, shapes_in = tensor_array_of(inputs, [arguments[name] for name, _, _ in inputs])
        dtypes = {number: dtype for dtype, (number, _) in tcc_torch.DTYPES.items()}
        made = {name: torch.empty(shape, dtype=dtypes[dtype]) for name, shape, dtype in outputs}
        outs, shapes_out = tensor_array_of(outputs, made.values())
        library.call(index, ins, outs, None, 0)
        del shapes_in, shapes_out, device
        return made

    def test_graph_break(self):
        def function(x):
            y = x * 2
            y = torch.sin(y) if random.random() > 2 else torch.cos(y)
            return y + 1
        x = torch.randn(3, 4)
        result, document, library = self.dump(function, (x,))
        self.assertEqual([g["id"] for g in document["graphs"]], ["g0", "g1"])
        self.assertIn("random", document["graphs"][0]["meta"]["break_reason"])
        self.assertIsNone(document["graphs"][1]["meta"]["break_reason"])
        self.assertEqual(document["graphs"][0]["inputs"][0]["source"], "L['x']")
        (y,) = self.call(library, "g0", {"x": x}).values()
        (z,) = self.call(library, "g1", {document["graphs"][1]["inputs"][0]["name"]: y}).values()
        torch.testing.assert_close(z, result)

    def test_weights_and_guards(self):
        model = Net().eval()
        x = torch.randn(2, 3, 6, 6)
        result, document, library = self.dump(model, (x,))
        self.assertEqual({w["fqn"] for w in document["weights"]} & {"conv.weight", "norm.running_mean", "shift"},
                         {"conv.weight", "norm.running_mean", "shift"})
        kinds = {i["fqn"]: i["kind"] for i in document["graphs"][0]["inputs"] if "fqn" in i}
        self.assertEqual((kinds["fc.weight"], kinds["shift"]), ("param", "buffer"))
        self.assertIn({"kind": "state", "name": "grad_enabled", "value": False}, document["graphs"][0]["guards"])
        (y,) = self.call(library, None, {"x": x}).values()
        torch.testing.assert_close(y, result, rtol=1e-4, atol=1e-5)

    def test_forward_and_backward(self):
        torch.manual_seed(4)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
        x = torch.randn(5, 4)
        result, document, library = self.dump(model, (x,), training=True)
        model.zero_grad()
        model(x).sum().backward()
        forward, backward = document["graphs"]
        self.assertEqual((forward["role"], backward["role"], backward["meta"]["forward"]), ("forward", "backward", "g0"))
        made = self.call(library, "g0", {"x": x, "input": x, "input_1": x, **{i["name"]: x for i in forward["inputs"]}})
        user = next(o["value"] for o in forward["outputs"] if o["kind"] == "user")
        torch.testing.assert_close(made[user], result.detach(), rtol=1e-4, atol=1e-5)
        arguments = dict(made)
        for entry in backward["inputs"]:
            if entry["kind"] == "tangent":
                arguments[entry["name"]] = torch.ones_like(result)
            elif entry["name"] not in arguments:
                arguments[entry["name"]] = x
        gradients = self.call(library, "g0_backward", arguments)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients["grad." + name], parameter.grad, rtol=1e-3, atol=1e-5)

    def test_symbols(self):
        path = os.path.join(FOLDER.name, "dynamic.json")
        tcc_torch.dump(lambda x: torch.softmax(x, 0) + x.shape[0], (torch.randn(6, 3),), path, dynamic=True)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        rows, columns = document["graphs"][0]["values"]["x"]["shape"]
        self.assertEqual([document["symbols"][size]["hint"] for size in (rows, columns)], [6, 3])
        bind = f"--bind={rows}=4,{columns}=3"
        subprocess.run([os.environ["TCC"], path, "-q", "--target=cpu", bind, "-o", path + ".so"], check=True)
        x = torch.randn(4, 3)
        (y,) = self.call(tcc_torch.Library(path + ".so", "cpu"), None, {"x": x}).values()
        torch.testing.assert_close(y, torch.softmax(x, 0) + 4)


def tensor_array_of(descriptions, tensors):
    array, shapes = tcc_torch.tensor_array(descriptions, torch.device("cpu"))
    for entry, tensor in zip(array, tensors):
        entry.data = tensor.data_ptr()
    return array, shapes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tcc", default=os.environ.get("TCC"))
    known, rest = parser.parse_known_args()
    if known.tcc:
        os.environ["TCC"] = os.path.abspath(known.tcc)
    unittest.main(argv=[sys.argv[0], *rest])
