"""The error of a model that is not what recognition looks for."""


class Refused(Exception):
    """Reason why a model's facts were not found: the step, the nearest candidate, and its error."""
