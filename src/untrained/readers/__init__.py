"""Safe readers for untrusted files: pickles, torch files, numpy archives, JSON, gzip and bzip2.

Reading a file never runs code from it, and takes at most ten times its size plus 500 MB of memory.
Readers return plain Python values and numpy arrays. A file that is damaged or refused raises a
`UsageError` of one line; functions that read a part of a file raise other errors, which
`name_file_in_errors` converts.
"""
