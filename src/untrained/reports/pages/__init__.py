"""HTML pages and the sections they are made of.

A function `make_..._section` returns a section as HTML, or an empty text if there is nothing to
show.
"""
