/* What must hold with no assumption about time: one job, a few workers, and every crash.
 *
 * A lease may end at any moment here, so that no clock, pause or partition can matter. Messages get lost and
 * come twice, replies get lost, processes die between any two steps. Each `atomic` block is one transaction
 * of the ledger, or one step on something else. The guards bear the names of the statements in
 * src/planrun/ledger/sql/sqlite that carry them: `tests/models` holds the two together.
 *
 *   S1  a job ends once                      S2  everybody hears the same answer
 *   S3  what was announced is in the store   S4  an attempt is granted once
 *   S5  a receiver acts once                 L1  the job ends, and its end is heard of
 *
 * -DWITHOUT_x leaves guard x out. models/run.py knows which of them must be missed by which claim.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef BUDGET
#define BUDGET  2           /* attempts that may fail or be lost                                   */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef LOST
#define LOST    0           /* offers that get lost                                                */
#endif
#define HANDBACKS 1
#ifdef RESTORE
#define TOKENS (2 * BUDGET + 1)
#else
#define TOKENS (BUDGET + 1)
#endif
/* Answers: a token is "finished, with the outputs of that token". */
#define CANCELED  100
#define EXHAUSTED 101
#define PERMANENT 102

mtype = { queued, running, finished, failed, canceled };

/* --- the ledger --- */
mtype state = queued;
byte attempt = 1;           /* the fence: grows at every return to the line                        */
byte spent = 0;             /* failures and losses                                                 */
byte last_token = 0;
byte holder = 0;            /* token of the lease; 0: none                                         */
byte winner = 0;            /* result.token                                                        */
byte ends = 0;              /* ghost: how often the job ended                                      */
byte answer = 0;            /* message owed to the subscriber; 0: none                             */
bool confirmed = false;
byte granted[TOKENS + 3];   /* ghost: grants of each attempt                                       */
#ifdef WITHOUT_REOFFER
byte offered = 0;           /* ghost: the last attempt that was offered                            */
#endif

/* --- store, offers, the subscriber --- */
#ifdef WITHOUT_ATTEMPT_KEYS
byte object = 0;            /* one key per job: whose bytes lie there                              */
#define stored(t) (object == t)
#else
bool object[TOKENS + 2];    /* one key per token                                                   */
#define stored(t) (object[t])
#endif
chan offers = [2] of { byte };
byte heard = 0, answers = 0, acts = 0;

/* --- what may go wrong --- */
byte crashes = CRASHES, lost = LOST, repeats = 1, lost_replies = 1, handbacks = HANDBACKS;
#ifdef LIVE
byte hasty = 1;             /* leases of living workers that are ended                             */
bool alive[TOKENS + 2];     /* ghost: a living process works under this token                      */
#define lives(t, yes) alive[t] = yes
#else
#define lives(t, yes) skip
#endif
#ifdef RESTORE
byte manifest = 0;          /* in the store: written once, before the first answer                 */
byte highest_token = 0;     /* what a generation in the token amounts to                           */
mtype old_state; byte old_attempt, old_spent, old_token, old_holder, old_winner, old_ends, old_answer; bool old_confirmed;
#endif

#define ENDED (state == finished || state == failed || state == canceled)
#define IS_STORED (heard == 0 || heard >= CANCELED || stored(heard))

inline check() { assert(ends <= 1); assert(answers <= 1); assert(IS_STORED); assert(acts <= 1) }

inline hear(what) {                                /* the subscriber gets a message                */
  if
  :: heard == 0 -> heard = what; answers = 1; acts = 1
  :: else ->
#ifdef WITHOUT_INBOX
     acts++;
#endif
     if :: what != heard -> answers = 2 :: else fi
  fi; check()
}

inline end_job(how, what) {                        /* end_running, end_queued: result and messages */
  state = how; ends++; holder = 0; answer = what; confirmed = false; check()
}

inline requeue() {                                 /* requeue, or the end of a budget              */
  if
  :: spent >= BUDGET -> end_job(failed, EXHAUSTED)
  :: else -> state = queued; holder = 0;
#ifndef WITHOUT_NEXT_ATTEMPT
     attempt++
#endif
  fi
}

