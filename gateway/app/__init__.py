"""The composition root: joins the parts of each process. Only here may everything be imported."""
