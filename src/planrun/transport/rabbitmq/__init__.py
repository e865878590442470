"""The four flows over RabbitMQ, 3.10 to 4.x.

Rules:

* each end has two connections, one that consumes and acknowledges, and one that publishes: a broker that is short of
  memory or disk stops reading from whoever publishes, and acknowledgements must still get through;
* nothing is believed that was not confirmed *and* routed (`mandatory`);
* whatever breaks (connection, channel, consumer, queue), the end starts over from nothing, for ever. Messages that
  were not acknowledged come again, and the ledger does not grant twice;
* a message that cannot be read is put aside, never thrown away, and never stops a consumer.

It speaks through aiormq, the lower half of aio-pika: the upper one hides when a consumer is gone.
"""
