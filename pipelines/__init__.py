"""PTool: makes and scores personalized tool-calling datasets."""

__version__ = "0.1.0"