#ifdef WITHOUT_SETTLE_FENCE
#define SETTLES(t) (true)
#else
#define SETTLES(t) (state == running && holder == t)
#endif
#ifdef WITHOUT_GRANT_FENCE
#define GRANTS(a) (!ENDED)
#else
#define GRANTS(a) (state == queued && attempt == a)
#endif

inline crash(t) { crashes--; lives(t, 0) }

proctype Worker() {
  byte a, t; bool asked_again;
  end: do
  :: offers ? a;
#ifdef ACK_BEFORE_GRANT
     atomic { if :: crashes > 0 -> crashes--; a = 0; goto next :: true fi };
#endif
     atomic {                                      /* GRANT                                        */
       if
       :: GRANTS(a) && last_token < TOKENS ->
          state = running; last_token++; t = last_token; holder = t; lives(t, 1);
#ifdef RESTORE
          if :: last_token > highest_token -> highest_token = last_token :: else fi;
#endif
          granted[a]++; spent++;
#ifndef WITHOUT_S4
          assert(granted[a] <= 1)
#endif
       :: else -> t = 0
       fi
     };
#ifndef ACK_BEFORE_GRANT
     atomic {                                      /* ACKNOWLEDGE, or die before: it comes again   */
       if
       :: crashes > 0 -> crash(t); if :: nfull(offers) -> offers ! a :: full(offers) fi; a = 0; t = 0; goto next
       :: true -> if :: repeats > 0 && nfull(offers) -> repeats--; offers ! a :: true fi
       fi; a = 0
     };
#endif
     if :: t == 0 -> goto next :: else fi;
     if                                            /* RUN                                          */
     :: true
     :: atomic { crashes > 0 -> crash(t); t = 0; goto next }
     :: atomic { handbacks > 0 -> handbacks--; lives(t, 0);
          if :: state == running && holder == t -> spent--; requeue() :: else fi; t = 0; goto next }
     :: atomic { lives(t, 0);                      /*   transient                                  */
          if :: state == running && holder == t -> requeue() :: else fi; t = 0; goto next }
     :: atomic { lives(t, 0);                      /*   permanent                                  */
          if :: state == running && holder == t -> end_job(failed, PERMANENT) :: else fi; t = 0; goto next }
     fi;
#ifndef WITHOUT_FENCE_CHECK
     atomic { if :: state == running && holder == t :: else -> lives(t, 0); t = 0; goto next fi };
#endif
#ifndef SETTLE_BEFORE_UPLOAD
     if :: true :: atomic { crashes > 0 -> crash(t); t = 0; goto next } fi;
#ifdef WITHOUT_ATTEMPT_KEYS
     atomic { object = t; check() };               /* UPLOAD ends, whenever that is                */
#else
     object[t] = true;
#endif
#endif
#ifdef ANNOUNCE_BEFORE_SETTLE
     atomic { hear(t) };
#endif
     if :: true :: atomic { crashes > 0 -> crash(t); t = 0; goto next } fi;
settle:
     atomic {                                      /* SETTLE                                       */
       if
       :: SETTLES(t) -> end_job(finished, t); winner = t;
#ifdef WITHOUT_OUTBOX
          answer = 0;
#endif
          if
          :: lost_replies > 0 && !asked_again -> lost_replies--; asked_again = true; goto settle
          :: true -> goto won
          fi
#if !defined(WITHOUT_REPEATED_SETTLE) && !defined(WITHOUT_SETTLE_FENCE)
       :: !SETTLES(t) && winner == t -> goto won   /*   the same answer again                      */
       :: !SETTLES(t) && winner != t -> goto refused
#else
       :: !SETTLES(t) -> goto refused
#endif
       fi
     };
won: skip;
#ifdef SETTLE_BEFORE_UPLOAD
     if :: true :: atomic { crashes > 0 -> crash(t); t = 0; asked_again = false; goto next } fi;
     object[t] = true;
#endif
#ifdef WITHOUT_OUTBOX
     if :: true -> atomic { hear(t); confirmed = true } :: atomic { crashes > 0 -> crashes-- } fi;
#endif
     atomic { lives(t, 0); t = 0; asked_again = false; goto next };
refused:
     atomic { lives(t, 0);
#ifdef LOSER_DELETES
       object[t] = false; check();
#endif
       t = 0; asked_again = false };
next: skip
  od
}

