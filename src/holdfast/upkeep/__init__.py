"""What is done now and then: announce, audit, repair. Correctness waits for none of it."""
