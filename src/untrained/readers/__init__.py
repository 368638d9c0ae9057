"""Readers of foreign files: pickles, torch files, numpy archives, JSON, compressed files.

A foreign file runs nothing here, and reading it takes memory in proportion to its size. Each reader
returns plain Python values and numpy arrays, or raises a `UsageError` of one line.
"""
