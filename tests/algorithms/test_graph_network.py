"""The graph network against a dense one."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from steepest.strategies.algorithms import distances
from steepest.strategies.algorithms.graph_network import (
    Fitting,
    GraphNetwork,
    SimilarityGraph,
    fit_graph_network,
    separation_loss,
)
from steepest.strategies.algorithms.k_centre import k_centre


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense_adjacency(features):
    """Return Â, every entry of it."""
    unit = F.normalize(features, dim=1)
    similar = unit @ unit.T
    similar.fill_diagonal_(0)
    return similar / similar.sum(0) + torch.eye(len(features), dtype=features.dtype)


def separable(count=60, labelled=20):
    """Features with the labelled ones, the last, on a side of their own."""
    rows = draw(count, 6).abs()
    rows[count - labelled :, 0] += 4
    return rows


class TestGraph:
    @pytest.mark.parametrize("tile_bytes", [2**27, 100])
    def test_the_implicit_graph_is_the_dense_one(self, tile_bytes, monkeypatch):
        monkeypatch.setattr(distances, "TILE_BYTES", tile_bytes)
        features = draw(30, 5).relu() + 0.01
        graph, dense = SimilarityGraph(features), dense_adjacency(features)
        signals = draw(30, 4, seed=1)
        torch.testing.assert_close(graph.spread(signals), dense @ signals)
        torch.testing.assert_close(graph.spread_features(), dense @ graph.rows)

    def test_columns_sum_to_two(self):
        graph = SimilarityGraph(draw(12, 5).abs())
        whole = graph.spread(torch.eye(12, dtype=torch.float64))
        torch.testing.assert_close(whole.sum(0), torch.full((12,), 2.0, dtype=torch.float64))

    def test_degrees_that_cancel_do_not_blow_up(self):
        # Opposite pairs: each node's similarities sum to −1, and with one more to 0.
        half = draw(10, 4)
        graph = SimilarityGraph(torch.cat([half, -half]))
        whole = graph.spread(torch.eye(20, dtype=torch.float64))
        assert bool(whole.isfinite().all())
        assert float(whole.abs().max()) < 3

    def test_a_node_that_is_like_no_other_keeps_its_signal(self):
        graph = SimilarityGraph(torch.eye(4, dtype=torch.float64))
        signals = draw(4, 3)
        torch.testing.assert_close(graph.spread(signals), signals)
        nothing = SimilarityGraph(torch.zeros(3, 5, dtype=torch.float64))
        torch.testing.assert_close(nothing.spread(signals[:3]), signals[:3])
        assert torch.equal(nothing.spread_features(), torch.zeros(3, 5, dtype=torch.float64))


class TestNetwork:
    def test_nodes_in_another_order_get_the_same_outputs(self):
        features, order = draw(25, 6).abs(), torch.randperm(25)
        network = GraphNetwork(6, 8, seed=0)
        graph, moved = SimilarityGraph(features), SimilarityGraph(features[order])
        hidden, logits = network(graph, graph.spread_features())
        others = network(moved, moved.spread_features())
        torch.testing.assert_close(others[0], hidden[order])
        torch.testing.assert_close(others[1], logits[order])

    def test_the_layers_are_those_of_the_formula(self):
        features = draw(20, 5).abs()
        network, graph = GraphNetwork(5, 7, seed=3), SimilarityGraph(features)
        hidden, logits = network(graph, graph.spread_features())
        dense = dense_adjacency(features)
        f = (dense @ (graph.rows @ network.first) + network.first_bias).relu()
        o = dense @ (f @ network.second) + network.second_bias
        torch.testing.assert_close(hidden, f)
        torch.testing.assert_close(logits, o[:, 0])

    def test_first_weights_are_within_their_bounds_and_the_seeds_own(self):
        one, same, other = (GraphNetwork(50, 128, seed) for seed in (0, 0, 1))
        assert torch.equal(one.first, same.first)
        assert not torch.equal(one.first, other.first)
        assert 0.08 < float(one.first.detach().abs().max()) <= 128**-0.5
        assert float(one.second.detach().abs().max()) <= 1

    def test_identity_weights_leave_a_plain_k_centre(self):
        features = draw(30, 6).abs()
        network, graph = GraphNetwork(6, 6, seed=0), SimilarityGraph(features)
        with torch.no_grad():
            network.first.copy_(torch.eye(6))
            for rest in (network.first_bias, network.second, network.second_bias):
                rest.zero_()
            hidden, logits = network(graph, graph.spread_features())
        places = torch.cat([hidden, logits[:, None]], 1)
        found = k_centre(places[:20], 8, centres=places[20:])
        plain = dense_adjacency(features) @ graph.rows
        wanted = k_centre(plain[:20], 8, centres=plain[20:])
        assert found.positions.tolist() == wanted.positions.tolist()


class TestFitting:
    def test_the_loss_is_the_formula_and_finite_where_its_logarithms_are_not(self):
        logits = draw(9)
        s = logits.sigmoid()
        wanted = -s[6:].log().mean() - 1.2 * (1 - s[:6]).log().mean()
        torch.testing.assert_close(separation_loss(logits, 3, 1.2), wanted)
        assert bool(separation_loss(torch.tensor([1e4, -1e4]), 1, 1.2).isfinite())

    def test_separable_nodes_are_told_apart_and_the_loss_falls(self):
        rows = separable()
        losses = []
        for epochs in (0, 50, 200):
            how = Fitting(epochs=epochs, dropout=0, rate=1e-2)
            _, logits = fit_graph_network(rows, 20, 0, fitting=how)
            losses.append(float(separation_loss(logits, 20, how.balance)))
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.8 * losses[0]
        assert float(logits[40:].min()) > float(logits[:40].max())

    def test_it_depends_on_the_seed_and_not_on_global_randomness(self):
        rows, how = separable(), Fitting(epochs=5)
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = fit_graph_network(rows, 20, 0, fitting=how)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(1)
        again = fit_graph_network(rows, 20, 0, fitting=how)
        assert torch.equal(first[0], again[0])
        assert torch.equal(first[1], again[1])
        assert not torch.equal(fit_graph_network(rows, 20, 1, fitting=how)[1], first[1])

    def test_dropout_is_for_training_alone(self):
        rows = separable()
        plain, dropped = (
            fit_graph_network(rows, 20, 0, fitting=Fitting(epochs=epochs, dropout=dropout))[0]
            for epochs, dropout in ((0, 0.0), (0, 0.9))
        )
        assert torch.equal(plain, dropped)
        trained = [
            fit_graph_network(rows, 20, 0, fitting=Fitting(epochs=3, dropout=dropout))[0]
            for dropout in (0.0, 0.9)
        ]
        assert not torch.equal(*trained)

    def test_callers_may_have_gradients_off(self):
        rows, how = separable().float(), Fitting(epochs=2)
        wanted = fit_graph_network(rows, 20, 0, fitting=how)[1]
        with torch.no_grad():
            assert torch.equal(fit_graph_network(rows, 20, 0, fitting=how)[1], wanted)
        with torch.inference_mode():
            found = fit_graph_network(rows.clone(), 20, 0, fitting=how)[1]
        assert torch.equal(found, wanted)
        assert not wanted.requires_grad
