"""Answers to held calls over HTTP."""
