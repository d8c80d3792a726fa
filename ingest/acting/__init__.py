"""Hooks that apply interventions (`schema/interventions/`) to a forward pass, and measurements of the effects."""
