# SPDX-License-Identifier: MIT
"""Parses command lines as docopt does, which gpu-tracker uses, with the same errors."""
from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, NoReturn, Optional, Tuple, Union

Value = Union[None, bool, str, List[str]]


@dataclass(frozen=True)
class Option:
    """An option; long or short may be "". many: it may be given several times, and its value is a
    list."""

    long: str
    short: str = ""
    takes_value: bool = True
    many: bool = False

    @property
    def name(self) -> str:
        return self.long or self.short


@dataclass(frozen=True)
class Form:
    """One usage of the command: its words, the needed options, and the other allowed ones."""

    words: Tuple[str, ...]
    needed: FrozenSet[str]
    allowed: FrozenSet[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Command:
    """help: the whole text; a wrong command line prints its "Usage:" paragraph. version: "" if the
    command has no --version."""

    help: str
    options: Tuple[Option, ...]
    forms: Tuple[Form, ...]
    version: str = ""

    def parse(self, argv: List[str]) -> Tuple[Tuple[str, ...], Dict[str, Value]]:
        """Returns the words, and the values of all options by (long) name: None or False if not
        given. May print and exit."""
        words, given = _Line(self, argv).read()
        if any(option.name == "--help" for option, _ in given):
            print(self.help.strip("\n"))
            sys.exit()
        if self.version and any(option.name == "--version" for option, _ in given):
            print(self.version)
            sys.exit()
        for form in self.forms:
            if form.words == words and self._fits(form, [option for option, _ in given]):
                return words, self._values(given)
        self.refuse()

    def _fits(self, form: Form, given: List[Option]) -> bool:
        names = [option.name for option in given]
        once = all(option.many or names.count(option.name) == 1 for option in given)
        return once and form.needed <= set(names) <= form.needed | form.allowed

    def _values(self, given: List[Tuple[Option, Optional[str]]]) -> Dict[str, Value]:
        values: Dict[str, Value] = {o.name: [] if o.many else None if o.takes_value else False for o in self.options}
        for option, value in given:
            known = values[option.name]
            if isinstance(known, list):
                known.append(value or "")
            else:
                values[option.name] = value if option.takes_value else True
        return values

    def refuse(self, why: str = "") -> NoReturn:
        """Prints why and the usage, and exits with 1."""
        usage = self.help[self.help.index("Usage:"):].split("\n\n")[0]
        sys.exit(f"{why}\n{usage}".strip())


class _Line:
    """Splits a command line into words and options, in order."""

    def __init__(self, command: Command, argv: List[str]) -> None:
        self._command = command
        self._left = list(argv)
        self._given: List[Tuple[Option, Optional[str]]] = []

    def read(self) -> Tuple[Tuple[str, ...], List[Tuple[Option, Optional[str]]]]:
        words: List[str] = []
        while self._left:
            argument = self._left.pop(0)
            if argument == "--":
                words += [argument, *self._left]
                break
            if argument.startswith("--"):
                self._long(argument)
            elif argument.startswith("-") and argument != "-":
                self._shorts(argument[1:])
            else:
                words.append(argument)
        return tuple(words), self._given

    def _long(self, argument: str) -> None:
        name, equals, text = argument.partition("=")
        value = text if equals else None
        fitting = [o for o in self._command.options if o.long == name] or [
            o for o in self._command.options if o.long.startswith(name)]
        if len(fitting) > 1:
            self._command.refuse(f"{name} is not a unique prefix: {', '.join(o.long for o in fitting)}?")
        if not fitting:
            self._given.append((Option(name, takes_value=False), None))  # matches no form
            return
        if not fitting[0].takes_value and value is not None:
            self._command.refuse(f"{fitting[0].long} must not have an argument")
        if fitting[0].takes_value and value is None:
            value = self._next(fitting[0].long)
        self._given.append((fitting[0], value))

    def _shorts(self, letters: str) -> None:
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            unknown = Option("", name, takes_value=False)  # matches no form
            option = next((o for o in self._command.options if o.short == name), unknown)
            value = None
            if option.takes_value:
                value, letters = letters or self._next(name), ""
            self._given.append((option, value))

    def _next(self, name: str) -> str:
        if not self._left or self._left[0] == "--":
            self._command.refuse(f"{name} requires argument")
        return self._left.pop(0)
