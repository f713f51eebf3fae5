"""The labelling loop around trees: predictions alone are enough to choose by.

Run it with ``python examples/trees.py``; it takes scikit-learn. Anything that returns class
probabilities for ids will do in place of the forest: another library, a service, a file.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

from sklearn.ensemble import RandomForestClassifier

import steepest
from steepest.data import load
from steepest.labelling import OracleLabeller


def main() -> None:
    """Learn from 40 random labels, then from 40 more in each of four rounds."""
    data = load("digits")
    rows = data.train_images.flatten(1).numpy()
    test_rows = data.test_images.flatten(1).numpy()
    forest = RandomForestClassifier(n_estimators=50, random_state=0)

    loop = steepest.ActiveLoop(
        ids=range(len(rows)),
        fit=lambda ids, labels: forest.fit(rows[ids], labels),
        predict=lambda ids: forest.predict_proba(rows[ids]),
        label=OracleLabeller(data.train_labels),  # stands for the people who label
        evaluate=lambda: {"accuracy": forest.score(test_rows, data.test_labels.numpy())},
    )
    for record in loop.run(rounds=5, k=40):
        print(f"{record.labelled:4d} labels  accuracy {record.metrics['accuracy']:.3f}")


if __name__ == "__main__":
    main()
