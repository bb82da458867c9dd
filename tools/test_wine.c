/* The launching side of test_wine.py: launches of kernels with the thread pool, on Windows. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "records.h"

#define PUT32(base, field, value) (*(int *)((char *)(base) + (field)) = (int)(value))
#define PUT64(base, field, value) (*(long long *)((char *)(base) + (field)) = (long long)(value))
#define WORKERS 5
#define SCRATCH (1 << 20)
#define MOST 100000

typedef void kernel(void *args, void *ctx, long long begin, long long end);
extern kernel softmax, product, barrier;
extern int tritium_run(void *pool, void *job, double *cost, void *entry);
extern void *stall_address;

static int threads, turns, seen;
static LONG counts[MOST], ids[64];
static CRITICAL_SECTION section;
static char *pool;

static void check(int right, const char *what) {
  if (right) return;
  printf("wrong: %s\n", what);
  ExitProcess(1);
}

static int give_threads(void *entry) { return threads; }
static int poll(void *entry) { return 0; }

static void launch(kernel *kernel, void *args, double *cost, int total, int waits) {
  _Alignas(16) char job[JOB_SIZE] = {0}, fault[FAULT_SIZE] = {0}, entry[ENTRY_SIZE] = {0};
  PUT64(job, JOB_kernel, kernel);
  PUT64(job, JOB_args, args);
  PUT64(job, JOB_fault, fault);
  PUT64(job, JOB_scratch_bytes, SCRATCH);
  PUT64(job, JOB_total, total);
  PUT32(job, JOB_nx, total);
  PUT32(job, JOB_ny, 1);
  PUT32(job, JOB_nz, 1);
  PUT32(job, JOB_waits, waits);
  PUT64(fault, FAULT_stall, stall_address);
  PUT64(entry, ENTRY_function, give_threads);
  PUT64(entry, ENTRY_poll, poll);
  check(tritium_run(pool, job, cost, entry) == 0, "the status of a launch");
}

static void make_pool(void) {
  pool = _aligned_malloc(POOL_SIZE, 128);
  char *workers = _aligned_malloc(WORKER_SIZE * WORKERS, 128);
  char *slots = _aligned_malloc(SLOT_SIZE * SLOTS, 128);
  memset(pool, 0, POOL_SIZE);
  memset(workers, 0, WORKER_SIZE * WORKERS);
  memset(slots, 0, SLOT_SIZE * SLOTS);
  PUT32(pool, POOL_worker_count, WORKERS);
  PUT32(pool, POOL_slot_count, SLOTS);
  PUT64(pool, POOL_threshold, THRESHOLD);
  PUT64(pool, POOL_spin, SPIN);
  PUT64(pool, POOL_workers, workers);
  PUT64(pool, POOL_slots, slots);
  for (int i = 0; i < WORKERS; i++) {
    char *worker = workers + i * WORKER_SIZE;
    PUT64(worker, WORKER_pool, pool);
    PUT32(worker, WORKER_index, i);
    PUT32(worker, CONTEXT_thread_index, i + 1);
  }
}

/* Counts each program, and the threads that run them; writes all of its scratch memory. */
static void count(void *args, void *ctx, long long begin, long long end) {
  char *scratch = *(char **)((char *)ctx + CONTEXT_scratch);
  check(((size_t)scratch & 63) == 0, "the scratch memory's alignment");
  LONG id = GetCurrentThreadId();
  EnterCriticalSection(&section);
  int at = 0;
  while (at < seen && ids[at] != id) at++;
  if (at == seen) ids[seen++] = id;
  LeaveCriticalSection(&section);
  for (long long program = begin; program < end; program++) {
    for (volatile int turn = 0; turn < turns; turn++) {}
    memset(scratch, 1, turns > 1000 ? SCRATCH : 64);
    InterlockedIncrement(&counts[program]);
  }
}

static void run_counts(void) {
  static const int totals[] = {1, 300, MOST};
  for (int which = 0; which < 3; which++) {
    int total = totals[which];
    double cost[2] = {INFINITY, 0};
    turns = total == MOST ? 100 : 20000;
    seen = 0;
    memset(counts, 0, sizeof counts);
    for (int repeat = 0; repeat < 20; repeat++) {
      launch(count, NULL, cost, total, 0);
      if (repeat % 5 == 0) Sleep(20); /* the workers fall asleep */
    }
    for (int program = 0; program < total; program++)
      check(counts[program] == 20, "how often a program ran");
    check(seen <= threads && (total == 1 || threads == 1 || seen > 1), "the number of threads");
    printf("%d threads, %d programs: %d threads took part\n", threads, total, seen);
  }
}

static void run_kernels(void) {
  enum { ROWS = 500, N = 300, TILES = 200, SIZE = 32 };
  static float x[ROWS * N], y[ROWS * N], a[TILES * SIZE * SIZE], b[SIZE * SIZE];
  static float c[TILES * SIZE * SIZE];
  double cost[2] = {INFINITY, 0}, other[2] = {INFINITY, 0};
  for (int i = 0; i < ROWS * N; i++) x[i] = (float)sin(i * 0.37) * 5;
  for (int i = 0; i < TILES * SIZE * SIZE; i++) a[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < SIZE * SIZE; i++) b[i] = (float)(i * 5 % 13 - 6);
  long long rows[] = {(long long)x, (long long)y, N};
  long long tiles[] = {(long long)a, (long long)b, (long long)c};
  for (int repeat = 0; repeat < 5; repeat++) {
    launch(softmax, rows, cost, ROWS, 0);
    launch(product, tiles, other, TILES, 0);
  }
  for (int row = 0; row < ROWS; row++) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp(x[row * N + i]);
    for (int i = 0; i < N; i++)
      check(fabs(y[row * N + i] * sum / exp(x[row * N + i]) - 1) < 5e-6, "softmax");
  }
  for (int tile = 0; tile < TILES; tile++)
    for (int at = 0; at < SIZE * SIZE; at++) {
      float sum = 0;
      for (int k = 0; k < SIZE; k++)
        sum += a[tile * SIZE * SIZE + at / SIZE * SIZE + k] * b[k * SIZE + at % SIZE];
      check(c[tile * SIZE * SIZE + at] == sum, "product");
    }
  printf("%d threads: softmax and product\n", threads);
}

static void run_barriers(void) {
  for (int programs = 1; programs <= 60; programs += 19)
    for (int repeat = 0; repeat < 5; repeat++) {
      double cost[2] = {INFINITY, 0};
      LONG arrived = 0;
      long long args[] = {(long long)&arrived, programs};
      launch(barrier, args, cost, programs, POLLS);
      check(arrived == programs, "a barrier");
    }
  printf("%d threads: programs that wait for each other\n", threads);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  InitializeCriticalSection(&section);
  make_pool();
  static const int numbers[] = {1, 2, WORKERS + 1};
  for (int which = 0; which < 3; which++) {
    threads = numbers[which];
    run_counts();
    run_kernels();
    run_barriers();
  }
  return 0;
}
