"""Sites at which a forward pass can be changed, and the ops that each allows."""

from schema.errors import AtlasError

STATE_OPS = ("patch", "zero", "noise", "add_vector", "add_value")

OPS = {
    "embedding": ("noise", "patch"),
    "resid_pre": STATE_OPS,
    "attention": ("block",),
    "head": ("zero", "scale", "mean", "resample", "patch"),
    "attn_out": ("zero", "mean", "resample", "patch"),
    "resid_mid": ("patch", "add_vector"),
    "pre_activation": ("set",),
    "coefficient": ("set", "scale", "add", "zero", "mean", "resample", "patch"),
    "ffn_out": ("zero", "mean", "resample", "patch"),
    "resid_post": STATE_OPS,
}
"""Site → its ops, in the order of the forward pass."""

ORDER = {site: place for place, site in enumerate(OPS)}

REPLACING = ("set", "zero", "mean", "resample", "patch")
"""Ops that replace the former value completely, so that at most one of them may act on the same unit and position."""

WITH_UNITS = {"coefficient": "neuron", "pre_activation": "neuron", "head": "head", "attention": "head"}
"""Site → kind of its units; the other sites are changed as a whole."""

KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "set": (("value",), ("strength",)),
    "add": (("value",), ("strength",)),
    "scale": (("value",), ()),
    "zero": ((), ()),
    "mean": (("corpus_id",), ("value",)),
    "resample": (("seed",), ("from",)),
    "patch": (("from",), ()),
    "noise": (("value", "seed"), ()),
    "add_vector": (("vector", "value"), ()),
    "add_value": (("of", "value"), ("strength",)),
    "block": (("edges",), ()),
}
"""Op → keys that it needs besides site, layer, op and positions, and keys that it may have. A strength may be given instead of a value."""


def keys(site: str, op: str) -> tuple[set[str], set[str]]:
    """Return the keys that an intervention needs, and those that it may have. Raises AtlasError for an unknown site, or an op that the site does not allow."""
    if site not in OPS:
        raise AtlasError(f"site '{site}' is unknown; there are {', '.join(OPS)}")
    if op not in OPS[site]:
        raise AtlasError(f"site {site} has no op '{op}'; it has {', '.join(OPS[site])}")
    needed, allowed = ({*found} for found in KEYS[op])
    if site == "pre_activation":
        allowed -= {"strength"}
    if op == "mean" and site != "coefficient":
        needed, allowed = needed | {"vector"}, set()
    needed |= {"site", "op"} | ({"positions"} if op != "block" else set()) | ({"layer"} if site != "embedding" else set())
    allowed |= {"skip_first"} if op != "block" else {"units"}
    return needed | ({"units"} if site in WITH_UNITS and op != "block" else set()), allowed
