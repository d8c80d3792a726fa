"""A kind of experiment that another distribution brings: saliency by another name."""

from ingest.experiments.kinds.saliency import Saliency


class Resalience(Saliency):
    name = "resalience"
    help = "What `saliency` does."


KIND, TWICE = Resalience(), Saliency()
