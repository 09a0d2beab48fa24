"""Test-time defence of image classifiers against adversarial attack, judged honestly."""
