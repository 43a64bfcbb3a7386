"""RUNNING PROGRAMS from outside: the command line, and the supervisor that starts a program again when it dies.

May enter: everything below, the façades included. May never enter: Spark itself.
"""
