"""Planted defects: patches applied from outside through the seams of the engine; the product has no switch for them.

`sitecustomize.py` beside this file is found through PYTHONPATH by every process of a live store and applies the plant
that TEST_PLANT names.
"""
