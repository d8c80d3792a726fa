"""Parts of the room of one component, a neuron or an attention head."""
