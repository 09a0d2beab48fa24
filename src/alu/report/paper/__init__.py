"""The paper beside what was measured here: results, the paper's own numbers, claims, and one page with all of it."""
