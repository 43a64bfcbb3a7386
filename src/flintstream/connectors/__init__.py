"""EDGES: where records come from and where they go, with the two phases of a commit.

May enter: model, state's codec, errors, pyarrow, numpy, files. May never enter: Spark, operators, the engine.
"""
