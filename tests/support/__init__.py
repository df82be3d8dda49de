"""What several rooms' tests are built with. Nothing here is a test, and no test module is imported by another."""
