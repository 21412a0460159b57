#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""
Tests of tidy.py: a small tree that has no fault, and for each rule what breaks it. An example is written
into the good tree; then exactly the faults that it names must be found. A rule without an example is a
failure.
"""
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # pylint: disable=wrong-import-position

SPDX = "SPDX-License-Identifier: Apache-2.0"
HEAD = f"/* {SPDX} */\n/* A thing. */\n"

GOOD = {
    "Makefile.am": f"# {SPDX}\n",
    "src/util/sources.am": f"# {SPDX}\nlibutil_a_SOURCES = include/util/a.h src/util/a.c src/util/digest.c \\\n\tsrc/util/internal.h\n",
    "src/wire/sources.am": f"# {SPDX}\nlibwire_a_SOURCES = src/wire/b.c\n",
    "tests/unit/tests.am": f"# {SPDX}\nunit_tests += tests/unit/test_a\n",
    "include/util/a.h": HEAD + "#pragma once\n\n/* Answers. */\nint answer(void);\n",
    "src/util/internal.h": HEAD + "#pragma once\n",
    "src/util/a.c": HEAD + '#include "util/a.h"\n\n#include "internal.h"\n'
                    '\n/* strcpy(a, b) and malloc(3) in words */\n'
                    'int\nanswer(void)\n{\n\txfree(conn->free(1));\n\tputs("goto hell; gets(x)");\n\treturn 42;\n}\n',
    "src/util/digest.c": HEAD + "#include <openssl/evp.h>\n",
    "src/wire/b.c": HEAD + '#include "util/a.h"\n\nint b;\n',
    "tests/unit/test_a.c": f"/* {SPDX} */\n" + '#include "util/a.h"\n\nSTART_TEST(test_a)\n{\n\tfree(malloc(1));\n}\nEND_TEST\n',
    "tests/lib/run": f"#!/bin/sh\n# {SPDX}\nset -eu\necho ready\n",
    "tests/lib/part.sh": f"# {SPDX}\n# Sourced.\nset_for_others=1\n",
}


def function(lines):
    return "int\nlong_one(void)\n{\n" + "\tputs(\"\");\n" * (lines - 4) + "\treturn 0;\n}\n"


# rule, file, its text, the lines where it must be found
BAD = [
    ("layers", "src/util/a.c", HEAD + '#include "wire/frame.h"\n', [3]),
    ("layers", "include/util/a.h", HEAD + '#include "broker/model.h"\n', [3]),
    ("layers", "src/wire/b.c", HEAD + '#include "util/internal.h"\n', [3]),
    ("layers", "src/wire/b.c", HEAD + '#include "../util/a.h"\n', [3]),
    ("layers", "src/wire/b.c", HEAD + '#include "internal.h"\n', [3]),
    ("layers", "src/wire/b.c", HEAD + "#  include <event2/event.h>\n", [3]),
    ("layers", "src/util/a.c", HEAD + "#include <pcre2.h>\n#include <openssl/ssl.h>\n", [3, 4]),
    ("layers", "src/wire/b.c", HEAD + "#include <assert.h>\n", [3]),
    ("layers", "include/util/a.h", HEAD + '#include "internal.h"\n', [3]),
    ("layers", "src/cellar/c.c", HEAD, [1]),
    ("file_length", "src/wire/b.c", HEAD + "int b;\n" + "\n/* */\n" * 350, [703]),
    ("function_length", "src/wire/b.c", HEAD + function(71), [4]),
    ("function_length", "tests/lib/long.py", f"# {SPDX}\ndef long_one():\n" + "    print()\n" * 70, [2]),
    ("calls", "src/wire/b.c", HEAD + "int b = sprintf(a, b);\nint c = atoi (a);\n", [3, 4]),
    ("calls", "tests/unit/test_a.c", HEAD + "char *b = strtok(a, b);\n", [3]),
    ("calls", "src/wire/b.c", HEAD + "void *b = malloc(3);\nint c = pthread_mutex_lock(b);\n", [3, 4]),
    ("words", "src/wire/b.c", HEAD + "typedef struct b b;\n", [3]),
    ("words", "src/wire/b.c", HEAD + "int b = ({ goto again; });\n", [3]),
    ("words", "src/wire/b.c", HEAD + "/* TO" "DO: all */\n", [3]),
    ("words", "tests/lib/run", f"#!/bin/sh\n# {SPDX}\nset -eu\n# FIX" "ME\n", [4]),
    ("licence", "src/wire/b.c", "/* A thing. */\n/* that */\n", [1]),
    ("licence", "tests/lib/run", "#!/bin/sh\nset -eu\n", [1]),
    ("licence", "tests/unit/tests.am", "unit_tests += tests/unit/test_a\n", [1]),
    ("opening", "src/wire/b.c", f"/* {SPDX} */\nint b;\n", [2]),
    ("dead_files", "src/wire/c.c", HEAD, [1]),
    ("dead_files", "include/wire/c.def", HEAD, [1]),
    ("dead_files", "tests/unit/test_b.c", HEAD, [1]),
    ("dead_files", "src/wire/sources.am", f"# {SPDX}\nlibwire_a_SOURCES = \\\n\tsrc/wire/b.c \\\n\tsrc/wire/c.c\n", [4]),
    ("format", "src/wire/b.c", HEAD + "int  b;\n", [3]),
    ("shell", "tests/lib/run", f"#!/bin/sh\n# {SPDX}\nset -eu\nrm $1\n", [4]),
    ("shell", "tests/lib/run", f"#!/bin/sh\n# {SPDX}\necho\n", [1]),
    ("shell", "tests/lib/run", f"#!/usr/bin/env bash\n# {SPDX}\nset -eu\n", [1]),
    ("shell", "tests/lib/part.sh", f"# {SPDX}\ncd $1\n", [2, 2]),
    ("top", "notes.txt", "", [1]),
]
TOOLS = {"function_length": "ctags", "format": "clang-format", "shell": "shellcheck"}


class TestTidy(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="pannier-tidy-")

    def tearDown(self):
        shutil.rmtree(self.top)

    def faults(self, change):
        """The faults of the good tree with the files of change written into it."""
        shutil.rmtree(self.top)
        files = {**GOOD, **change}
        for name, text in files.items():
            path = os.path.join(self.top, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            if text.startswith("#!"):
                os.chmod(path, 0o755)
        return tidy.check(tidy.Tree(self.top, sorted(files)))

    def test_good_tree_has_no_fault(self):
        self.assertEqual(self.faults({}), [])

    def test_good_tree_takes_all_its_limits(self):
        self.assertEqual(self.faults({
            "src/wire/b.c": HEAD + function(tidy.FUNCTION_LINES) + "\n/* */" * 312 + "\n",
        }), [])

    def test_every_example_is_found(self):
        for rule, name, text, lines in BAD:
            if rule in TOOLS and not shutil.which(TOOLS[rule]):
                print(f"{rule}: not tested without {TOOLS[rule]}")
                continue
            with self.subTest(rule=rule, file=name, text=text[-60:]):
                found = [(f[0], f[1]) for f in self.faults({name: text}) if f[2] == rule]
                self.assertEqual(found, [(name, line) for line in lines])

    def test_every_rule_has_an_example(self):
        self.assertEqual(set(tidy.RULES), {example[0] for example in BAD})

    def test_every_banned_call_is_found(self):
        for call in tidy.BANNED:
            with self.subTest(call=call):
                self.assertIn(f"{call}() is banned",
                              [f[3] for f in self.faults({"src/wire/b.c": HEAD + f"int b = {call}(c);\n"})])

    def test_layers_hold_no_cycle(self):
        layers, _ = tidy.read_layers()
        done = set()
        while len(done) < len(layers):
            free = {f for f, below in layers.items() if f not in done and below <= done}
            self.assertTrue(free, f"a cycle among {set(layers) - done}")
            done |= free


if __name__ == "__main__":
    unittest.main()
