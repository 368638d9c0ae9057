"""The output of `untrained doctor`."""

from collections.abc import Sequence

from untrained.cli.installation import DataFiles, Devices, Extra, Installation, Package
from untrained.cli.terminal.console import SafeConsole
from untrained.formatting import format_count, format_quantity


def show_installation(installation: Installation) -> None:
    """Print versions, devices, extras and data, and at the end what is wrong."""
    console = SafeConsole()
    _print_heading(console, "versions")
    _print_entry(console, "untrained", f"{installation['untrained']}  {installation['folder']}")
    _print_entry(console, "python", f"{installation['python']}  {installation['executable']}")
    _print_entry(console, "platform", installation["platform"])
    for package in installation["dependencies"]:
        _print_entry(console, package["name"], _describe_version(package))

    _show_devices(console, installation["devices"])
    _show_extras(console, installation["extras"])

    root = installation["data_root"]
    _print_heading(console, "data root")
    missing_note = "" if root["exists"] else ", which does not exist"
    console.print_plain(f"  {root['path']}{missing_note} ({root['source']})", wrap=False)
    _show_data(console, "data sets under the data root", installation["datasets"])
    _show_data(console, "tables of known results", installation["tables"])

    if installation["problems"]:
        _print_heading(console, "problems")
        for problem in installation["problems"]:
            console.print_plain(f"  {problem}", wrap=False)
    else:
        console.print_plain("everything that untrained needs is installed")


def _show_devices(console: SafeConsole, devices: Devices) -> None:
    _print_heading(console, "devices")
    cpu_text = format_count(devices["cores"], "core")
    if devices["threads"] is not None:
        cpu_text += f"; torch uses {format_count(devices['threads'], 'thread')}"
    _print_entry(console, "cpu", cpu_text)
    for gpu in devices["gpus"]:
        memory = format_quantity(gpu["memory_bytes"])
        _print_entry(console, gpu["device"], f"{gpu['name']}, {memory}B")
    if devices["mps"]:
        _print_entry(console, "mps", "the GPU of this Mac")
    if devices["threads"] is not None and not devices["gpus"]:
        _print_entry(console, "cuda", _explain_missing_gpu(devices["cuda_version"]))


def _explain_missing_gpu(cuda_version: str | None) -> str:
    if cuda_version is None:
        return "not available: this torch is built for the CPU only"
    return f"not available: this torch is built for CUDA {cuda_version}, and finds no GPU"


def _show_extras(console: SafeConsole, extras: Sequence[Extra]) -> None:
    _print_heading(console, "optional extras, installed from a clone of untrained")
    for extra in extras:
        if extra["installed"]:
            versions = [f"{package['name']} {package['version']}" for package in extra["packages"]]
            state = f"installed: {', '.join(versions)}"
        elif any(package["version"] for package in extra["packages"]):
            state = f"incomplete: {extra['install']}"
        else:
            state = f"not installed: {extra['install']}"
        _print_entry(console, extra["name"], state)
        _print_entry(console, "", extra["enables"])


def _show_data(console: SafeConsole, heading: str, entries: Sequence[DataFiles]) -> None:
    _print_heading(console, heading)
    for entry in entries:
        if entry["found"]:
            _print_entry(console, entry["name"], f"found: {entry['files'][0]}")
        else:
            _print_entry(console, entry["name"], f"not found: {entry['problem']}")


def _describe_version(package: Package) -> str:
    return package["problem"] or package["version"]


def _print_heading(console: SafeConsole, heading: str) -> None:
    console.print(f"[bold]{heading}[/]", highlight=False)


def _print_entry(console: SafeConsole, name: str, text: str) -> None:
    # Paths and commands are not wrapped, so that they can be copied.
    console.print_plain(f"  {name:<19} {text}", wrap=False)
