"""What start-up and a turn cost, each figure beside its bar: `make bench` or `python -m
benchmarks`.
"""
