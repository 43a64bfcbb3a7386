"""WHAT USERS TYPE: builders that each end in one node of the graph, the job's settings, and the door to the runtimes.

May enter: every room below. May never enter: operators that run, Spark (but by one deferred import in `environment`).
"""
