"""The command line: `noeira COMMAND …`, or `python -m noeira COMMAND …`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from noeira.commands import COMMANDS
from noeira.commands.support.parser import Parser, unexpected
from noeira.commands.support.usage import UsageError, no_such
from noeira.errors import NoeiraError

EPILOG = """\
A network is named by its file or module: net.py:MLP, package.module:MLP.
`noeira help COMMAND` has the options and an example.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code: 1 for a failure or a difference, 2 for wrong usage."""
    words = asked(list(sys.argv[1:] if arguments is None else arguments))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        args = parsed(words)
        command = importlib.import_module(f"noeira.commands.{args.command}")
        try:
            look_at_settings(args.command)
            code = command.run(args)
            sys.stdout.flush()
            return code
        except (NoeiraError, MemoryError) as error:
            if args.traceback:
                raise
            return failed(error if isinstance(error, NoeiraError) else lacking(error))
    except OSError as error:
        if error.filename is not None:
            raise
        return unwritable(error)
    except KeyboardInterrupt:
        return 1


def asked(words: list[str]) -> list[str]:
    """The words; `help explain` is `explain --help`."""
    if words[:1] != ["help"]:
        return words
    return [*words[1:2], "--help"]


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; argparse ends the process with 2 if they are wrong."""
    top, parser = parsers_for(words)
    try:
        if not words:
            top.print_help()
            top.exit()
        args, rest = top.parse_known_args(words)
    except SystemExit:
        # A help that cannot be written is noticed here, not after the last line of Python.
        sys.stdout.flush()
        raise
    # Before Python 3.13, argparse takes an optional NAME only directly behind what comes before it.
    if len(rest) == 1 and not rest[0].startswith("-") and vars(args).get("name", "") is None:
        args.name = rest.pop()
    if rest:
        parser.error(unexpected(parser, rest))
    return args


def look_at_settings(command: str) -> None:
    """Say on stderr which variables are no settings; `doctor` says so itself. Raises NoeiraError
    for a setting that cannot be read.
    """
    from noeira import config

    if command == "doctor":
        return
    for sentence in config.unknown_settings():
        print(f"noeira: {sentence}", file=sys.stderr)
    config.check_settings()


def unwritable(error: OSError) -> int:
    """The exit code when standard output takes no more: 0 if its reader has read enough."""
    # What is still in the buffer must not complain either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"noeira: the output cannot be written: {error.strerror or error}", file=sys.stderr)
    return 1


def lacking(error: MemoryError) -> NoeiraError:
    """The error for memory that Python or NumPy did not get."""
    from noeira.runtime.out_of_memory import lacking_host_memory

    return lacking_host_memory(error)


def failed(error: NoeiraError) -> int:
    """Print the message on stderr; 2 if the command line itself is wrong, else 1."""
    from noeira.commands.support.terminal import paint

    sys.stdout.flush()
    print(f"{paint('noeira:', 'red', sys.stderr)} {error}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def parsers_for(words: Sequence[str]) -> tuple[Parser, Parser]:
    """The parser, and that of the command called, which alone is imported for its arguments; the
    first one again if there is none.
    """
    import noeira

    found = top = Parser(
        prog="noeira",
        description="A deep-learning compiler you can read.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"noeira {noeira.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in words if not word.startswith("-")), "")
    if chosen and chosen not in COMMANDS:
        top.error(no_such("command", chosen, COMMANDS))
    for name, command in COMMANDS.items():
        parser = commands.add_parser(
            name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.\n{command.note}".rstrip(),
            epilog=f"example:\n  {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            found = parser
            importlib.import_module(f"noeira.commands.{name}").add_arguments(parser)
            parser.add_argument(
                "--traceback", action="store_true", help="show where an error was raised"
            )
    return top, found


if __name__ == "__main__":
    sys.exit(main())
