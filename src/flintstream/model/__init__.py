"""The vocabulary: values and abstract classes that a user's program is written in.

What enters: time, types, rows, functions, state descriptors, windows, triggers, watermarks, jobs as seen by a client.
What never enters: an engine, Spark, Arrow, a clock, a file. This room imports `flintstream.errors` and nothing else.
"""
