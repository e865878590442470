"""Both ends, for whoever puts the parts together."""

from __future__ import annotations

from planrun.transport.rabbitmq.address import broker_at
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.link import Link
from planrun.transport.rabbitmq.listener import Listener
from planrun.transport.rabbitmq.probe import probe
from planrun.transport.rabbitmq.worker import RabbitWorker

__all__ = ["Link", "Listener", "RabbitFleet", "RabbitWorker", "broker_at", "probe"]
