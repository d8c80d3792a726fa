"""Figures and tables of Geva et al. 2021 and 2022 and of Elhage et al. 2021, made from any atlas: items, charts, captions, and the page that holds them."""
