"""Features by id in one table are what a dict of them would be."""

import pytest
import torch

from steepest.loop.chooser import as_features
from steepest.strategies import Batch
from steepest.strategies.feature_table import FeatureTable

ROWS = torch.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("ids", [range(4), [7, "a", 2, "b"], range(3, -1, -1), [0, 1, 2, 3]])
def test_a_table_has_the_entries_of_a_dict(ids):
    table, plain = FeatureTable(ids, ROWS), dict(zip(ids, ROWS, strict=True))
    assert list(table) == list(plain)
    assert len(table) == len(plain)
    assert all(torch.equal(table[name], row) for name, row in plain.items())
    some = [ids[2], ids[0]]
    assert torch.equal(table.take(some), torch.stack([plain[name] for name in some]))
    for missing in (-1, 4, "c"):
        assert missing not in table


def test_rows_of_an_array_are_kept_as_they_are_and_looked_up_by_id():
    table = as_features(ROWS, ["d", "c", "b", "a"])
    assert table["d"].data_ptr() == ROWS.data_ptr()
    batch = Batch(["a", "d"], torch.zeros(2), model=torch.nn.Identity(), features=table)
    assert batch.features.tolist() == [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
