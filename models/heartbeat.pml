/* Heartbeats over a broker, in discrete time: one holder, publisher confirms, an orchestrator of any slowness.
 *
 *   S10  once the ledger has ended a lease, its holder no longer trusts itself
 *
 * The holder trusts itself until the *sending* of its last confirmed heartbeat + TRUST, and never again once that has
 * passed (core/lease.py). The ledger gives a lease from the *processing* of a heartbeat + LEASE, and ends it only once
 * a marker that was sent after it ran out has come through the heartbeats' own queue (orchestrator/beats.py).
 *
 * -DWITHOUT_x leaves a rule out; models/run.py knows what must come of it.
 */
#ifndef LAST
#define LAST 9
#endif
#define TRUST 3
#ifndef LEASE
#define LEASE 3
#endif

byte now = 0;
byte clock = 0;                          /* the holder's                                             */
byte trusted_until = TRUST;              /* on the holder's clock; the grant was asked for at 0       */
byte lease_until = LEASE;
bool noticed = false;                    /* the holder saw its deadline pass: final                  */
bool ended = false;                      /* the ledger took the lease away                           */
chan beats = [4] of { bit, byte, byte }; /* (0, sent, enqueued) or (1, stamp, enqueued)              */
chan confirms = [4] of { byte };         /* on their way back, however long                          */
chan sent = [2] of { byte };             /* on their way to the broker, however long                 */
bool marked = false;
byte count = 0, restarts = 1;

#define TRUSTS (!noticed && clock < trusted_until)
#define check assert(!(ended && TRUSTS))

active proctype Time() {
  end: do
  :: atomic { now < LAST -> now++;
#ifdef CLOCK_STOPS
       if :: clock++ :: true fi          /* a paused machine's clock may have stood still            */
#else
       clock = now
#endif
       ; check }
  od
}

active proctype Holder() {
  byte s;
  end: do
#ifndef WITHOUT_STICKY_EXPIRY
  :: atomic { !noticed && clock >= trusted_until -> noticed = true }
#endif
  :: atomic { !noticed && clock < trusted_until && count < 5 && nfull(sent) -> sent ! clock; count++ }
#ifdef WITHOUT_STICKY_EXPIRY
  :: atomic { clock >= trusted_until && count < 5 && nfull(sent) -> sent ! clock; count++ }
#endif
  :: atomic { confirms ? s ->
#ifndef WITHOUT_STICKY_EXPIRY
       if :: clock >= trusted_until -> noticed = true :: else fi;
#endif
       if
#ifdef FROM_THE_CONFIRM
       :: !noticed && clock + TRUST > trusted_until -> trusted_until = clock + TRUST
#else
       :: !noticed && s + TRUST > trusted_until -> trusted_until = s + TRUST
#endif
       :: else
       fi; s = 0; check }
  od
}

active proctype Broker() {
  byte s;
  end: do
  :: atomic { nempty(sent) && nfull(beats) && nfull(confirms) -> sent ? s; beats ! 0, s, now; confirms ! s; s = 0 }
  od
}

active proctype Orchestrator() {
  bit is_marker; byte s, enqueued;
  end: do
  :: atomic { nempty(beats) -> beats ? is_marker, s, enqueued;
       if
#ifdef TTL
       :: !is_marker && now - enqueued >= TTL          /* the broker had dropped it by then           */
       :: !is_marker && now - enqueued < TTL && !ended ->
#else
       :: !is_marker && !ended ->
#endif
          if :: now + LEASE > lease_until -> lease_until = now + LEASE :: else fi
       :: is_marker -> marked = false;
#ifndef WITHOUT_BARRIER
          if
#ifdef SOJOURN
          :: !ended && lease_until <= s && now - s <= SOJOURN -> ended = true; check
#else
          :: !ended && lease_until <= s -> ended = true; check
#endif
          :: else
          fi
#endif
       :: else
       fi; is_marker = 0; s = 0; enqueued = 0 }
#ifdef NEW_EPOCH                                       /* restart: a new queue, the old one dropped   */
  :: atomic { restarts > 0 && !ended -> restarts--;
       do :: nempty(beats) -> beats ? is_marker, s, enqueued :: empty(beats) -> break od;
       is_marker = 0; s = 0; enqueued = 0; marked = false;
#ifndef WITHOUT_REARM
       lease_until = now + LEASE
#endif
       }
#endif
#ifdef WITHOUT_BARRIER
  :: atomic { !ended && now >= lease_until -> ended = true; check }
#elif defined(MARK_EARLY)
  :: atomic { !ended && !marked && nfull(beats) -> beats ! 1, LAST, now; marked = true }
#else
  :: atomic { !ended && !marked && now >= lease_until && nfull(beats) -> beats ! 1, now, now; marked = true }
#endif
  od
}
