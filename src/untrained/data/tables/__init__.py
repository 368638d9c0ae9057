"""Tables: reading files, inferring the roles of columns, and encoding rows as numbers."""
