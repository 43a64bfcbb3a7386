"""The room for Spark: sessions, sources, epochs, batch mode.

May enter: pyspark, py4j, and every room below. May never enter: api objects, semantics of operators.
"""
