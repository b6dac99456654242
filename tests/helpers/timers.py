"""A timer of Beam that only remembers."""


class FakeTimer:
    def __init__(self):
        self.times = []

    def set(self, time):
        self.times.append(time)
