"""The rules of many data sets compared, in words and tables."""


def rules_page(everything) -> str:
    return ""
