"""The command line: ``jaxunc COMMAND``, or ``python -m jaxunc COMMAND``."""

import argparse
import gc
import itertools
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import jax

from jaxunc import __version__, use_compilation_cache
from jaxunc._checks import escape_invisible
from jaxunc.commands import COMMANDS, in_options, unknown

# Modules live as long as the process: collecting garbage among them took a fifth of a short run.
gc.freeze()
_CLI_PACKAGES = {"jinja2", "matplotlib", "pandas", "pyarrow", "rich"}
_APPLICATIONS = {"compare": "jaxunc.compare._command"}
_ABOUT = "What the leaf counts of a forest of decision trees can say."


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error as one line on standard error, and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Report a fault of the arguments, with a pointer to the help, and exit."""
        self.fail(f"{message}. See: {self.prog} --help")

    def fail(self, message: str) -> NoReturn:
        """Report any fault, and exit."""
        self.exit(2, f"jaxunc: error: {escape_invisible(message)}\n")


class _CommandParser(_Parser):
    """A parser of the arguments of one command; the command's module is imported when the parser is used."""

    def __init__(self, *, command: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._command = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the command's arguments to the parser, and parse ``args``; end the program at an unknown option."""
        command = _command_module(self._command)
        self.description = command.DETAILS
        command.add_arguments(self)
        options = [name for name in self._option_string_actions if name.startswith("--") and name != "--help"]
        for argument in itertools.takewhile(lambda argument: argument != "--", args or ()):
            name = argument.partition("=")[0]
            is_known = any(option.startswith(name) for option in ("--help", *options))  # options may be abbreviated
            if name.startswith("--") and not is_known:
                # Before missing options are reported: a mistyped one is missing, too.
                self.error(f"the option {unknown(name, options)}")
        parsed, further = super().parse_known_args(args, namespace)
        if further:  # the caller would refuse them, and name the help of all commands
            self.error(f"unrecognized arguments: {' '.join(further)}")
        return parsed, further


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line on ``argv`` (default: the arguments of the process).

    Raises
    ------
    SystemExit
        With code 2 and one line on standard error if an argument or the data are at fault, a package or a device is
        absent, or memory does not suffice. With code 130 if the run is interrupted. With code 0 after ``--help`` and
        ``--version``.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names of classes and files may have letters that the terminal's encoding lacks.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="backslashreplace")
    parser = _parser()
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        parser.error(f"the command {unknown(arguments[0], COMMANDS)}")
    with _name_absent_packages(parser):
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return
        command = _command_module(args.command)
        options = {f"--{name.replace('_', '-')}" for name in vars(args)}
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: _show(f"warning: {in_options(str(message), options)}")
                # A damaged entry is compiled again; it may be one that another process is writing.
                warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
                if use_compilation_cache() is not None:
                    _silence_loading()
                command.run(args)
        except (ValueError, TypeError, OSError) as error:
            parser.fail(in_options(_message_of(error), options))
        except (RuntimeError, AssertionError) as error:
            if (platforms := _absent_platform()) is None:
                raise
            parser.fail(
                f"JAX finds no device of JAX_PLATFORMS={platforms}{f' ({error})' if str(error) else ''}. Install JAX "
                "for it, or unset that. See docs/how_to/accelerators.md"
            )
        except MemoryError:
            parser.fail("there is not enough memory for this; take fewer trees or larger leaves")
        except KeyboardInterrupt:
            parser.exit(130, f"jaxunc: interrupted; {command.interrupted(args)}\n")


def _command_module(name: str) -> Any:
    """Return a command's module, with ``DETAILS``, ``add_arguments(parser)``, ``run(args)``, ``interrupted(args)``."""
    # Imported only now: each command needs packages that other commands do not.
    return import_module(_APPLICATIONS.get(name, f"jaxunc.commands._{name}"))


@contextmanager
def _name_absent_packages(parser: _Parser) -> Iterator[None]:
    """Return a context in which an ImportError for onnx, or a package of the extra ``cli``, ends the program.

    A line names the package. Any other ImportError is a bug, and is raised.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package == "onnx":
            parser.fail(str(error))
        if package not in _CLI_PACKAGES:
            raise
        parser.fail(f'this needs the package {package}, which is not installed. Run: pip install "jaxunc[cli]"')


def _absent_platform() -> str | None:
    """Return the environment's JAX_PLATFORMS if JAX finds no device of it; None if it finds one, or that is not set."""
    platforms = os.environ.get("JAX_PLATFORMS")
    try:
        jax.devices()
    except (RuntimeError, AssertionError):  # for absent platforms, and for unknown ones
        return platforms
    return None


def _message_of(error: Exception) -> str:
    """Return an error's message, or its class's name if it has none; for a file's error its path and what failed."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _silence_loading() -> None:
    """Silence XLA's messages about compiled programs that it loads, unless the user has set a level of logging.

    On some processors XLA prints two lines of error for each program that it loads, about preferences that it set
    itself. JAX's own warnings and errors are still shown.
    """
    # JAX sets TF_CPP_MIN_LOG_LEVEL to 1 if the user has not set it.
    if "JAX_LOGGING_LEVEL" in os.environ or os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") != "1":
        return
    jax.config.update("jax_logging_level", "CRITICAL")  # no other setting reaches XLA after its import
    for name in ("jax", "jaxlib"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _show(line: str) -> None:
    """Print a line on standard error, as the program's."""
    print(f"jaxunc: {escape_invisible(line)}", file=sys.stderr)


def _parser() -> _Parser:
    """Return the parser of the command line, which has a parser of each command."""
    parser = _Parser(prog="jaxunc", description=_ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxunc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=_CommandParser)
    for name, about in COMMANDS.items():
        commands.add_parser(name, help=about, command=name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
