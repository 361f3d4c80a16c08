"""`fleethook bench`: compares Fleethook with named baselines in one run on one machine; the results are ratios."""
