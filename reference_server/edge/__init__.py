"""The box in front: TLS ends here, requests are spread over replicas, streams pass unbuffered."""
