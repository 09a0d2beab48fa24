"""The paper's own numbers (Xuan, Zhu and Li, Advancing Adversarial Robustness Through Adversarial Logit Update)."""

from __future__ import annotations

TABLE1 = {
    "Standard": {"pgd-20": 0, "cw-linf": 3, "cw-l2": 41, "autoattack": 0},
    "+ purification": {"pgd-20": 18, "cw-linf": 65, "cw-l2": 57, "autoattack": 55},
    "+ ALU": {"pgd-20": 70, "cw-linf": 88, "cw-l2": 80, "autoattack": 78},
}
"""Percent right, CIFAR-10, a denoising U-Net; n is not given."""

TABLE2: dict[str, dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]]] = {
    "cifar10": {
        "standard": ((93.85, 0, 0), (79.34, 64.52, 72.03)),
        "at": ((88.83, 48.68, 45.83), (86.50, 96.87, 85.55)),
        "trades": ((84.44, 54.42, 51.19), (82.22, 94.18, 81.71)),
        "fat": ((88.51, 49.01, 43.49), (86.07, 96.83, 86.63)),
        "gairat": ((85.67, 57.68, 42.17), (81.93, 79.13, 66.16)),
        "mart": ((83.52, 57.62, 51.12), (81.89, 87.80, 76.43)),
    },
    "cifar100": {
        "standard": ((74.46, 0, 0), (53.10, 41.83, 37.86)),
        "at": ((62.07, 23.64, 22.29), (58.86, 82.09, 56.20)),
        "trades": ((57.35, 27.41, 25.15), (54.34, 87.89, 51.90)),
        "fat": ((65.34, 23.04, 21.46), (61.89, 78.29, 58.65)),
        "gairat": ((60.80, 24.46, 21.05), (57.50, 83.97, 51.64)),
        "mart": ((58.61, 33.84, 28.52), (55.62, 74.78, 50.07)),
    },
    "tiny-imagenet": {
        "standard": ((65.28, 0, 0), (40.09, 18.10, 21.21)),
        "at": ((49.20, 13.62, 12.20), (41.52, 42.18, 35.97)),
        "trades": ((45.25, 19.15, 15.30), (38.76, 55.98, 35.88)),
        "fat": ((48.16, 12.68, 11.34), (40.88, 40.11, 34.04)),
        "gairat": ((46.08, 19.27, 14.23), (36.48, 49.32, 30.60)),
        "mart": ((39.26, 21.69, 16.41), (34.86, 47.30, 30.21)),
    },
}
"""Percent clean, under PGD-20 and under AutoAttack: the bare classifier, and with ALU."""

UNIFIED = {"cifar10": (89.25, 97.97, 89.72), "cifar100": (65.02, 81.35, 59.54), "tiny-imagenet": (50.43, 63.52, 49.24)}

TABLE3: dict[str, tuple[float | None, float | None, float | None]] = {
    "Reverse attack (Mao 2021)": (81.88, 58.59, 59.44),
    "Hedge Defense": (90.63, 71.43, 72.66),
    "AWP": (88.25, 63.73, 60.05),
    "SOAP (Shi 2021)": (91.89, 53.58, None),
    "ADP (Yoon 2021)": (93.09, 85.45, None),
    "Long-run EBM (Hill 2021)": (84.80, 78.91, 40.20),
    "Unified ALU": UNIFIED["cifar10"],
}
"""CIFAR-10: clean, PGD-20, AutoAttack. The paper's bibliography is missing; methods are told by these figures. It took
some of them from other papers, whose attackers knew less."""

TABLE3_ELSEWHERE: dict[str, dict[str, tuple[float, float, float | None]]] = {
    "Reverse attack (Mao 2021)": {"cifar100": (56.09, 34.37, 27.96), "tiny-imagenet": (46.97, 14.48, 19.33)},
    "Hedge Defense": {"cifar100": (68.67, 43.25, 45.00)},
    "AWP": {"cifar100": (54.39, 30.71, 28.86)},
    "SOAP (Shi 2021)": {"cifar100": (61.01, 37.53, None)},
    "ADP (Yoon 2021)": {"cifar100": (77.83, 43.21, None)},
    "Long-run EBM (Hill 2021)": {"cifar100": (51.40, 26.10, 18.60)},
    "Unified ALU": {name: UNIFIED[name] for name in ("cifar100", "tiny-imagenet")},
}
"""The same on the other two data sets, where the table has a number."""

