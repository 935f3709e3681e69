"""No #include goes up the list of stages in CMakeLists.txt, and few reach into another stage's folder.

    includes_test.py SOURCE_DIR

A stage is a folder of src/ with its headers in include/tcc/. A header in include/tcc/ may be included by every later stage; one in src/ is its folder's
own. frontend/base is made to be stood upon, and src/runtime/stub is compiled apart from everything, with the C interface alone.
"""
import collections
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])

# Includes that go up the list. An entry that is no longer needed is a fault as well.
UPWARDS = set()
MOST_PRIVATE = 2

listed = re.search(r"set\(tcc_stages\s+([^)]*)\)", (source / "CMakeLists.txt").read_text()).group(1).split()
rank = {stage: i for i, stage in enumerate(listed)}


def stage_of(path):
    """Of a path below src/ or include/tcc/."""
    for stage in sorted(listed, key=len, reverse=True):
        if path.startswith(stage + "/"):
            return stage
    return None


def includes():
    for root in (source / "src", source / "include/tcc"):
        for file in sorted(root.rglob("*")):
            if file.suffix not in (".h", ".cpp", ".def", ".c"):
                continue
            stage = stage_of(str(file.relative_to(root)))
            for header in re.findall(r'^\s*#include "([^"]+)"', file.read_text(), flags=re.M):
                yield file.relative_to(source), stage, header


def of_frontends(stage):
    return "frontend" if stage.startswith("frontend/") else stage


faults, upwards, private = [], set(), collections.defaultdict(set)
for file, stage, header in includes():
    public = header.startswith("tcc/")
    target = stage_of(header.removeprefix("tcc/"))
    if target is None or target == stage:
        continue
    # One stage in four folders: include/tcc/frontend is what all frontends are asked for, and import.cpp asks each of them.
    if of_frontends(stage) == of_frontends(target) and (public or stage == "frontend"):
        continue
    if rank[target] > rank[stage]:
        upwards.add((stage, header))
        if (stage, header) not in UPWARDS:
            faults.append(f"{file}: `{header}` is of a later stage, {target}")
    if not public and target != "frontend/base":
        private[header].add(stage)

faults += [f"UPWARDS has ({stage}, {header}), which nothing includes" for stage, header in sorted(UPWARDS - upwards)]
if len(private) > MOST_PRIVATE:
    faults.append(f"{len(private)} headers of src/ are included by other stages, at most {MOST_PRIVATE} may be:")
    faults += [f"  {header} by {', '.join(sorted(stages))}" for header, stages in sorted(private.items())]
print(*faults, sep="\n")
sys.exit(1 if faults else 0)
