/* What must hold with no assumption about time: one job, a few workers, and every crash.
 *
 * A lease may end at any moment here, so that no clock, pause or partition can matter. Messages get lost and
 * come twice, replies get lost, processes die between any two steps. Each `atomic` block is one transaction
 * of the ledger, or one step on something else. Whatever moves the job bears the name of its statement in
 * src/planrun/ledger/sql/sqlite, and may_x is the fence of statement x: tests/tidy/test_models.py compares the two.
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
#if defined(RESTORE) && !defined(WITHOUT_MANIFEST)
#define MANIFEST
#endif
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
bool closing = false;       /* ended, and not known yet to be what the manifest says               */
byte highest_token = 0;     /* what a generation in the token amounts to                           */
bool old_closing; mtype old_state; byte old_attempt, old_spent, old_token, old_holder, old_winner, old_ends, old_answer; bool old_confirmed;
#endif

#define ENDED (state == finished || state == failed || state == canceled)
#ifdef MANIFEST
#define CLOSING closing
#else
#define CLOSING false
#endif
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

/* The fences, clause by clause. */
#ifdef WITHOUT_GRANT_FENCE
#define may_grant(a) (!ENDED)
#else
#define may_grant(a) (state == queued && attempt == a)
#endif
#ifdef WITHOUT_REQUEUE_FENCE
#define may_requeue(a, t) (spent < BUDGET)
#else
#define may_requeue(a, t) (state == running && attempt == a && holder == t && spent < BUDGET)
#endif
#ifdef WITHOUT_SETTLE_FENCE
#define may_end_running(a, t) (true)
#else
#define may_end_running(a, t) (state == running && attempt == a && holder == t)
#endif
#ifdef WITHOUT_CANCEL_FENCE
#define may_end_queued(a) (true)
#else
#define may_end_queued(a) (state == queued && attempt == a)
#endif
#define may_end_elsewhere(a) (!ENDED && attempt == a)
#define may_adopt_end(a) (closing && attempt == a)

inline end_job(to, owed) {                         /* with its result, and the messages it owes    */
  state = to; ends++; holder = 0; answer = owed; confirmed = false;
#ifdef MANIFEST
  closing = true;
#endif
  check()
}

inline grant(a, t) {
  if
  :: may_grant(a) && last_token < TOKENS -> state = running; last_token++; t = last_token; holder = t; lives(t, 1);
#ifdef RESTORE
     if :: last_token > highest_token -> highest_token = last_token :: else fi;
#endif
     granted[a]++; spent++;
#ifndef WITHOUT_S4
     assert(granted[a] <= 1)
#endif
  :: else -> t = 0
  fi
}

inline end_running(a, t, how, what) { if :: may_end_running(a, t) -> end_job(how, what) :: else fi }

inline end_queued(a, how, what) { if :: may_end_queued(a) -> end_job(how, what) :: else fi }

inline requeue(a, t) {                             /* or the end of a budget                       */
  if
  :: may_requeue(a, t) -> state = queued; holder = 0;
#ifndef WITHOUT_NEXT_ATTEMPT
     attempt++
#endif
  :: else -> if :: may_end_running(a, t) && spent >= BUDGET -> end_job(failed, EXHAUSTED) :: else fi
  fi
}

#ifdef MANIFEST
inline end_elsewhere(a) {
  if :: may_end_elsewhere(a) -> state = canceled; ends++; holder = 0; confirmed = false; closing = true; check() :: else fi
}

inline adopt_end(a) {
  if
  :: may_adopt_end(a) -> answer = manifest; closing = false; winner = 0;
     if
     :: manifest < CANCELED -> state = finished; winner = manifest
     :: manifest == CANCELED -> state = canceled
     :: else -> state = failed
     fi
  :: else
  fi
}
#endif

inline crash(t) { crashes--; lives(t, 0) }

#define rest tried = 0; token = 0; asked_again = false; goto next

