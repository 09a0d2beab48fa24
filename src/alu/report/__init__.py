"""Reports: results in, one self-contained page out. Nothing here needs torch."""
