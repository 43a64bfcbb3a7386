"""DECLARATION: what the user said, frozen.

May enter: ops (selectors, operators as values), model, errors. May never enter: plans, running things, Spark.
"""
