"""SEMANTICS: operators, records in and records out.

May enter: state, model, errors, pyarrow, numpy. May never enter: Spark, files, a clock, the graph.
"""
