"""Networks that are trained beside a model so that a strategy can choose.

* ``loss_head``: predicts a sample's loss from the maps of the model's blocks.
* ``image_vae``, ``discriminator``, ``adversarial``: tell labelled images from unlabelled ones.
"""
