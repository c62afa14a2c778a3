"""Every bad input, end to end: the real program against real or scripted peers."""
