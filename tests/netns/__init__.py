"""Two network namespaces and a user-space link between them: delay, loss, jitter, rate.

For kernels without netem, and without touching any device of the machine.

How good it is (1,000 UDP round trips through 20 ms each way, client thread and link SCHED_FIFO, two
shared cores, load 0.5, Python 3.11): minimum 40.16 ms, median 40.32, p90 40.46, p99 40.61, worst
40.82. So the link adds about 0.08 ms each way and a p99 jitter of 0.3 ms a round trip; a judge must
stamp packets behind it (tcpdump in the client's namespace), not rely on the delay it was asked for.
"""
