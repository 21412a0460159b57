# SPDX-License-Identifier: Apache-2.0
"""The text of a transcript: cases, lines, blocks and the literals in them.

README.md says how a transcript is written.  This file only reads; steps.py runs it.
"""

import re

import wire


class ScriptError(Exception):
    """A transcript that cannot be read."""


class Pattern:
    """~"regex", optionally followed by ->$name to keep what matched."""

    def __init__(self, regex, capture):
        self.regex, self.capture = regex, capture


class Subset:
    """~{...}: a table that has at least these entries."""

    def __init__(self, entries):
        self.entries = entries


class Exactly(Subset):
    """all{...}: a table that has exactly these entries, in any order."""


class Unset:
    """$name of a variable without a value: an expectation stores what arrives."""

    def __init__(self, name):
        self.name = name


class Line:
    """One statement with its block."""

    def __init__(self, number, text):
        self.number, self.text, self.block = number, text, []
        self.verb, _, self.rest = text.partition(" ")


class Case:
    """A part of a transcript that runs on its own."""

    def __init__(self, title, lines):
        self.tags = re.match(r"(?:\[\w+\] )*", title).group()
        self.title, self.lines = title[len(self.tags):], lines
        self.slow, self.oracle_only = "[slow]" in self.tags, "[oracle]" in self.tags


def strip_comment(text):
    out = re.match(r'(?:[^"#]|"(?:[^"\\]|\\.)*")*', text).group()
    return out.rstrip()


def read_lines(text):
    """(number, depth, statement) of each statement; a trailing backslash joins lines."""
    joined, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        start = start if joined else number
        line = strip_comment(raw)
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        line, joined = joined + line, ""
        if line.strip():
            depth = len(line) - len(line.lstrip("\t"))
            yield start, depth, line.strip()


