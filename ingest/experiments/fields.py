"""The former name of schema.fields, until the next version, for kinds of experiments of other distributions."""

from schema.fields import AllowedValues, read_fields, setting

__all__ = ["AllowedValues", "read_fields", "setting"]
