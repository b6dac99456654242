"""The cost of a number of devices: messages, bytes, cores, state and shuffle, from costs measured on this machine.

`load` says what comes and how it flows, `sizes` asks the product's encoders for bytes, `costs` and `source` measure
seconds, `model` is the arithmetic over them, `spread` says how keys fall on slots, `check` compares all of it with a
simulated run.
"""
