"""The map: values, or traced states, in the plane, from afar and from near."""
