"""The loop without a server: picks go out as files, labels come back as files."""

from __future__ import annotations

from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.ingest import Ingested, ingest
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.exchange.vocabulary import Vocabulary

__all__ = ["Ingested", "LoopFolder", "Round", "Settings", "Vocabulary", "ingest"]
