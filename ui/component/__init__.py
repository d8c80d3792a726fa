"""Parts of the page of one component, a neuron or an attention head."""
