"""What a number of devices costs: messages, bytes, cores, state and shuffle, from costs measured on this machine.

`load` says what comes and how it flows, `sizes` asks the product's encoders for bytes, `costs` and `source` measure
seconds, `model` is the arithmetic over them, `spread` tells how keys fall on slots, `check` holds all of it against a
simulated run.
"""
