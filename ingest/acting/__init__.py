"""Interventions on a forward pass: arms of interventions (`schema/interventions/`), applied by hooks, and their effects."""
