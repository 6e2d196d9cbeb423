"""Sphinx extension that writes the reference of the command line from the commands themselves."""

from pathlib import Path

import typer.main
from sphinx.application import Sphinx
from typer.core import TyperArgument, TyperCommand, TyperOption

from nlgnn.cli.main import COMMANDS, build_app


def command_page(name: str) -> str:
    """Return the page of a command in Markdown: what it does, its arguments, and its options by panel.

    Args:
        name: The command, such as "train".
    """
    group = typer.main.get_command(build_app([name, "--help"]))
    command: TyperCommand = group.commands[name]  # type: ignore[attr-defined]
    context = typer.Context(command, info_name=f"nlgnn {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    help_text = "\n".join(line.strip() for line in (command.help or "").splitlines())
    lines = [f"# nlgnn {name}", "", help_text, "", "```text", usage, "```", ""]
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        panel = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
        panels.setdefault(parameter.rich_help_panel or panel, []).append(_row(parameter, context))
    for title, rows in panels.items():
        lines += [f"## {title}", "", "| | Values | Meaning |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


def _row(parameter: TyperOption | TyperArgument, context: typer.Context) -> str:
    """Return the row of a parameter: its flags, its values with the default, and its meaning."""
    flags = [parameter.metavar or parameter.name or ""]
    if isinstance(parameter, TyperOption):
        flags = [*parameter.opts, *parameter.secondary_opts]
    values = (parameter.display_type_rich(context) or "").strip("<>[]").replace("|", ", ")
    shown = parameter.show_default if isinstance(parameter.show_default, str) else ""
    if not shown and parameter.show_default and parameter.default not in (None, False, True, [], ()):
        shown = str(parameter.default)
    default = f"default: {shown}" if shown else ""
    cells = [" ".join(f"`{flag}`" for flag in flags), "; ".join(filter(None, [values, default])), parameter.help or ""]
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def write_pages(app: Sphinx) -> None:
    """Write one page per command to `reference/commands`."""
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        page, text = folder / f"{name}.md", command_page(name)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
