"""RUNNING one epoch: envelopes, levels, the ledger, the commit protocol. The same for every runtime.

May enter: planner, graph, ops, state, connectors, model, errors. May never enter: Spark.
"""
