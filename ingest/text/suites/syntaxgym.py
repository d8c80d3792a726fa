"""Reader of SyntaxGym's JSON: an item's conditions are sentences made of regions, and formulas compare the regions' surprisals (Gauthier et al. 2020)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ingest.text.suites.formulas import CONSTANT, Clauses, parse_formula
from ingest.text.suites.item import Item, Sentence
from ingest.text.suites.reading import check_fields, json_value, mapping, name_of, read_text, require_list, sentence
from schema.errors import AtlasError


def read_syntaxgym(path: Path, suite: str, _: int) -> Iterator[Item]:
    """Read the items of one file. The name in the file's `meta` is their paradigm; an item passes if all formulas hold."""
    where = str(path)
    whole = mapping(where, json_value(where, read_text(path)))
    check_fields(where, whole, ("meta", "predictions", "items"), ("region_meta",))
    meta = mapping(f"{where}, meta", whole["meta"])
    if (metric := meta.get("metric", "sum")) != "sum":
        raise AtlasError(f"{where}: the metric is {metric!r}, and only sum is known: the surprisal of a region is the sum over its tokens")
    paradigm = sentence(f"{where}, name of meta", meta.get("name"))
    written = [formula(f"{where}, prediction {i}", each) for i, each in enumerate(require_list(f"{where}, predictions", whole["predictions"]), start=1)]
    formulas = [parse_formula(f"{where}, prediction {i}", text) for i, text in enumerate(written, start=1)]
    for number, each in enumerate(require_list(f"{where}, items", whole["items"]), start=1):
        of_item = f"{where}, item {number}"
        row = mapping(of_item, each)
        check_fields(of_item, row, ("item_number", "conditions"))
        found = [condition(of_item, one) for one in require_list(f"{of_item}, conditions", row["conditions"])]
        sentences = {s.role: s for s in found}
        if len(sentences) < len(found):
            raise AtlasError(f"{of_item}: two conditions have the same name; their names are {', '.join(s.role for s in found)}")
        check_places(of_item, formulas, sentences)
        yield Item("region", suite, paradigm, name_of(of_item, row, "item_number", str(number)), tuple(found), "\n".join(written))


def formula(where: str, value: object) -> str:
    row = mapping(where, value)
    check_fields(where, row, ("type", "formula"))
    if row["type"] != "formula":
        raise AtlasError(f"{where}: the type is {row['type']!r}, and must be formula")
    return " ".join(sentence(f"{where}, formula", row["formula"]).split())


def condition(where: str, value: object) -> Sentence:
    """Join the regions that have text into a sentence, with a space between each two."""
    row = mapping(f"{where}, a condition", value)
    check_fields(f"{where}, a condition", row, ("condition_name", "regions"), ("content",))
    role = sentence(f"{where}, condition_name", row["condition_name"])
    text, regions = "", dict[str, tuple[int, int]]()
    for each in require_list(f"{where}, regions of {role}", row["regions"]):
        of_region = f"{where}, a region of {role}"
        region = mapping(of_region, each)
        check_fields(of_region, region, ("region_number", "content"), ("metric_value", "oovs"))
        name, content = name_of(of_region, region, "region_number", "0"), region["content"]
        if not isinstance(content, str):
            raise AtlasError(f"{of_region}: content must be text, and is {type(content).__name__}")
        if name in regions:
            raise AtlasError(f"{where}: condition {role} has region {name} twice")
        if content.strip():
            start = len(text) + bool(text)
            text += " " * bool(text) + content.strip()
            regions[name] = (start, len(text))
    return Sentence(role, sentence(f"{where}, condition {role}", text), regions)


def check_places(where: str, formulas: list[Clauses], sentences: Mapping[str, Sentence]) -> None:
    """Raise AtlasError if a formula names a condition that the item does not have, or a region that is missing or has no text."""
    for role, region in {place for f in formulas for clause in f for comparison in clause for place in comparison.weights} - {CONSTANT}:
        if role not in sentences:
            raise AtlasError(f"{where}: a formula names condition {role!r}; there are {', '.join(sentences)}")
        if region != "*" and region not in sentences[role].regions:
            raise AtlasError(f"{where}: a formula names region {region} of {role}, which has no text; those with text are {', '.join(sentences[role].regions)}")
