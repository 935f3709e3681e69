"""docs/fx_json.schema.json against the example of docs/fx_json.md, the dumps in models/ and what --emit=fx writes; and what it must refuse.

    python3 fx_json_schema_test.py SOURCE_FOLDER TCC MODEL...
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: there is no Python module jsonschema (Debian: python3-jsonschema)")
    sys.exit(77)

source, tcc = pathlib.Path(sys.argv[1]), sys.argv[2]
schema = json.loads((source / "docs/fx_json.schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
example = json.loads(re.search(r"```json\n(.*?)```", (source / "docs/fx_json.md").read_text(), re.S).group(1))

good = {"docs/fx_json.md": example}
for path in sorted((source / "models").glob("fx/*.json")):
    good[str(path)] = json.loads(path.read_text())
with tempfile.TemporaryDirectory() as folder:
    for model in sys.argv[3:]:
        path = pathlib.Path(folder) / "model.json"
        subprocess.run([tcc, model, f"--emit=fx={path}"], check=True)
        good[model] = json.loads(path.read_text())
faults = [f"{name}: {error.json_path}: {error.message[:200]}" for name, document in good.items() for error in validator.iter_errors(document)]

# One change each: the place, and what stands there then.
changes = [
    (["version"], [2, 0]), (["format"], "other"), (["more"], 1), (["graphs"], []), (["graphs", 0, "role"], "sideways"),
    (["weights", 0, "offset"], -1), (["weights", 0, "dtype"], "real"), (["graphs", 0, "inputs", 0, "kind"], "weight"),
    (["graphs", 0, "values", "x"], {"dtype": "f32"}), (["graphs", 0, "values", "x"], {"sym": "s0", "number": "i64"}),
    (["graphs", 0, "nodes", 0, "args", 0], {"v": "w", "f": "inf"}), (["graphs", 0, "nodes", 0, "args", 0], {"w": "x"}),
    (["graphs", 0, "nodes", 0, "outs"], [1]), (["graphs", 0, "outputs", 0, "kind"], "gradient"),
    (["graphs", 0, "guards", 0], {"kind": "value", "equals": 1}), (["graphs", 0, "guards", 0, "kind"], "shape"),
    (["graphs", 0, "guards", 0], {"kind": "state", "name": "mode", "value": "train"}), (["meta"], 1), (["symbols", "s0", "step"], 1),
]
for place, value in changes:
    document = copy.deepcopy(example)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    if validator.is_valid(document):
        faults.append(f"the schema takes {value!r} at {place}")
print("\n".join(faults) or f"{len(good)} files and {len(changes)} changes")
sys.exit(1 if faults else 0)
