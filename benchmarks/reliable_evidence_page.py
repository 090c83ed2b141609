"""The page"""
MEASURES = ("auc", "accuracy", "brier", "score", "epistemic", "aleatoric", "total")
REJECTED_BY = ("score", "epistemic", "aleatoric", "total")
def write_page(found, out): pass
