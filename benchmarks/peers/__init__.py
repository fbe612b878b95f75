"""The contestants: a file each, and beside it what runs in the contestant's own processes."""
