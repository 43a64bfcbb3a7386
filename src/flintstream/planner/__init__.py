"""COMPILATION: a declared graph becomes a plan of levels, by small pure passes.

May enter: graph, ops, model, errors. May never enter: Spark, files, running things.
"""
