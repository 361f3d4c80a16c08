SUFFIX = "(helper)"
