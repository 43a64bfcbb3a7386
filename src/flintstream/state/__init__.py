"""MEMORY: how values become columns, keys become groups, and keyed state becomes files and comes back.

May enter: model, errors, pyarrow, numpy, lmdb. May never enter: Spark, operators, a clock.
"""
