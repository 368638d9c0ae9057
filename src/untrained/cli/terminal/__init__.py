"""What the commands print: tables, progress bars, messages and JSON documents."""
