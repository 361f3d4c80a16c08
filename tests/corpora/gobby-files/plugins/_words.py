FORBIDDEN = {"frobnicate"}


def bad(text):
    return FORBIDDEN & set(text.split())
