"""ResNet-18 for 32x32 images: a 3x3 stem of stride 1 and no pooling before the stages."""

from __future__ import annotations

from torch import Tensor, nn

from steepest.models.base import MODELS


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    Args:
        channels_in: Channels of the input.
        channels_out: Channels of the output.
        stride: Stride of the first convolution and of the shortcut.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, channels_out, H / stride, W / stride]."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        activated: Tensor = self.relu(out + self.downsample(x))
        return activated


class CifarResNet18(nn.Module):
    """ResNet-18 as used on CIFAR, with torchvision's names.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
    """

    def __init__(self, classes: int, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.layer1 = _make_stage(64, 64, 1)
        self.layer2 = _make_stage(64, 128, 2)
        self.layer3 = _make_stage(128, 256, 2)
        self.layer4 = _make_stage(256, 512, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits


@MODELS.register("cifar-resnet18")
def cifar_resnet18(classes: int, channels: int = 3) -> nn.Module:
    """Make a ResNet-18 for small images."""
    return CifarResNet18(classes, channels)


def _make_stage(channels_in: int, channels_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        BasicBlock(channels_in, channels_out, stride), BasicBlock(channels_out, channels_out, 1)
    )
