/* What all fuzzers need: random numbers that a seed repeats, and an end with a line when a promise is broken. */

#ifndef HUSHGRAM_FUZZ_H
#define HUSHGRAM_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t state;

/* SplitMix64. */
static uint64_t random64(void) {
    uint64_t number = state += 0x9E3779B97F4A7C15u;
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
    number = (number ^ number >> 27) * 0x94D049BB133111EBu;
    return number ^ number >> 31;
}

static int64_t below(int64_t limit) { return limit > 0 ? (int64_t)(random64() % (uint64_t)limit) : 0; }

static void check(int holds, const char *promise) {
    if (holds) return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

static void *memory(int64_t size) {
    void *found = malloc(size ? (size_t)size : 1);
    check(found != NULL, "memory");
    return found;
}

/* Repeats some checks, and says how often. Arguments: seconds, and where random numbers start. */
static inline int repeat(int argc, char **argv, void (*checks)(void), const char *what) {
    if (argc < 3) return 2;
    time_t end = time(NULL) + atol(argv[1]);
    state = strtoull(argv[2], NULL, 10);
    uint64_t runs = 0;
    do {
        for (int times = 0; times < 1000; times++, runs++) checks();
    } while (time(NULL) < end);
    printf("%llu %s\n", (unsigned long long)runs, what);
    return 0;
}

#endif
