"""The command line `nlgnn`: its commands, and how errors end it.

Modules that take time to import are imported inside the commands.
"""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import typer.main
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperOption

from nlgnn import __version__
from nlgnn.cli.console import began, called, console, errors, told_warnings
from nlgnn.cli.given_graph import check_label, describe_graph, names_store
from nlgnn.cli.options import (
    FLAGS,
    PANELS,
    TABLE_FLAGS,
    Flags,
    all_flags,
    check_run_folders,
    given_flags,
    read_toml,
    recipe_flags,
    use_own_model,
    with_flags,
)
from nlgnn.cli.outages import outage
from nlgnn.errors import NlgnnError, OptionError, nearest
from nlgnn.files import refuse_existing
from nlgnn.graph.store_files import is_store

SHORT_SPIN = "1000"  # of a waiting thread of libgomp, in rounds; its own default is hundreds of thousands
MOST_PROCESSES = 256  # that one command starts; torchrun starts any number
MOST_SECONDS = 30 * 86_400
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
COMMANDS = (
    *("train", "tune", "diagnose", "predict", "report", "leaderboard", "explain", "export", "demo"),
    *("store", "plan"),
    *("datasets", "models", "info", "reproduce"),
)
GENERATED = {
    "train": "Train a model on a graph: nlgnn train texas --model nlmlp",
    "tune": "Search over a model's options: nlgnn tune texas --model nlmlp",
}


class PanelCommand(TyperCommand):
    """A command whose help has panels of options, most of them one line: the flag, its default or type, its meaning."""

    def format_help(self, ctx: typer.Context, formatter: object) -> None:  # type: ignore[override]
        """Print the help."""
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        words = "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        console.print(f"{self.get_usage(ctx)}\n\n{words}\n", markup=False)
        panels: dict[str, Table] = {}
        for parameter in cast(list[TyperOption | TyperArgument], self.get_params(ctx)):
            if not (parameter.hidden or parameter.name == "help"):
                fallback = "Options" if isinstance(parameter, TyperOption) else "Arguments"
                table = panels.setdefault(parameter.rich_help_panel or fallback, Table.grid(padding=(0, 2, 0, 0)))
                table.add_row(*_help_row(parameter, ctx))
        for title in sorted(panels, key=lambda title: PANELS.index(title) if title in PANELS else -1):
            table = panels[title]
            table.columns[0].no_wrap = True
            console.print(Panel(table, title=title, title_align="left", border_style="dim"))


def _help_row(parameter: TyperOption | TyperArgument, ctx: typer.Context) -> tuple[Text, Text]:
    """Return a flag with its default, or with its type if it has none, and its help with the possible choices."""
    is_flag = isinstance(parameter, TyperOption) and parameter.is_flag
    name, kind = parameter.opts[-1], (parameter.display_type_rich(ctx) or "").strip("<>[]")
    default = parameter.show_default if isinstance(parameter.show_default, str) else ""
    if not isinstance(parameter, TyperOption):
        name, kind = (parameter.metavar or name).upper(), ""
    elif parameter.secondary_opts:
        name = name.replace("--", "--[no-]", 1)
    elif not default and parameter.show_default and parameter.default is not None:
        default = str(parameter.default)
    flag = Text.assemble((name, "bold cyan"), " ", ("" if is_flag else default or kind, "yellow"))
    choices = f" ({kind.replace('|', ', ')})" if default and "|" in kind else ""
    return flag, Text.assemble(parameter.help or "", (choices, "dim"))


def datasets(
    name: Annotated[str | None, typer.Argument(help="The graph to show in full.", show_default=False)] = None,
) -> None:
    """List the named graphs, or show one with its quirks and citation."""
    from nlgnn.cli.console import dataset_page, dataset_table

    console.print(dataset_page(name) if name else dataset_table())


def models(
    name: Annotated[str | None, typer.Argument(help="The model to show in full.", show_default=False)] = None,
) -> None:
    """List the models, or show one with its options, presets and source.

    NAME may be your own model, as package.module:Class.
    """
    from nlgnn.cli.console import model_page, model_table

    console.print(model_page(str(use_own_model(name))) if name else model_table())


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        console.print(f"nlgnn {__version__}")
        raise typer.Exit


