"""THE ONLY SOCKETS, CLOCK AND ASYNCIO: sends the prompt and records what happens, judging
nothing."""
