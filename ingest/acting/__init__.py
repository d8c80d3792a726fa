"""Act on a forward pass: arms of interventions (`schema/interventions/`) applied by hooks, and what comes of them."""
