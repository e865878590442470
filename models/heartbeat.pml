/* Heartbeats over a broker, in discrete time: one holder, publisher confirms, an orchestrator of any slowness.
 *
 *   S10  once the ledger has ended a lease, its holder no longer trusts itself
 *
 * The holder trusts itself until the *sending* of its last confirmed heartbeat + TRUST. Once that has passed, only an
 * answer of the ledger itself revives it, from the sending of the question (core/lease.py). The ledger gives a lease
 * from the *processing* of a heartbeat, or of a question, + LEASE, and ends it only once a marker that was made after
 * it ran out has come through the heartbeats' own queue (orchestrator/beats.py).
 *
 * Left out, for what they could add is there without them: a second heartbeat in one unit of time, a confirm or a reply
 * that comes when it can extend nothing any more, and what the ledger would see once it has ended the lease.
 *
 * -DWITHOUT_x leaves a rule out; models/run.py knows what must come of it.
 */
#ifndef LAST
#define LAST 8
#endif
#define TRUST 3
#ifdef WITHOUT_LONGER_LEASE
#define LEASE 2
#else
#define LEASE 3
#endif
#ifndef ASKS
#define ASKS 1                           /* questions to the ledger itself                           */
#endif
#ifdef TTL
#define ENQUEUED now
#else
#define ENQUEUED 0                       /* nobody looks at it                                       */
#endif
#if defined(TTL) && !defined(WITHOUT_SOJOURN)
#define COUNTS(stamp) (now - stamp <= 2) /* a marker that was not under way for long                 */
#else
#define COUNTS(stamp) true
#endif
#ifdef WITHOUT_STAMP
#define RAN_OUT(stamp) (lease_until <= now)
#else
#define RAN_OUT(stamp) (lease_until <= stamp)
#endif

byte now = 0;
byte clock = 0;                          /* the holder's                                             */
byte trusted_until = TRUST;              /* on the holder's clock; the grant was asked for at 0       */
byte lease_until = LEASE;
bool expired = false;                    /* the holder saw its deadline pass                         */
bool ended = false;                      /* the ledger took the lease away                           */
chan sent = [2] of { byte };             /* heartbeats on their way to the broker, however long      */
chan confirms = [4] of { byte };         /* on their way back, however long                          */
chan beats = [4] of { bit, byte, byte }; /* (0, 0, enqueued) or (1, stamp, enqueued)                 */
chan asked = [1] of { byte };            /* questions on their way to the ledger, however long       */
chan replies = [1] of { byte };          /* "held", on their way back, however long                  */
bool marked = false, beat_now = true;
byte asks = ASKS, restarts = 1;

#define TRUSTS (!expired && clock < trusted_until)
#define EXTENDS(s) (s + TRUST > trusted_until)
#define check assert(!(ended && TRUSTS))

inline give_lease() { if :: now + LEASE > lease_until -> lease_until = now + LEASE :: else fi }

active proctype Time() {
  end: do
  :: atomic { now < LAST -> now++; beat_now = true;
#ifdef CLOCK_STOPS
       if :: clock++ :: true fi          /* a paused machine's clock may have stood still            */
#else
       clock = now
#endif
       ; check }
  od
}

active proctype Holder() {               /* sends whatever it believes; what comes back decides      */
  byte s;
  end: do
#ifndef WITHOUT_BROKER
  :: atomic { beat_now && nfull(sent) -> sent ! clock; beat_now = false }
#endif
  :: atomic { asks > 0 && !ended && nfull(asked) -> asked ! clock; asks-- }
  :: atomic { confirms ? s ->
#ifndef WITHOUT_STICKY_EXPIRY
       if :: clock >= trusted_until -> expired = true :: else fi;
#endif
       if
#ifdef WITHOUT_SENDING_TIME
       :: !expired && EXTENDS(clock) -> trusted_until = clock + TRUST
#else
       :: !expired && EXTENDS(s) -> trusted_until = s + TRUST
#endif
       :: else
       fi; s = 0; check }
  :: atomic { replies ? s ->
       if :: EXTENDS(s) -> trusted_until = s + TRUST :: else fi;
       expired = false; s = 0; check }
  od
}

active proctype Broker() {
  byte s;
  end: do
  :: atomic { nempty(sent) && nfull(beats) && nfull(confirms) -> sent ? s;
       if :: !ended -> beats ! 0, 0, ENQUEUED :: else fi;
#ifdef WITHOUT_SENDING_TIME
       confirms ! s;
#else
       if :: EXTENDS(s) -> confirms ! s :: else fi;
#endif
       s = 0 }
  od
}

active proctype Ledger() {               /* a fence check, or a heartbeat that no broker carries     */
  byte s;
  end: do
  :: atomic { nempty(asked) && nfull(replies) -> asked ? s;
       if
       :: !ended ->
          if :: EXTENDS(s) -> replies ! s :: else fi;
#ifndef WITHOUT_EXTEND
          give_lease()
#endif
       :: else
       fi; s = 0 }
  od
}

inline forget_beats() { do :: nempty(beats) -> beats ? is_marker, s, enqueued :: empty(beats) -> break od; marked = false }

active proctype Orchestrator() {
  bit is_marker; byte s, enqueued;
  end: do
  :: atomic { nempty(beats) -> beats ? is_marker, s, enqueued;
       if
#ifdef TTL
       :: !is_marker && now - enqueued >= TTL          /* the broker had dropped it by then           */
       :: !is_marker && now - enqueued < TTL -> give_lease()
#else
       :: !is_marker -> give_lease()
#endif
       :: is_marker -> marked = false;
          if :: RAN_OUT(s) && COUNTS(s) -> ended = true; forget_beats(); check :: else fi
       fi; is_marker = 0; s = 0; enqueued = 0 }
#ifdef NEW_EPOCH                                       /* restart: a new queue, the old one dropped   */
  :: atomic { restarts > 0 && !ended -> restarts--; forget_beats(); is_marker = 0; s = 0; enqueued = 0;
#ifndef WITHOUT_REARM
       lease_until = now + LEASE
#endif
       }
#endif
#ifdef WITHOUT_BARRIER
  :: atomic { !ended && now >= lease_until -> ended = true; forget_beats(); is_marker = 0; s = 0; enqueued = 0; check }
#else
  :: atomic { !ended && !marked && now >= lease_until && nfull(beats) -> beats ! 1, now, ENQUEUED; marked = true }
#endif
  od
}
