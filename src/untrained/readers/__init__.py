"""Safe readers of files from elsewhere: pickles, torch files, numpy archives, JSON, compressed
files.

Reading a file never runs code from it, and takes memory in proportion to its size. Each reader
returns plain Python values and numpy arrays, or raises a `UsageError` of one line.
"""
