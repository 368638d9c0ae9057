"""`untrained doctor`: show what is installed on this machine, and what to install."""

from untrained.cli.options import DataRootOption, JsonOption


def doctor(data_root: DataRootOption = None, as_json: JsonOption = False) -> None:
    """Show versions, devices, optional extras and data on this machine.

    For everything that is missing, it shows how to add it and what that enables. It changes
    nothing, and ends with exit code 0 even if something is missing.

    Example: untrained doctor --json
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.installation import describe_installation
    from untrained.cli.terminal.installation import show_installation
    from untrained.cli.terminal.json_output import print_json, reserve_stdout

    with reserve_stdout(as_json):
        installation = describe_installation(data_root)
    if as_json:
        print_json(installation)
    else:
        show_installation(installation)
