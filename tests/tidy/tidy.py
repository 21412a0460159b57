#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""
Checks the house: what its style asks for and a machine can see. Prints one line for each fault,

    file:line: rule: what is wrong

then the count, and fails when there is one. Each rule is a function named rule_x below that yields its
faults; test_tidy.py holds a bad example for each. Needs ctags for the lengths of functions, clang-format
and shellcheck: where one is missing its rule says so and is left out, with --strict it is a fault.

usage: tidy.py [--strict] [FILE...]     with files named: only their faults are printed
"""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

FILE_LINES = 700
FUNCTION_LINES = 70
TOP_LEVEL = """configure.ac Makefile.am src include etc tests man docs README.md LICENSE quickstart
    selftest""".split()
CLANG_FORMAT_VERSION = "14"

# Calls that nobody makes, and calls that only the named file makes. Tests are free in the second kind.
BANNED = "strcpy strcat stpcpy sprintf vsprintf gets strtok atoi atol atoll alloca setjmp longjmp".split()
OWNED = {
    r"malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf": "src/util/mem.c",
    r"pthread_(?:mutex|cond|rwlock|spin|barrier)_\w+": "src/util/mailbox.c",
}


class Tree:
    """The files of the project and their text, read once."""

    def __init__(self, top, files):
        self.top = top
        self.files = files
        self.texts = {}
        self.missing_tools = []

    def text(self, name):
        if name not in self.texts:
            with open(os.path.join(self.top, name), encoding="utf-8", errors="replace") as file:
                self.texts[name] = file.read()
        return self.texts[name]

    def lines(self, name):
        return self.text(name).split("\n")

    def matching(self, folders, suffixes):
        return [f for f in self.files if f.startswith(folders) and f.endswith(suffixes)]

    def c_files(self):
        return self.matching(("src/", "include/", "tests/"), (".c", ".h"))

    def product(self):
        return self.matching(("src/", "include/"), (".c", ".h", ".def"))

    def scripts(self):
        """Shell scripts and Python programs, by their first line or their name."""
        found = []
        for name in self.files:
            if name.endswith((".py", ".sh")):
                found.append(name)
            elif os.access(os.path.join(self.top, name), os.X_OK) and self.text(name).startswith("#!"):
                found.append(name)
        return found

    def run(self, tool, arguments, files, package):
        """The output of a tool run on the files, or None when it is not installed."""
        if not files:
            return ""
        if not shutil.which(tool):
            self.missing_tools.append(f"{tool} (apt-get install {package})")
            return None
        done = subprocess.run([tool, *arguments, *files], cwd=self.top, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"tidy: {tool} failed:\n{done.stdout}")
        return done.stdout


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def code_only(text):
    """The text with comments, strings and characters blanked, positions kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def read_layers(path=os.path.join(HERE, "layers")):
    """Two tables: folder -> folders it may include; start of a <header> -> folders or files that may."""
    layers, foreign = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                table = foreign if words[0].startswith("<") else layers
                table[words[0]] = set(words[1:]) - {"-"}
    return layers, foreign


def folder_of(name):
    """src/util/map.c -> util, src/main.c -> main"""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else os.path.splitext(parts[1])[0]


def layer_fault(tree, name, bracket, header):
    """What is wrong with this #include in the file, or None."""
    layers, foreign = read_layers()
    folder = folder_of(name)
    if bracket == "<":
        for start, owners in foreign.items():
            if f"<{header}>".startswith(start) and not owners & {folder, name[4:]}:
                return f"<{header}> stays inside {' '.join(sorted(owners))}"
        return None
    if name.startswith("src/") and f"{os.path.dirname(name)}/{header}" in tree.files:
        return None
    owner = header.split("/")[0]
    if owner not in layers or f"src/{header}" in tree.files:
        return f'"{header}" is neither private to src/{folder} nor of the form "folder/header.h"'
    if owner not in layers[folder] | {folder}:
        return f'{folder} may not include "{header}"'
    return None