def read_cases(path):
    """The cases of one file; the lines before the first == run at the start of each."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    preamble, cases, stack = [], [], None
    stack = [preamble]
    for number, depth, statement in read_lines(text):
        if statement.startswith("== "):
            cases.append(Case(statement[3:], []))
            stack = [cases[-1].lines]
            continue
        if depth >= len(stack):
            raise ScriptError(f"{path}:{number}: indented too far")
        del stack[depth + 1:]
        line = Line(number, statement)
        stack[depth].append(line)
        stack.append(line.block)
    for case in cases:
        case.lines[:0] = preamble
    return cases


def walk(lines):
    for line in lines:
        yield line
        yield from walk(line.block)


TOKEN = re.compile(r'''\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*") | (?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])) |
    (?P<var>\$\w+) | (?P<word>[A-Za-z_][\w.\-]*) | (?P<mark>->|[{}\[\]:,=~*/]) )''', re.X)
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", '"': b'"'}
LETTERS = set("tbBsUuIilLfdDSAFVxT")


class Parser:
    """Literals of one line.  values: the variables that strings and $name refer to."""

    def __init__(self, text, values):
        self.text, self.at, self.values = text, 0, values

    def peek(self):
        m = TOKEN.match(self.text, self.at)
        return (m.lastgroup, m.group(m.lastgroup)) if m else ("end", self.text[self.at:].strip())

    def take(self):
        token = self.peek()
        if token[0] == "end":
            raise ScriptError(f"cannot read {token[1]!r} in: {self.text}")
        self.at = TOKEN.match(self.text, self.at).end()
        return token

    def accept(self, mark):
        if self.peek() == ("mark", mark):
            self.take()
            return True
        return False

    def need(self, mark):
        if not self.accept(mark):
            raise ScriptError(f"{mark!r} wanted before {self.text[self.at:]!r}")

    def at_end(self):
        return not self.text[self.at:].strip()

    def words(self, pattern):
        """Take the leading words that match."""
        out = []
        while re.fullmatch(pattern, self.peek()[1]):
            out.append(self.take()[1])
        return out

    def unescape(self, token, as_regex=False):
        out, body = b"", token[1:-1]
        for m in re.finditer(r"\\x([0-9A-Fa-f]{2})|\\(.)|\$\{(\w+)\}|([^\\$]+|\$)", body, re.S):
            if as_regex and (m[1] or m[2]):
                out += m[0].replace('\\"', '"').encode()
            elif m[1]:
                out += bytes([int(m[1], 16)])
            elif m[2]:
                out += ESCAPES[m[2]]
            elif m[3]:
                value = self.variable(m[3])
                value = value if isinstance(value, bytes) else str(value).encode()
                out += re.escape(value) if as_regex else value
            else:
                out += m[4].encode()
        return out

    def variable(self, name):
        if name not in self.values:
            raise ScriptError(f"${name} has no value")
        return self.values[name]

    def arguments(self):
        """name=value ...; a name alone is a bit that is set."""
        out = {}
        while not self.at_end():
            kind, name = self.take()
            if kind != "word":
                raise ScriptError(f"a name wanted, not {name!r} in: {self.text}")
            if not self.accept("="):
                out[name] = 1
            elif name == "props":
                out[name] = self.props()
            else:
                out[name] = self.value()[1]
        return out

    def props(self):
        subset = self.accept("~")
        self.need("{")
        out = {}
        while not self.accept("}"):
            name = self.take()[1]
            self.need("=")
            out[name] = self.value()[1]
        return Subset(out) if subset else out

    def value(self):
        """(letter, value) of one literal."""
        if self.accept("~"):
            return self.pattern()
        kind, text = self.take()
        if kind == "string":
            return "S", self.unescape(text)
        if kind == "number":
            return self.number(text)
        if kind == "var":
            return self.var(text[1:])
        if kind == "mark" and text in "{[":
            self.at -= 1
            return ("F", self.table()) if text == "{" else ("A", self.array())
        if kind == "word":
            return self.word(text)
        raise ScriptError(f"a value wanted, not {text!r} in: {self.text}")

    def pattern(self):
        if self.peek() == ("mark", "{"):
            return "F", Subset(self.table())
        regex = self.unescape(self.take()[1], as_regex=True)
        capture = self.take()[1][1:] if self.accept("->") else None
        return "S", Pattern(regex, capture)

    def number(self, text):
        if self.accept("*"):
            return "S", int(text) * self.value()[1]
        if "." in text or "e" in text:
            return "d", float(text)
        return "I", int(text)

    def var(self, name):
        value = self.values.get(name, Unset(name))
        if self.accept("*"):
            return "S", value * self.value()[1]
        return self.values.get(f"type of {name}", "I" if isinstance(value, int) else "S"), value

    def word(self, text):
        if text in ("true", "false"):
            return "t", text == "true"
        if text == "x" and self.peek()[0] == "string":
            return "x", bytes.fromhex(self.take()[1][1:-1])
        if text == "V":
            return "V", None
        if text == "all" and self.peek() == ("mark", "{"):
            return "F", Exactly(self.table())
        if self.accept(":"):
            return self.typed(text)
        raise ScriptError(f"{text!r} is no value in: {self.text}")

    def typed(self, letter):
        if letter == "D":
            scale = int(self.take()[1])
            self.need("/")
            return "D", (scale, int(self.take()[1]))
        value = self.value()[1]
        return letter, float(value) if letter in "fd" else value

    def table(self):
        self.need("{")
        out = []
        while not self.accept("}"):
            kind, key = self.take()
            key = self.unescape(key) if kind == "string" else key.encode()
            self.need("=")
            out.append((key, *self.value()))
            self.accept(",")
        return out

    def array(self):
        self.need("[")
        out = []
        while not self.accept("]"):
            out.append(self.value())
            self.accept(",")
        return out


def match(want, got, values):
    """None when got is what want says, else how it differs.  Patterns and $names store values."""
    if isinstance(want, Unset):
        values[want.name] = got
        return None
    if isinstance(want, Pattern):
        text = str(got).encode() if isinstance(got, int) else got
        if not re.fullmatch(want.regex, text, re.S):
            return "does not match"
        if want.capture:
            values[want.capture] = got
        return None
    if isinstance(want, Exactly) and len(want.entries) != len(got):
        return f"has {len(got)} entries"
    if isinstance(want, Subset):
        return match_subset(want.entries, got, values)
    if isinstance(want, list):
        return match_list(want, got, values)
    if isinstance(want, dict) and want.keys() == got.keys():
        return match_subset(want, got, values)
    return None if want == got else "differs"


def match_list(want, got, values):
    """Tables and arrays: names and types are as they are, values may be patterns."""
    if [e[:-1] for e in want] != [e[:-1] for e in got]:
        return "has other entries"
    return next(filter(None, (match(w[-1], g[-1], values) for w, g in zip(want, got))), None)


def match_subset(entries, got, values):
    if isinstance(entries, dict):
        missing = [k for k, v in entries.items() if k not in got or match(v, got[k], values)]
        return f"has another {missing[0]}" if missing else None
    for key, letter, value in entries:
        found = [e for e in got if e[0] == key]
        if not found:
            return f"has no {key.decode()}"
        if found[0][1] != letter or match(value, found[0][2], values):
            return f"has another {key.decode()}"
    return None


def full_text(code, text):
    """A reply text as the client sees it: with the name of its code before it."""
    prefix = wire.REPLIES[code].encode() + b" - "
    if isinstance(text, Pattern):
        return Pattern(re.escape(prefix) + text.regex, text.capture)
    return prefix + text


def numbers(text):
    """The numbers of A..B; none when the text is something else."""
    m = re.fullmatch(r" *(\d+)\.\.(\d+)", text)
    return range(int(m[1]), int(m[2]) + 1) if m else []
