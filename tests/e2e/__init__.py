"""The real program against real peers: every hop there or absent as it should be."""
