"""The page of the study of learning."""


def write_page(found, out):
    """Placeholder until cells are there."""
