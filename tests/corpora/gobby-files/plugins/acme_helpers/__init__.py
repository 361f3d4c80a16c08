from .text import shout