proctype Dispatcher() {                            /* offers are hints: lost, repeated, late       */
  end: do
#ifdef WITHOUT_REOFFER
  :: atomic { state == queued && offered < attempt && nfull(offers) -> offered = attempt; offers ! attempt }
#else
  :: atomic { state == queued && empty(offers) -> offers ! attempt }
#endif
#if LOST > 0
  :: atomic { lost > 0 && nempty(offers) -> lost--; offers ? _ }
#endif
  od
}

proctype Sweeper() {                               /* expire                                       */
  end: do
#ifdef WITHOUT_SWEEPER
  :: false
#elif defined(LIVE)
  :: atomic { state == running && holder != 0 && !alive[holder] -> requeue() }
  :: atomic { state == running && holder != 0 && alive[holder] && hasty > 0 -> hasty--; requeue() }
#else
  :: atomic { state == running && holder != 0 -> requeue() }
#endif
  od
}

proctype Publisher() {
  end: do
  :: false
#ifndef WITHOUT_OUTBOX
#ifdef MANIFEST                                    /* written once; what stands there is adopted   */
  :: atomic { answer != 0 && !confirmed && manifest != answer ->
       if
       :: manifest == 0 -> manifest = answer
       :: else -> answer = manifest; if :: manifest < CANCELED -> winner = manifest; state = finished :: else -> winner = 0 fi
       fi }
  :: atomic { answer != 0 && !confirmed && manifest == answer -> hear(answer);
#else
  :: atomic { answer != 0 && !confirmed -> hear(answer);
#endif
       if :: repeats > 0 -> repeats-- :: true -> confirmed = true fi }   /* died before `confirm`  */
#endif
  od
}

#ifdef RESTORE
proctype Restore() {                               /* an older copy of the ledger comes back, once */
  atomic { old_state = state; old_attempt = attempt; old_spent = spent; old_token = last_token; old_holder = holder;
    old_winner = winner; old_ends = ends; old_answer = answer; old_confirmed = confirmed };
  atomic { state = old_state; attempt = old_attempt; spent = old_spent; holder = old_holder; winner = old_winner;
    ends = old_ends; answer = old_answer; confirmed = old_confirmed;
#ifdef GENERATION
    last_token = highest_token
#else
    last_token = old_token
#endif
#ifdef MANIFEST
    ; if
      :: manifest != 0 -> ends = 1; holder = 0; answer = manifest; confirmed = false;
         if
         :: manifest < CANCELED -> state = finished; winner = manifest
         :: manifest == CANCELED -> state = canceled
         :: else -> state = failed
         fi
      :: else
      fi
#endif
  }
}
#endif

proctype Canceler() { if :: atomic { !ENDED -> end_job(canceled, CANCELED) } :: true fi }

#ifndef WITHOUT_ATTEMPT_KEYS
proctype Collector() {
  byte t;
#ifdef COLLECT_EARLY                               /* any token that neither holds nor won         */
  end: do :: atomic { last_token > 0 ->
    for (t : 1 .. last_token) { if :: t != winner && t != holder -> object[t] = false :: else fi }; t = 0; check() } od
#else
  end: atomic { ENDED ->
    for (t : 1 .. TOKENS) {
#ifdef WITHOUT_WINNER_KEPT
      object[t] = false
#elif defined(MANIFEST)
      if :: t != winner && manifest != 0 && t != manifest -> object[t] = false :: else fi
#else
      if :: t != winner -> object[t] = false :: else fi
#endif
    }; t = 0; check() }
#endif
}
#endif

init { atomic { byte i; for (i : 1 .. WORKERS) { run Worker() }; i = 0;
  run Dispatcher(); run Sweeper(); run Publisher();
#ifdef RESTORE
  run Restore();
#endif
#ifdef CANCEL
  run Canceler();
#endif
#ifndef WITHOUT_ATTEMPT_KEYS
  run Collector()
#endif
} }
#ifdef LIVE
ltl is_answered { <> (ENDED && heard != 0) }
#endif
