#include "sim.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The caller of sim_run and helper threads take threadgroups of a level by drawing tickets: the level's number in the
// upper half, the next threadgroup in the lower. A level is described by volatile fields that change only while the
// ticket is closed, so a helper that has drawn a ticket has read the right description.
#define CLOSED 0xffffffffu
#define MAX_WORKERS 64
#define WORTH_SHARING 4096 // threads of a level: a tenth of a millisecond or more

static _Atomic uint64_t ticket = CLOSED;
static struct op *volatile level_ops;
static volatile uint32_t level_first, level_last, level_total, level_workers;
static _Atomic uint32_t finished, stopped, sleeping;
static _Atomic uint32_t epoch; // futex: counts levels that are worth waking for
static struct worker *workers[MAX_WORKERS];
static uint32_t worker_count;

static void futex(void *address, int op, uint32_t value) { syscall(SYS_futex, address, op | FUTEX_PRIVATE_FLAG, value, 0, 0, 0); }

// draw_ticket takes the next threadgroup of the open level; false when there is none.
static int draw_ticket(uint32_t me, struct op **op, uint32_t *index, uint32_t *group) {
  uint64_t t = atomic_load(&ticket);
  for (;;) {
    struct op *ops = level_ops;
    uint32_t first = level_first, last = level_last, total = level_total, n = (uint32_t)t;
    if (n >= total || me >= level_workers) return 0;
    if (!atomic_compare_exchange_weak(&ticket, &t, t + 1)) continue;
    while (first < last && n >= ops[first].count) n -= ops[first++].count;
    *op = &ops[first], *index = first, *group = n;
    return 1;
  }
}

static void work(uint32_t me) {
  struct worker *w = workers[me];
  struct op *op;
  uint32_t group;
  while (draw_ticket(me, &op, &w->op_index, &group)) {
    if (!atomic_load(&stopped)) {
      run_group(w, op, group);
      if (w->failure.code) atomic_store(&stopped, 1);
    }
    atomic_fetch_add(&finished, 1);
  }
}

static void *helper(void *argument) {
  uint32_t me = (uint32_t)(uintptr_t)argument;
  for (;;) {
    uint32_t e = atomic_load(&epoch);
    work(me);
    for (int i = 0; i < 2000 && atomic_load(&epoch) == e; i++) __builtin_ia32_pause();
    if (atomic_load(&epoch) != e) continue;
    atomic_fetch_add(&sleeping, 1);
    futex(&epoch, FUTEX_WAIT, e);
    atomic_fetch_sub(&sleeping, 1);
  }
  return 0;
}

// sim_threads makes sure of n workers, the caller of sim_run included; it returns how many there are.
uint32_t sim_threads(uint32_t n) {
  if (n > MAX_WORKERS) n = MAX_WORKERS;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); // signals are for Go's own threads
  while (worker_count < n) {
    if (!(workers[worker_count] = new_worker())) break;
    pthread_t thread;
    if (worker_count > 0 && pthread_create(&thread, 0, helper, (void *)(uintptr_t)worker_count)) break;
    worker_count++;
  }
  pthread_sigmask(SIG_SETMASK, &old, 0);
  return worker_count < n ? worker_count : n;
}

static void run_level(struct op *ops, uint32_t first, uint32_t last, uint32_t threads) {
  uint32_t total = 0, lanes = 0;
  for (uint32_t i = first; i <= last; i++) {
    total += ops[i].count;
    lanes += ops[i].count * ops[i].threads[0] * ops[i].threads[1] * ops[i].threads[2];
  }
  uint64_t next = (atomic_load(&ticket) >> 32) + 1;
  atomic_store(&finished, 0);
  if (lanes < WORTH_SHARING) threads = 1;
  level_ops = ops, level_first = first, level_last = last, level_total = total, level_workers = threads;
  atomic_store(&ticket, next << 32);
  if (threads > 1 && total > 1) {
    atomic_fetch_add(&epoch, 1);
    if (atomic_load(&sleeping)) futex(&epoch, FUTEX_WAKE, INT_MAX);
  }
  work(0);
  for (int i = 0; atomic_load(&finished) < total; i++) // a helper still works, unless another program has its core
    if (i < 500) __builtin_ia32_pause();
    else sched_yield();
  atomic_fetch_or(&ticket, CLOSED);
}

// run_alone is a level on this thread only, threadgroups in random order.
static void run_alone(struct op *ops, uint32_t first, uint32_t last) {
  struct worker *w = workers[0];
  for (uint32_t i = first; i <= last && !w->failure.code; i++) {
    if (!trace_begin(&ops[i])) w->failure.code = FAIL_MEMORY, w->failure.op = i;
    uint32_t n = ops[i].count, at = (uint32_t)(w->random % n);
    uint32_t step = (uint32_t)(w->random >> 32) % n | 1;
    for (uint32_t a = step, b = n; b;) { // make step and n coprime
      uint32_t r = a % b;
      a = b, b = r;
      if (!b && a != 1) step = a = 1, b = 0;
    }
    for (uint32_t k = 0; k < n && !w->failure.code; k++, at = (uint32_t)(((uint64_t)at + step) % n)) {
      w->op_index = i;
      run_group(w, &ops[i], at);
    }
    trace_end(&ops[i]);
  }
}

// sim_run runs ops in order on at most threads workers and returns a failure's code, its details in *failure. With a seed
// it uses this thread only, and random orders.
uint32_t sim_run(struct op *ops, uint32_t n, uint32_t threads, uint64_t seed, struct failure *failure) {
  atomic_store(&stopped, 0);
  for (uint32_t i = 0; i < worker_count; i++) workers[i]->failure.code = 0;
  workers[0]->random = seed;
  for (uint32_t first = 0; first < n && !atomic_load(&stopped);) {
    uint32_t last = first;
    while (last + 1 < n && ops[last + 1].level == ops[first].level) last++;
    if (seed)
      run_alone(ops, first, last);
    else
      run_level(ops, first, last, threads);
    first = last + 1;
    if (workers[0]->failure.code) break;
  }
  for (uint32_t i = 0; i < worker_count; i++)
    if (workers[i]->failure.code) {
      *failure = workers[i]->failure;
      return failure->code;
    }
  failure->code = 0;
  return 0;
}