proctype Worker() {
  byte tried, token; bool asked_again;
  end: do
  :: offers ? tried;
#ifdef ACK_BEFORE_GRANT
     atomic { if :: crashes > 0 -> crashes--; rest :: true fi };
#endif
     atomic { grant(tried, token) };
#ifndef ACK_BEFORE_GRANT
     atomic {                                      /* ACKNOWLEDGE, or die before: it comes again   */
       if
       :: crashes > 0 -> crash(token); if :: nfull(offers) -> offers ! tried :: full(offers) fi; rest
       :: true -> if :: repeats > 0 && nfull(offers) -> repeats--; offers ! tried :: true fi
       fi
     };
#endif
     if :: atomic { token == 0 -> rest } :: else fi;
     if                                            /* RUN                                          */
     :: true
     :: atomic { crashes > 0 -> crash(token); rest }
     :: atomic { handbacks > 0 -> handbacks--; lives(token, 0);
          if :: may_end_running(tried, token) -> spent--; requeue(tried, token) :: else fi; rest }
     :: atomic { lives(token, 0); requeue(tried, token); rest }                         /* transient */
     :: atomic { lives(token, 0); end_running(tried, token, failed, PERMANENT); rest }  /* permanent */
     fi;
#ifndef WITHOUT_FENCE_CHECK
     atomic { if :: state == running && holder == token :: else -> lives(token, 0); rest fi };
#endif
#ifndef SETTLE_BEFORE_UPLOAD
     if :: true :: atomic { crashes > 0 -> crash(token); rest } fi;
#ifdef WITHOUT_ATTEMPT_KEYS
     atomic { object = token; check() };           /* UPLOAD ends, whenever that is                */
#else
     object[token] = true;
#endif
#endif
#ifdef ANNOUNCE_BEFORE_SETTLE
     atomic { hear(token) };
#endif
     if :: true :: atomic { crashes > 0 -> crash(token); rest } fi;
settle:
     atomic {                                      /* SETTLE                                       */
       if
       :: may_end_running(tried, token) -> end_running(tried, token, finished, token); winner = token;
#ifdef WITHOUT_OUTBOX
          answer = 0;
#endif
          if
          :: lost_replies > 0 && !asked_again -> lost_replies--; asked_again = true; goto settle
          :: true -> goto won
          fi
#if !defined(WITHOUT_REPEATED_SETTLE) && !defined(WITHOUT_SETTLE_FENCE)
       :: !may_end_running(tried, token) && winner == token -> goto won  /* the same answer again */
       :: !may_end_running(tried, token) && winner != token -> goto refused
#else
       :: !may_end_running(tried, token) -> goto refused
#endif
       fi
     };
won: skip;
#ifdef SETTLE_BEFORE_UPLOAD
     if :: true :: atomic { crashes > 0 -> crash(token); rest } fi;
     object[token] = true;
#endif
#ifdef WITHOUT_OUTBOX
     if :: true -> atomic { hear(token); confirmed = true } :: atomic { crashes > 0 -> crashes-- } fi;
#endif
     atomic { lives(token, 0); rest };
refused:
     atomic { lives(token, 0);
#ifdef LOSER_DELETES
       object[token] = false; check();
#endif
       rest };
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
  :: atomic { state == running && holder != 0 && !alive[holder] -> requeue(attempt, holder) }
  :: atomic { state == running && holder != 0 && alive[holder] && hasty > 0 -> hasty--; requeue(attempt, holder) }
#else
  :: atomic { state == running && holder != 0 -> requeue(attempt, holder) }
#endif
  od
}

proctype Publisher() {
  end: do
  :: false
#ifndef WITHOUT_OUTBOX
#ifdef MANIFEST                                    /* written once; what stands there is adopted   */
  :: atomic { closing && manifest == 0 -> manifest = answer }
  :: atomic { closing && manifest == answer -> closing = false }
  :: atomic { closing && manifest != 0 && manifest != answer -> adopt_end(attempt) }
  :: atomic { answer != 0 && !confirmed && !closing -> hear(answer);
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
    old_winner = winner; old_ends = ends; old_answer = answer; old_confirmed = confirmed; old_closing = closing };
  atomic { state = old_state; attempt = old_attempt; spent = old_spent; holder = old_holder; winner = old_winner;
    ends = old_ends; answer = old_answer; confirmed = old_confirmed; closing = old_closing;
#ifdef WITHOUT_GENERATION
    last_token = old_token
#else
    last_token = highest_token
#endif
#ifdef MANIFEST
    ; if :: manifest != 0 -> end_elsewhere(attempt); adopt_end(attempt) :: else fi
#endif
  }
}
#endif

proctype Canceler() {
  if
  :: atomic { state != running -> end_queued(attempt, canceled, CANCELED) }
  :: atomic { state == running -> end_running(attempt, holder, canceled, CANCELED) }
  :: true
  fi
}

#ifndef WITHOUT_ATTEMPT_KEYS
proctype Collector() {
  byte t;
#ifdef COLLECT_EARLY                               /* any token that neither holds nor won         */
  end: do :: atomic { last_token > 0 ->
    for (t : 1 .. last_token) { if :: t != winner && t != holder -> object[t] = false :: else fi }; t = 0; check() } od
#else
  end: atomic { ENDED && !CLOSING ->
    for (t : 1 .. TOKENS) {
#ifdef WITHOUT_WINNER_KEPT
      object[t] = false
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