def rule_layers(tree):
    """Includes go down the table of layers; what lies in src/<folder> is its folder's own."""
    layers, _ = read_layers()
    for name in tree.product():
        if folder_of(name) not in layers:
            yield name, 1, f"the folder {folder_of(name)} is not in tests/tidy/layers"
            continue
        code = tree.text(name)
        for match in re.finditer(r'^\s*#\s*include\s*([<"])([^">\n]+)[">]', code, re.M):
            fault = layer_fault(tree, name, *match.groups())
            if fault:
                yield name, line_of(code, match.end()), fault


def rule_file_length(tree):
    for name in set(tree.c_files() + tree.product() + tree.scripts() + tree.matching("tests/", ".js")):
        count = tree.text(name).count("\n")
        if count > FILE_LINES:
            yield name, count, f"{count} lines, {FILE_LINES} at most"


def rule_function_length(tree):
    for language, files in (("C", tree.c_files()), ("Python", tree.matching("tests/", ".py"))):
        kinds = "f" if language == "C" else "fm"
        options = ["-x", "-u", f"--language-force={language}", f"--kinds-{language}={kinds}"]
        out = tree.run("ctags", [*options, "--_xformat=%F\t%n\t%{end}\t%N"], files, "universal-ctags")
        for row in (out or "").splitlines():
            fields = row.split("\t")
            if len(fields) == 4 and fields[2].isdigit():
                count = int(fields[2]) - int(fields[1]) + 1
                if count > FUNCTION_LINES:
                    yield fields[0], int(fields[1]), f"{fields[3]} has {count} lines, {FUNCTION_LINES} at most"


def rule_calls(tree):
    """Banned calls, and calls that belong to one file."""
    for name in tree.c_files() + tree.matching(("src/", "include/"), ".def"):
        code = code_only(tree.text(name))
        for match in re.finditer(r"\b(" + "|".join(BANNED) + r")\s*\(", code):
            yield name, line_of(code, match.start()), f"{match.group(1)}() is banned"
        if name.startswith("tests/"):
            continue
        for calls, owner in OWNED.items():
            if name == owner:
                continue
            for match in re.finditer(r"(?<![\w.>])(" + calls + r")\s*\(", code):
                yield name, line_of(code, match.start()), f"{match.group(1)}() is called by {owner} only"


def rule_words(tree):
    """No typedef of a struct, no goto but to out, nothing left for later."""
    for name in tree.c_files():
        code = code_only(tree.text(name))
        for match in re.finditer(r"\btypedef\s+(struct|union|enum)\b", code):
            yield name, line_of(code, match.start()), f"{match.group(1)} is written, not typedef'd"
        for match in re.finditer(r"\bgoto\s+(?!out\b)(\w+)", code):
            yield name, line_of(code, match.start()), f"goto {match.group(1)}: only to out"
    left_over = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    for name in tree.c_files() + tree.scripts() + tree.matching(("src/", "include/"), ".def"):
        for number, line in enumerate(tree.lines(name), 1):
            match = left_over.search(line)
            if match:
                yield name, number, f"{match.group(1)} left behind"


def rule_licence(tree):
    """The SPDX line: the first of a C file, among the first three of the others."""
    spdx = "SPDX-License-Identifier: Apache-2.0"
    for name in tree.c_files() + tree.matching(("src/", "include/"), ".def"):
        if tree.lines(name)[0] != f"/* {spdx} */":
            yield name, 1, f"the first line is not /* {spdx} */"
    for name in set(tree.scripts() + [f for f in tree.files if f.endswith((".am", ".ac", ".js"))]):
        if not any(spdx in line for line in tree.lines(name)[:3]):
            yield name, 1, f"no line {spdx} among the first three"


def rule_opening(tree):
    """Each file of the product opens with a paragraph."""
    for name in tree.product():
        lines = tree.lines(name)
        rest = "".join(lines[1:3]).lstrip()
        if not rest.startswith("/*"):
            yield name, 2, "does not open with a paragraph: what it models, invariants, thread"


