"""Changes to a forward pass as data: one JSON object is an intervention, a list of them an arm."""
