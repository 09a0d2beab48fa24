"""The words that claims and page use, for a reader who begins there."""

from __future__ import annotations

WORDS = {
    "f": "the classifier; its logits are one number for each class",
    "D(E(x))": "the VAE's reconstruction of an image x: encoder, then decoder",
    "N": "steps by which the latent code is moved so that the decoder's output comes nearer to the image",
    "purified": "the answer of f after those steps, with no rule",
    "score, flagged": "the sum of the sizes of all logit changes; an image is flagged above a threshold that 0.5 % of "
    "clean images reach",
    "ALU, deployed": "the class whose logit rose most if an image is flagged, else the highest logit after the steps",
    "if all were flagged": "the class whose logit rose most, for every image, as in the paper's plots of N and rate",
    "input and reconstruction reading": "what the logits after the steps are compared with: those of the image itself, "
    "or those of its reconstruction; the paper can be read both ways",
    "oblivious, surrogate, adaptive": "attackers who differentiate f alone; who differentiate f(D(E)), which the paper "
    "calls white-box; who know everything",
    "decoy, stealth": "attacks that know the rule: one makes another class rise most, one stays under the threshold",
    "paper protocol, standard protocol": "right on attacked images; right clean and under attack",
    "sse, mse, norm": "what the steps descend: the sum or the mean of squared errors, or the root of the sum; by plain "
    "gradient descent (gd) or Adam",
}
