"""The papers whose items can be made."""

from atlas.papers.elhage2021 import ELHAGE2021
from atlas.papers.geva2021 import GEVA2021
from atlas.papers.geva2022 import GEVA2022

PAPERS = {paper.name: paper for paper in (GEVA2021, GEVA2022, ELHAGE2021)}
