"""HTML pages and the sections they are made of."""
