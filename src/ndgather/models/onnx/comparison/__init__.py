"""One model in several runtimes: what they return, which one is right, and a search for inputs."""
