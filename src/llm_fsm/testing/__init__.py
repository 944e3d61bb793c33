"""What tests of definitions and of programs around them need: a scripted model and a scripted server."""
