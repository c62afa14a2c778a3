"""What the server speaks: the OpenAI and Anthropic surfaces and its own test streams."""
