"""Two network namespaces and a user-space link between them: delay, loss, jitter, rate.

For kernels without netem, and without touching any device of the machine.
"""
