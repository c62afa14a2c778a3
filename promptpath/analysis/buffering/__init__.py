"""Does something in the path hold the stream back? Evidence, bursts, hold, verdict."""
