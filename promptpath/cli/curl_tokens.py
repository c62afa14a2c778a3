"""Splits a pasted curl command as a POSIX shell would, without running anything.

`shlex` knows neither $'...' (which browsers' "Copy as cURL" writes) nor variables (which vendors'
documentation writes), and would take `cmd | jq` as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from promptpath.errors import UsageError

_ANSI_C = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}
_ANSI_C_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def split_command(text: str, environ: Mapping[str, str]) -> list[str]:
    """The words of the command; $NAME and ${NAME} come from `environ`.

    Raises UsageError for an unclosed quote, a shell operator, a substitution or an unset variable.
    """
    return _Splitter(text, environ).words()


class _Splitter:
    """One pass over the text; `_word` is None between words."""

    def __init__(self, text: str, environ: Mapping[str, str]) -> None:
        self._text = text
        self._environ = environ
        self._at = 0
        self._word: str | None = None

    def words(self) -> list[str]:
        words: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace():
                self._at += 1
                words += [] if self._word is None else [self._word]
                self._word = None
            else:
                self._take(char)
        return words if self._word is None else [*words, self._word]

    def _take(self, char: str) -> None:
        if char == "'":
            self._add(self._until("'", self._at + 1))
        elif self._text.startswith("$'", self._at):
            self._ansi_c()
        elif char == '"':
            self._double_quoted()
        elif char == "\\":
            self._backslash()
        elif char in "$`":
            self._variable()
        elif char in "|;<>()" or (char == "&" and self._word is None):
            raise UsageError(
                f"a shell operator in the curl command: {char}",
                expected="the curl command alone",
                hint="quote it, or leave out what comes after the command",
            )
        else:
            self._add(char)
            self._at += 1

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _until(self, quote: str, start: int) -> str:
        end = self._text.find(quote, start)
        if end < 0:
            raise UsageError("an unclosed quote in the curl command", expected=f"a closing {quote}")
        self._at = end + 1
        return self._text[start:end]

    def _ansi_c(self) -> None:
        match = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self._text, self._at)
        if match is None:
            raise UsageError("an unclosed quote in the curl command", expected="a closing '")
        self._at = match.end()
        self._add(_ANSI_C_ESCAPE.sub(_ansi_c_char, match[1]))

    def _double_quoted(self) -> None:
        self._at += 1
        self._add("")
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in set('$`"\\\n'):
                self._backslash()
            elif char in "$`":
                self._variable()
            else:
                self._add(char)
                self._at += 1
        raise UsageError("an unclosed quote in the curl command", expected='a closing "')

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if following == "\r" and self._text[self._at : self._at + 1] == "\n":
            self._at += 1  # a line continued in a file with Windows line ends
        elif following != "\n":
            self._add(following)

    def _variable(self) -> None:
        match = _VARIABLE.match(self._text, self._at)
        if match is None:
            if self._text[self._at] == "$" and self._text[self._at + 1 : self._at + 2] != "(":
                self._add("$")
                self._at += 1
                return
            raise UsageError(
                "a command substitution in the curl command",
                expected="words and variables only: nothing is run",
            )
        name = match[1] or match[2]
        if not self._environ.get(name):
            raise UsageError(
                f"the curl command uses ${name}, which is not set",
                hint=f"export {name}=... and run it again",
            )
        self._add(self._environ[name])
        self._at = match.end()


def _ansi_c_char(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        code = int(hexadecimal, 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if match[4]:
        return chr(int(match[4], 8) & 0xFF)
    return _ANSI_C.get(match[5], match[5])
