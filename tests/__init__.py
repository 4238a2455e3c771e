"""Tests of everything; the folder is a package so that its modules can import one another."""
