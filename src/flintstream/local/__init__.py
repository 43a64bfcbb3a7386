"""RUN in one process: the same levels without Spark, for tests, doctests and a debugger's breakpoint.

May enter: engine and below. May never enter: Spark.
"""
