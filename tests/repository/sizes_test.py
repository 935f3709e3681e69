"""No function is longer than 80 lines and no file longer than 700, but for those that are named here with their reason.

    sizes_test.py SOURCE_DIR

C++ and C are read as clang-format leaves them: literals and comments are blanked, then every brace outside of functions opens a scope, a table or the
body of a function. What is inside a function, lambdas included, counts as its lines.
"""
import ast
import pathlib
import re
import sys

FOLDERS = ("src", "include", "tests", "scripts")
MOST_FUNCTION_LINES, MOST_FILE_LINES = 80, 700

# An entry that is no longer needed is a fault as well.
LONG_FILES = {
    "scripts/tcc_torch.py": "users copy it into a project: it is one file without anything beside it",
    "tests/onnx/expected_node.txt": "names of tests, a line each",
    "tests/onnx/expected_newest.txt": "names of tests, a line each",
    "tests/rules/onnx_cases.txt": "numbers, written by make_expectations.py",
}
LONG_FUNCTIONS = {
    ("src/link/write_header.cpp", "words"): "a table: the words that C and C++ keep for themselves",
}


def blanked(text):
    """The text with comments and the insides of literals as spaces; lines stay."""
    def blank(match):
        part = match.group(0)
        return part[0] + re.sub(r"[^\n]", " ", part[1:-1]) + part[-1] if part[0] in "\"'" else re.sub(r"[^\n]", " ", part)
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def name_of(head):
    """Of the function whose body follows `head`; None where the brace is of something else."""
    if re.search(r"(^|[\n>])\s*(inline\s+)?(namespace|class|struct|union|enum|extern)\b[^()]*$", head):
        return None
    plain = re.sub(r"template\s*<[^{}]*?>\s*(?=\w)", "", head)
    while (shorter := re.sub(r"\((?:[^()])*\)", "\x01", plain)) != plain:
        plain = shorter
    plain = re.sub(r"operator\s*(\(\)|[^\w\s\x01(]+)", "operator", plain)
    found = re.search(r"([\w:~]+)\s*\x01", plain)
    return found.group(1).split("::")[-1] if found and "=" not in plain[:found.start()] else None


def functions_of(text):
    """Name, first line and number of lines of each function of a C++ text."""
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), blanked(text), flags=re.M | re.S)
    depth, parentheses, function, head_begin, found = 0, 0, None, 0, []
    for at in (match.start() for match in re.finditer("[(){};]", text)):
        if text[at] in "()":
            parentheses += 1 if text[at] == "(" else -1
            continue
        if function is None and parentheses > 0:
            continue  # a default argument, or an element of a table
        if text[at] == "{":
            head = text[head_begin:at]
            if function is None and (name := name_of(head)) is not None:
                function = [name, text.count("\n", 0, head_begin + len(head) - len(head.lstrip())) + 1, depth, 0]
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if function is not None and depth == function[2]:
                # In `: a_(1), b_{2} { ... }` the first braces are no body yet.
                if not re.match(r"\s*[,{]", text[at + 1:at + 200]):
                    found.append((function[0], function[1], text.count("\n", 0, at) + 2 - function[1]))
                    function = None
        if function is None and depth >= 0:
            head_begin = at + 1
    assert depth == 0 and function is None, "braces do not match"
    return found


def functions_of_python(text):
    return [(node.name, node.lineno, node.end_lineno + 1 - node.lineno)
            for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def check_reader():
    """What the reader of C++ finds in a text that has all that may confuse it."""
    text = '''
namespace a {
struct S : public T {
  S(int x = f({1}))
      : a_(x), b_{2} {
    go();
  }
  bool operator==(const S& other) const { return '{' == "}"[0]; }
  int table[2] = {1, 2};
};
#define M(x) \\
  {
constexpr auto kRows = std::to_array<Row>({
    {"a", [](int) { return 1; }},
});
template <class T, int n = 3>
auto f(const std::function<void(int)>& g) -> decltype(g(1)) {
  const auto h = [&] {
    return R"x({{)x";
  };
  // }
  if (true) {
  }
}
TEST(A, B) {}
}
'''
    assert functions_of(text) == [("S", 4, 4), ("operator", 8, 1), ("f", 16, 9), ("TEST", 25, 1)], functions_of(text)


def main(source):
    check_reader()
    faults, long_files, long_functions = [], set(), set()
    for path in sorted(path for folder in FOLDERS for path in (source / folder).rglob("*") if path.is_file()):
        name = str(path.relative_to(source))
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # bytes
        if (lines := text.count("\n")) > MOST_FILE_LINES:
            long_files.add(name)
            if name not in LONG_FILES:
                faults.append(f"{name} has {lines} lines, at most {MOST_FILE_LINES} are meant: split it by idea")
        read = {".cpp": functions_of, ".h": functions_of, ".c": functions_of, ".py": functions_of_python}.get(path.suffix)
        for function, line, lines in read(text) if read else ():
            if lines > MOST_FUNCTION_LINES:
                long_functions.add((name, function))
                if (name, function) not in LONG_FUNCTIONS:
                    faults.append(f"{name}:{line}: `{function}` has {lines} lines, at most {MOST_FUNCTION_LINES} are meant")
    faults += [f"LONG_FILES has {name}, which is not long" for name in sorted(set(LONG_FILES) - long_files)]
    faults += [f"LONG_FUNCTIONS has {name} of {file}, which is not long" for file, name in sorted(set(LONG_FUNCTIONS) - long_functions)]
    print(*faults, sep="\n")
    return 1 if faults else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
