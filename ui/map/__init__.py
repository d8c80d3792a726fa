"""The Map page: values, or traced states, in the plane, as a whole and in detail."""
