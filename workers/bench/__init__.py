"""`fleethook bench`: what Fleethook costs against a named baseline, in one run on one machine, ratios first."""
