"""The commands of the guides do what they say: every indented line of README.md and docs/*.md that begins with `tcc` or `cc`.

    commands_test.py SOURCE_DIR BUILD_DIR [PAGE]

The commands of a page run in order, in one folder, where models/, tests/ and docs/ are those of the repository and these files are there too:
- files that a page shows: a fenced block below a line that ends with "`NAME`:";
- the example of a C program in docs/runtime.md, example.c;
- the files that pages only speak of (STAND_INS).
A line that is a form of commands, with [flags] or ..., is not run. All others have to end with exit code 0. Nothing here needs a GPU.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()

# What a page calls `model.onnx` is any model.
STAND_INS = {
    "model.onnx": source / "models/mnist_mlp/dynamo.onnx",
    "model.pt2": build / "models/mnist_mlp/model.pt2",
    "dump.json": source / "models/fx/decision.json",
}
FORM = re.compile(r"\[[a-z]+\]|\.\.\.|(?<![$\w])[A-Z]{4,}")


def commands_of(text):
    for line in re.sub(r"```.*?```", "", text, flags=re.S).splitlines():
        command = line[4:] if re.match(r"    (tcc|cc|\./\w+)( |$)", line) else ""
        command = re.sub(r"\s{2,}(#.*|[a-z, ]+)?$", "", command).strip()   # a remark beside it
        if command and not FORM.search(command):
            yield command


def files_of(text):
    for name, block in re.findall(r"`([\w.]+)`:\n+```[a-z]*\n(.*?)```", text, flags=re.S):
        yield name, block
    for block in re.findall(r"```c\n(.*?)```", text, flags=re.S):
        if "int main" in block:
            yield "example.c", block
            break


def check(page):
    text = page.read_text()
    commands = list(commands_of(text))
    if not commands:
        return 0, []
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in ("models", "tests", "docs", "scripts"):
            (folder / name).symlink_to(source / name)
        for name, target in STAND_INS.items():
            shutil.copy(target, folder / name)
        for name, block in files_of(text):
            (folder / name).write_text(block)
        path = f"{build / 'bin'}:{os.environ['PATH']}"
        for command in commands:
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=os.environ | {"PATH": path},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            # 141: what a pipe's reader did not want, as with `head`
            if done.returncode not in (0, 141):
                faults.append(f"{page.relative_to(source)}: exit code {done.returncode}: {command}\n{done.stdout}")
    return len(commands), faults


pages = [source / sys.argv[3]] if len(sys.argv) > 3 else [source / "README.md", *sorted((source / "docs").glob("*.md"))]
results = [check(page) for page in pages]
faults = [fault for _, found in results for fault in found]
count = sum(number for number, _ in results)
print(*faults, f"{count} commands, {len(faults)} failed", sep="\n")
sys.exit(1 if faults or count < 25 * (len(sys.argv) < 4) else 0)
