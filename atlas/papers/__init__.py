"""Figures and tables of papers (PAPERS in catalogue.py), made from any atlas: items, charts, captions, and the page that has them all."""
