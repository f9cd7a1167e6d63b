"""What the container and integration tests share: the engine, the images under test, containers and jobs."""
