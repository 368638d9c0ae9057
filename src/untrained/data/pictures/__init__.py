"""Pictures of the user: how their files are listed, decoded, cached and summarised."""
