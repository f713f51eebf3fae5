"""An autoencoder and a discriminator that are trained against each other."""

from __future__ import annotations

import pytest
import torch

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.errors import NonFiniteError
from steepest.modules.fingerprint import fingerprint
from steepest.strategies.networks import adversarial
from steepest.strategies.networks.adversarial import Networks, Plan, Sides, train_adversarially
from steepest.strategies.networks.adversarial_losses import AdversarialLosses
from steepest.strategies.networks.cuda_graph import RecordedWork
from steepest.strategies.networks.discriminator import Discriminator, make_perceptron
from steepest.strategies.networks.image_vae import ImageVae

VAAL = AdversarialLosses(labelled_state=1.0, wanted_state=1.0)
QUICK = Plan(iterations=3, batch_size=4)


class Held:
    def __init__(self, images):
        self.images = images
        self.asked = []

    def __len__(self):
        return len(self.images)

    def take(self, rows):
        self.asked.append(rows.tolist())
        return self.images[rows]


def sides(**changes):
    images = torch.rand(20, 1, 4, 4, generator=generator(0, "images")) * 2 - 1
    given = {"labelled": Held(images[:8]), "unlabelled": Held(images[8:]), **changes}
    return Sides(states=torch.zeros(12), **given)


def networks(*, classes=0, seed=0):
    torch.manual_seed(seed)
    vae = ImageVae(1, (4, 4), 4, width=2, decoded=2 if classes else None)
    return Networks(vae, Discriminator(4, (8,)), make_perceptron([2, classes]) if classes else None)


def train(nets, given, game=VAAL, plan=QUICK, seed=0):
    train_adversarially(nets, given, game, plan, seed=seed, progress=SilentProgress())
    return fingerprint(nets)


def test_the_seed_decides_the_weights_and_the_global_state_stays():
    first = train(networks(), sides())
    state = torch.random.get_rng_state()
    torch.rand(5)
    torch.random.set_rng_state(state)
    assert train(networks(), sides()) == first
    assert train(networks(), sides(), seed=1) != first
    torch.random.set_rng_state(state)
    nets = networks()
    state = torch.random.get_rng_state()
    train(nets, sides())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_all_networks_learn_and_end_in_eval_mode():
    nets = networks(classes=3)
    before = {name: value.clone() for name, value in nets.named_parameters()}
    game = AdversarialLosses(0.0, 0.0, classification=5.0)
    train(nets, sides(targets=torch.arange(8) % 3), game)
    assert not any(module.training for module in nets.modules())
    assert not [n for n, value in nets.named_parameters() if torch.equal(value, before[n])]
    assert all(p.grad is None for p in nets.parameters())


def test_every_step_of_the_autoencoder_sees_fresh_images():
    given = sides()
    train(networks(), given, plan=Plan(iterations=1, batch_size=4, generator_steps=2))
    # The first is asked for once more, to lay out the table.
    first, *steps = given.labelled.asked
    assert first == steps[0]
    assert len(steps) == 2
    assert not set(steps[0]) & set(steps[1])


def test_classes_go_with_their_images_unless_the_published_fault_is_wanted():
    game = AdversarialLosses(0.0, 0.0, classification=5.0)
    targets = torch.arange(8) % 3
    sound = train(networks(classes=3), sides(targets=targets), game)
    stale = train(networks(classes=3), sides(targets=targets, stale_targets=True), game)
    same = torch.zeros(8, dtype=torch.long)
    one = train(networks(classes=3), sides(targets=same), game)
    other = train(networks(classes=3), sides(targets=same, stale_targets=True), game)
    assert sound != stale
    assert one == other


def test_shares_of_a_single_class_teach_what_the_class_does():
    game = AdversarialLosses(0.0, 0.0, classification=5.0)
    targets = torch.arange(8) % 3
    by_class, by_share, by_mixture = networks(classes=3), networks(classes=3), networks(classes=3)
    train(by_class, sides(targets=targets), game)
    train(by_share, sides(targets=torch.eye(3)[targets]), game)
    train(by_mixture, sides(targets=torch.full((8, 3), 1 / 3)), game)
    pairs = list(zip(by_class.parameters(), by_share.parameters(), strict=True))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)
    assert not torch.allclose(by_class.classifier[0].weight, by_mixture.classifier[0].weight)


@pytest.mark.parametrize("stale", [False, True])
def test_stale_targets_are_those_of_the_same_iteration(stale):
    given = sides(targets=torch.arange(8), stale_targets=stale)
    plan = Plan(iterations=4, batch_size=4, generator_steps=2)
    table = adversarial._Table(given, plan, 0, torch.device("cpu"), torch.contiguous_format)
    given.labelled.asked.clear()
    for iteration in range(4):
        table.deal(iteration)
        first, second = given.labelled.asked[-2:]
        assert table.targets[0].tolist() == first
        assert table.targets[1].tolist() == (first if stale else second)


def test_pools_are_normalised_together_unless_the_published_way_is_wanted():
    apart = Plan(iterations=3, batch_size=4, separate_norm=True)
    assert train(networks(), sides()) != train(networks(), sides(), plan=apart)


def test_the_learning_rate_falls_by_the_plan():
    slow = Plan(iterations=3, batch_size=4, decay=1e-9, decay_every=1)
    once = Plan(iterations=1, batch_size=4)
    frozen, whole, first = networks(), networks(), networks()
    train(frozen, sides(), plan=slow)
    train(whole, sides())
    train(first, sides(), plan=once)

    def apart(left, right):
        pairs = zip(left.parameters(), right.parameters(), strict=True)
        return max(float((a - b).detach().abs().max()) for a, b in pairs)

    assert apart(frozen, first) < 1e-6
    assert apart(whole, first) > 1e-4


def test_weights_that_diverge_are_reported_in_one_line():
    images = torch.full((8, 1, 4, 4), torch.inf)
    with pytest.raises(NonFiniteError, match=r"lower lr=0\.0005"):
        train(networks(), sides(labelled=Held(images)))


def test_it_can_be_trained_where_gradients_are_switched_off():
    wanted = train(networks(), sides())
    with torch.no_grad():
        assert train(networks(), sides()) == wanted


def test_work_is_run_plainly_without_a_gpu():
    runs = []
    replay = RecordedWork(lambda: runs.append(1), torch.device("cpu"))
    for _ in range(6):
        replay()
    assert len(runs) == 6
