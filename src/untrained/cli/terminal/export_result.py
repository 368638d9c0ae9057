"""The result of an export."""

from untrained.cli.terminal.console import SafeConsole
from untrained.formatting import format_limited_value
from untrained.workflows.export import ExportResult


def show_export_result(result: ExportResult) -> None:
    """Print where the exported folder is, what is missing in it, and how fast the model is."""
    console = SafeConsole()
    for file_name, reason in result.missing.items():
        console.print_plain(f"{file_name} was not written: {reason}", wrap=False)
    if not result.config["trained"]:
        console.print_plain("the weights are not trained; to train them, use `untrained train`")
    latency = result.config["latency"]
    if latency:
        milliseconds = format_limited_value("max_latency", latency["seconds"])
        console.print_plain(f"model.onnx: {milliseconds} per sample on this machine")
    if result.moved_files_folder:
        console.print_plain(
            "files that were added to the folder or changed during the export were moved to: "
            f"{result.moved_files_folder}",
            wrap=False,
        )
    console.print_plain(f"exported: {result.folder}", wrap=False)
