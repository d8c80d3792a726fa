"""The papers whose items can be made."""

from atlas.papers.elhage2021 import ELHAGE2021
from atlas.papers.geva2021 import GEVA2021
from atlas.papers.geva2022 import GEVA2022
from atlas.papers.geva2023 import GEVA2023
from atlas.papers.khandelwal2020 import KHANDELWAL2020
from atlas.papers.meng2022 import MENG2022
from atlas.papers.probe_papers import CLARK2019, HEWITT_LIANG2019, HEWITT_MANNING2019, VOITA_TITOV2020

PROBED = (HEWITT_LIANG2019, HEWITT_MANNING2019, VOITA_TITOV2020, CLARK2019)

PAPERS = {paper.name: paper for paper in (GEVA2021, GEVA2022, ELHAGE2021, MENG2022, GEVA2023, KHANDELWAL2020, *PROBED)}
