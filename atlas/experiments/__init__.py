"""What a model does when its forward passes are changed, or asked why: the file beside the atlas that keeps it, its rules, and its questions.

Whatever runs the model brings tables, which are saved as one experiment (store.py) if they keep the rules (rules.py, audits/); nothing here needs torch.
"""