Curve = dict[str, tuple[tuple[float, float], ...]]

LEARNING_RATE: Curve = {
    "clean": ((1e-4, 0.8966), (1e-3, 0.8943), (2e-3, 0.8905), (3e-3, 0.8783), (4e-3, 0.8647), (5e-3, 0.8453),
              (6e-3, 0.8235), (7e-3, 0.801), (8e-3, 0.7806), (9e-3, 0.7604), (1e-2, 0.7496)),
    "attacked": ((1e-4, 0.9831), (1e-3, 0.9829), (2e-3, 0.9803), (3e-3, 0.9681), (4e-3, 0.9524), (5e-3, 0.933),
                 (6e-3, 0.9106), (7e-3, 0.8957), (8e-3, 0.8786), (9e-3, 0.8622), (1e-2, 0.8496)),
    "detected": ((1e-4, 0.9945), (1e-3, 0.9815), (2e-3, 0.6857), (3e-3, 0.1823), (4e-3, 0.0547), (5e-3, 0.0463),
                 (6e-3, 0.0639), (7e-3, 0.0629), (8e-3, 0.0749), (9e-3, 0.0892), (1e-2, 0.0592)),
    "clean not flagged": ((1e-4, 0.9892), (1e-3, 0.9916), (2e-3, 0.9911), (3e-3, 0.9862), (4e-3, 0.985),
                          (5e-3, 0.985), (6e-3, 0.9844), (7e-3, 0.985), (8e-3, 0.9847), (9e-3, 0.9843),
                          (1e-2, 0.9861)),
}  # fmt: skip
"""N = 100; the accuracies assume that everything attacked is flagged."""

ITERATIONS: Curve = {
    "clean": ((0, 0.8899), (2, 0.8925), (4, 0.8928), (6, 0.8917), (8, 0.8936), (10, 0.8945), (20, 0.8952), (40, 0.8948),
              (60, 0.8954), (80, 0.895), (100, 0.8968), (120, 0.8964), (140, 0.8981), (160, 0.8982), (180, 0.8976),
              (200, 0.8975)),
    "attacked": ((0, 0.0863), (2, 0.9273), (4, 0.9587), (6, 0.9587), (8, 0.9681), (10, 0.9737), (20, 0.9791),
                 (40, 0.9828), (60, 0.9828), (80, 0.9828), (100, 0.9836), (120, 0.9833), (140, 0.9833), (160, 0.9828),
                 (180, 0.9834), (200, 0.9831)),
    "detected": ((0, 0.0005), (2, 0.4744), (4, 0.8468), (6, 0.9066), (8, 0.938), (10, 0.9501), (20, 0.9667),
                 (40, 0.9857), (60, 0.9944), (80, 0.9942), (100, 0.9938), (120, 0.9931), (140, 0.9954), (160, 0.9951),
                 (180, 0.9942), (200, 0.9937)),
    "clean not flagged": ((0, 0.9944), (2, 0.9886), (4, 0.9887), (6, 0.9907), (8, 0.9897), (10, 0.99), (20, 0.9902),
                          (40, 0.9899), (60, 0.99), (80, 0.9892), (100, 0.9895), (120, 0.9898), (140, 0.9876),
                          (160, 0.9886), (180, 0.9892), (200, 0.9898)),
}  # fmt: skip
"""lr 1e-4; the accuracies assume that everything attacked is flagged."""

TIMING = {0: 6.9, 50: 46.9, 200: 166.0}
"""Seconds for 10,000 images on one RTX 3090, by number of steps."""

TRUE_FALLS_MOST = 0.9969
"""Share of successful attacks in which the true logit falls most."""
