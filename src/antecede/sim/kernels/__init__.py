"""Compiled engines: the same runs as the plain engine, fast.

:data:`SIMULATORS` maps a protocol's name to a function (plan, n, options, progress) that returns
the finished state. Modules are imported when they are first needed: compiling takes seconds.
"""