def top(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Node classification on graphs whose neighbours disagree."""


def build_app(arguments: list[str]) -> typer.Typer:
    """Return the called command, or all commands if none is called.

    The flags of `train` and `tune` are read off the models, which imports torch. They are generated only if that
    command is called, after the checks that need no models.

    Args:
        arguments: The command line.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(top)
    called = arguments[0]
    for name in [called] if called in COMMANDS else COMMANDS:
        if name in GENERATED and name != called:
            app.command(name, help=GENERATED[name])(lambda: None)
        elif name in GENERATED:
            if "--help" not in arguments:
                check_arguments(name, arguments[1:])
            made = import_module(f"nlgnn.cli.{name}").generated_command(arguments[1:])
            app.command(name, cls=PanelCommand)(made)
        else:
            module = __name__ if name in ("datasets", "models") else f"nlgnn.cli.{name}"
            app.command(name, cls=PanelCommand)(getattr(import_module(module), name))
    return app


def check_arguments(command: str, arguments: list[str]) -> None:
    """Raise for mistakes that can be found before tables are read, data is downloaded or training is imported.

    Options of models are read off their classes, which imports torch. They are checked after everything else.

    Args:
        command: The command, `train` or `tune`.
        arguments: The arguments behind it.
    """
    own_flags = {**FLAGS[command], **recipe_flags(command == "tune")}
    values = _parse(arguments, own_flags, ignore_unknown_options=True, allow_extra_args=True)
    _check_values(command, values, arguments)
    flags = all_flags(command, arguments)
    if len(flags) == len(own_flags):
        return
    values = _parse(arguments, flags)
    graph, model = values.get("graph"), values.get("model", "auto" if "time_budget" in values else "nlgcn")
    if graph is None or names_store(graph):
        return
    if model.lower() != "auto" and not values.keys() & {"config", "resume"}:
        from nlgnn.models.build import check_given
        from nlgnn.tuning.space import check_space

        options = {name: value for name, value in values.items() if name not in FLAGS[command]}
        check = check_space if command == "tune" else check_given
        check(model, describe_graph(command, graph).name, values.get("preset"), options)


def _parse(arguments: list[str], flags: Flags, **settings: Any) -> dict[str, Any]:
    """Return the values of the flags that are given."""
    values: dict[str, Any] = {}

    def note(**given: Any) -> None:
        values.update(given_flags(given))

    app = typer.Typer(add_completion=False)
    app.command()(with_flags(note, flags))
    typer.main.get_command(app)(arguments, standalone_mode=False, **settings)
    return values


def _check_values(command: str, values: dict[str, Any], arguments: list[str]) -> None:
    """Raise for a wrong model, preset, run folder, number, option of training, file, graph or split."""
    from nlgnn.graph.splits import MOST_RUNS
    from nlgnn.models.registry import PRESETS, get_system
    from nlgnn.tables.table_files import check_is_file
    from nlgnn.training.recipe import Recipe

    model, preset, graph = (values.get(name) for name in ("model", "preset", "graph"))
    if model is not None and str(use_own_model(model)).lower() != "auto":
        get_system(model)
    if preset is not None and preset not in PRESETS:
        raise OptionError(f"there is no preset {preset!r}.", nearest(preset, list(PRESETS)))
    if "resume" in values:
        check_run_folders(values["resume"])
    if "out" in values and "resume" not in values and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        refuse_existing(values["out"])
    if "time_budget" in values:
        from nlgnn.selection.clock import parse_budget

        parse_budget(values["time_budget"])
    if values.keys() & {"threshold", "cost"}:
        from nlgnn.training.decision import check_texts

        check_texts(values.get("threshold"), values.get("cost"))
    if re.match(r"\w{2,}:/", str(values.get("study", ""))):
        raise OptionError(
            f"--study {values['study']} is an address; a study is a file.", "Name a database by --storage."
        )
    for name, most in (("processes", MOST_PROCESSES), ("process_timeout", MOST_SECONDS)):
        if not 1 <= values.get(name, 1) <= most:
            raise OptionError(f"{name}={values[name]} is out of bounds.", f"Give a number from 1 to {most:,}.")
    if not 1 <= values.get("runs", 1) <= MOST_RUNS:
        how = f"Ask for at least one run, and at most {MOST_RUNS:,}."
        raise OptionError(f"runs={values['runs']} is out of bounds.", how)
    if command == "tune":
        from nlgnn.tuning.space import check_numbers

        check_numbers(
            **{name: values[name] for name in ("settings", "search_splits", "search_epochs") if name in values}
        )
    Recipe(**{name: value for name, value in values.items() if name in Recipe.model_fields and "," not in str(value)})
    files = [name for name in ("nodes", "edges", "graph_file") if name in values]
    for name in files:
        if not (name == "graph_file" and is_store(values[name])):
            check_is_file(values[name])
    if "resume" in values:
        return
    if "config" in values:
        read_toml(values["config"])
        return
    if files:
        check_label(values)
    # An unknown option, or its value, may be taken for the graph here.
    elif not values.keys() & TABLE_FLAGS.keys() and graph in (None, *arguments[:1]) and not str(graph).startswith("-"):
        dataset = None if names_store(graph) else describe_graph(command, graph)
        if dataset is not None and "splits" in values:
            from nlgnn.graph.splits import check_protocol

            check_protocol(values["splits"], dataset.name, dataset.protocols)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit.

    The exit code is 2 for a user's mistake, which is answered with two lines, and 130 for Ctrl-C.

    Args:
        arguments: The command line; by default that of the process.
    """
    if "RANK" in os.environ:  # torch would print stacks of C++ before our errors; it reads this when it is imported
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    age = 0.0
    if arguments is None:
        arguments, age = sys.argv[1:], process_age()
        if "OMP_WAIT_POLICY" not in os.environ:
            # Before torch is imported. Threads that spin for long while they wait are many times as slow on a busy
            # machine, and those that sleep at once are half as slow again on a quiet one.
            os.environ.setdefault("GOMP_SPINCOUNT", SHORT_SPIN)
    called.set(arguments)
    began.set(time.monotonic() - age)
    _replace_unencodable()
    debug = "--debug" in arguments  # anywhere, also behind the command
    arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    try:
        with told_warnings():
            sys.exit(build_app(arguments)(arguments, prog_name="nlgnn", standalone_mode=False))
    except NlgnnError as error:
        if debug:
            raise
        first = os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"
        if first or error.of_process:  # of an error that all processes meet, one tells
            _print_error(error.what, error.how)
    except typer.TyperException as error:  # of the parser
        _print_error(*_parser_error(error, arguments[0]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        place = error.filename or "The output"
        _print_error(f"{place} cannot be written: {error.strerror}.", "Free some space, or write to another place.")
        with suppress(OSError, ValueError):  # else Python would try once more to write it at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except BaseException as error:
        found = outage(error)
        if found is None or debug:
            raise
        _print_error(*found)
    sys.exit(2)


def _replace_unencodable() -> None:
    """Print characters that the encoding of standard output lacks as question marks: that of Windows is not UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # None without a console, and other objects in notebooks
        sys.stdout.reconfigure(errors="replace")


def process_age() -> float:
    """Return the seconds since this process started, or 0 where the system does not tell."""
    with suppress(OSError, AttributeError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _parser_error(error: typer.TyperException, command: str) -> tuple[str, str]:
    """Return the two sentences for an error of the parser."""
    possibilities = getattr(error, "possibilities", None)
    message = error.message if possibilities else error.format_message()
    what, _, guess = message.replace("Value error, ", "").rstrip(".").partition(" Did you mean ")
    if possibilities or guess:
        return f"{what.rstrip('.')}.", f"Did you mean {possibilities[0] if possibilities else guess.rstrip('?')}?"
    return f"{what}.", f"See nlgnn {command} --help." if command in COMMANDS else "See nlgnn --help."


def _print_error(what: str, how: str) -> None:
    line = what.replace("\n", "\\n")  # one line, even if a file name has several
    errors.print(f"[red]error:[/] {escape(line)}", soft_wrap=True)
    if how:
        errors.print(escape(how), soft_wrap=True)