def rule_dead_files(tree):
    """What is compiled is listed in a fragment, and what is listed exists."""
    fragments = [f for f in tree.files if f.endswith(".am")]
    listed = {}
    for fragment in fragments:
        for number, line in enumerate(tree.lines(fragment), 1):
            for word in re.findall(r"[\w./-]+", line.split("#")[0]):
                listed.setdefault(word, (fragment, number))
    for name in tree.product():
        if name not in listed:
            yield name, 1, "dead file: listed in no sources.am"
    for name in tree.matching(("tests/unit/", "tests/fuzz/", "tests/client/"), ".c"):
        if name not in listed and name[:-2] not in listed:
            yield name, 1, "dead file: listed in no tests.am"
    for word, (fragment, number) in listed.items():
        if re.fullmatch(r"(src|include)/.*\.(c|h|def)", word) and word not in tree.files:
            yield fragment, number, f"{word} does not exist"


def rule_format(tree):
    files = tree.c_files()
    package = "clang-format"
    version = tree.run("clang-format", ["--version"], files[:1], package)
    if version is not None and f"version {CLANG_FORMAT_VERSION}." not in version:
        tree.missing_tools.append(f"version {CLANG_FORMAT_VERSION} of clang-format")
    elif version:
        style = os.path.join(HERE, "..", "..", ".clang-format")
        out = tree.run("clang-format", ["--dry-run", "-Werror", f"--style=file:{style}"], files, package)
        first = {}
        for name, number in re.findall(r"^([^\s:]+):(\d+):\d+: error: code should be", out, re.M):
            first.setdefault(name, int(number))
        for name, number in first.items():
            yield name, number, "clang-format would change it (clang-format -i)"


def rule_shell(tree):
    """Shell scripts stop at the first error, and shellcheck has no remark."""
    programs, parts = [], []
    for name in tree.scripts():
        first = tree.lines(name)[0]
        if re.match(r"#!.*\b(ba)?sh\b", first):
            programs.append(name)
            wanted = "set -euo pipefail" if "bash" in first else "set -eu"
            if wanted not in tree.lines(name):
                yield name, 1, f"no line {wanted}"
        elif name.endswith(".sh"):
            parts.append(name)
    # Calls by way of a variable are not seen by it (SC2317, SC2119); a part that others source sets
    # variables for them (SC2034).
    common = ["-f", "gcc", "-x", "-P", "SCRIPTDIR", "-e", "SC2317,SC2119,SC2120"]
    for files, options in ((programs, []), (parts, ["-s", "bash", "-e", "SC2034"])):
        out = tree.run("shellcheck", [*common, *options], files, "shellcheck")
        for name, number, text in re.findall(r"^([^:\n]+):(\d+):\d+: (.*)$", out or "", re.M):
            yield name, int(number), text


def rule_top(tree):
    for name in tree.files:
        first = name.split("/")[0]
        if first not in TOP_LEVEL and not first.startswith("."):
            yield name, 1, f"{first} has no place at the top level"


RULES = {name[5:]: rule for name, rule in list(globals().items()) if name.startswith("rule_")}


def check(tree):
    """All faults, as (file, line, rule, text), in order."""
    faults = set()
    for name, rule in RULES.items():
        for file, line, text in rule(tree):
            faults.add((file, line, name, text))
    return sorted(faults)


def main(arguments):
    strict = "--strict" in arguments
    wanted = [os.path.normpath(a) for a in arguments if a != "--strict"]
    top = os.path.dirname(os.path.dirname(HERE))
    listed = subprocess.run([os.path.join(top, "tests", "lib", "files")], stdout=subprocess.PIPE,
                            text=True, check=True)
    tree = Tree(top, listed.stdout.split("\n")[:-1])
    faults = [f for f in check(tree) if not wanted or f[0] in wanted]
    for file, line, rule, text in faults:
        print(f"{file}:{line}: {rule}: {text}")
    for tool in sorted(set(tree.missing_tools)):
        print(f"tidy: not checked without {tool}")
    bad = len(faults) + (len(set(tree.missing_tools)) if strict else 0)
    print(f"tidy: {len(tree.files)} files, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
