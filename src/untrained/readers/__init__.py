"""Readers of files that somebody else wrote: pickles, torch files, numpy archives, JSON, compressed files.

A foreign file runs nothing here, and reading it takes memory in proportion to its size. Each reader
answers with plain Python values and numpy arrays, or with a `UsageError` of one line.
"""
