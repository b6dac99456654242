/* Ids, two numbers each: which of them come for the first time, and where they stand among ids in rising order.

   Devices choose their ids. So the hash is one that they cannot know, and a search that expects ids to be spread evenly
   takes at most twice the steps of a bisection where they are not. */

#include <stdint.h>

#include "../schemas/mix.h"

static uint64_t hash(uint64_t high, uint64_t low, const uint64_t *secret) {
    return mix(mix(high ^ secret[0], low ^ secret[1]) ^ secret[0], secret[1]);
}

enum { AHEAD = 16 };

/* Marks the first of each id. `slots` are a hash table of rows, each one more than it
   is; zero is free. They are a power of two, more than rows, and all zero. */
__attribute__((visibility("default")))
void hushgram_first_of_each(const uint64_t *ids, int64_t count, const uint64_t *secret, uint32_t *slots,
                            int64_t last_slot, uint8_t *is_first) {
    for (int64_t row = 0; row < count; row++) {
        uint64_t high = ids[2 * row], low = ids[2 * row + 1];
        if (row + AHEAD < count) { /* so that the slot is in the cache when it is its turn */
            const uint64_t *next = ids + 2 * (row + AHEAD);
            __builtin_prefetch(slots + (hash(next[0], next[1], secret) & (uint64_t)last_slot), 1);
        }
        for (uint64_t slot = hash(high, low, secret);; slot++) {
            uint32_t *found = slots + (slot & (uint64_t)last_slot);
            int64_t other = (int64_t)*found - 1;
            is_first[row] = other < 0;
            if (other < 0) *found = (uint32_t)(row + 1);
            else if (ids[2 * other] != high || ids[2 * other + 1] != low) continue;
            break;
        }
    }
}

/* Ids in rising order, by their first half and then by their second; each carries a number along. */
typedef struct {
    uint64_t *high, *low;
    uint32_t *number;
    int64_t size;
} Sorted;

static int is_below(const Sorted *sorted, int64_t place, uint64_t high, uint64_t low) {
    return sorted->high[place] < high || (sorted->high[place] == high && sorted->low[place] < low);
}

static int is_at(const Sorted *sorted, int64_t place, uint64_t high, uint64_t low) {
    return place < sorted->size && sorted->high[place] == high && sorted->low[place] == low;
}

/* How many of the sorted ids lie in a range of first halves, if they are spread evenly: less than all. */
static int64_t expect(const Sorted *sorted, uint64_t range) {
    return (int64_t)((Product)range * (uint64_t)sorted->size >> 64);
}

/* A better place than the guess, by what stands there. */
static int64_t corrected(const Sorted *sorted, int64_t guess, uint64_t high) {
    uint64_t there = sorted->high[guess];
    int64_t place = high > there ? guess + expect(sorted, high - there) : guess - expect(sorted, there - high);
    return place < 0 ? 0 : place < sorted->size ? place : sorted->size - 1;
}

/* How many of the sorted ids are below one. From where it would stand if they were spread evenly, steps that double
   lead to a part that it must be in, and a bisection through that. */
static int64_t rank(const Sorted *sorted, uint64_t high, uint64_t low) {
    if (!sorted->size) return 0;
    int64_t guess = expect(sorted, high);
    guess = corrected(sorted, corrected(sorted, guess, high), high);
    int64_t start = 0, end = sorted->size;
    if (is_below(sorted, guess, high, low)) {
        start = guess + 1;
        for (int64_t step = 1; step <= end - start; step *= 2) {
            if (!is_below(sorted, start + step - 1, high, low)) {
                end = start + step - 1;
                break;
            }
            start += step;
        }
    } else {
        end = guess;
        for (int64_t step = 1; step <= end; step *= 2) {
            if (is_below(sorted, end - step, high, low)) {
                start = end - step + 1;
                break;
            }
            end -= step;
        }
    }
    while (start < end) {
        int64_t middle = start + (end - start) / 2;
        if (is_below(sorted, middle, high, low)) start = middle + 1;
        else end = middle;
    }
    return start;
}

/* Puts two into one that has room for both. */
__attribute__((visibility("default")))
void hushgram_merge(const Sorted *one, const Sorted *other, const Sorted *merged) {
    int64_t first = 0, second = 0;
    for (int64_t place = 0; place < merged->size; place++) {
        int is_first = second == other->size ||
                       (first < one->size && is_below(one, first, other->high[second], other->low[second]));
        const Sorted *from = is_first ? one : other;
        int64_t at = is_first ? first++ : second++;
        merged->high[place] = from->high[at];
        merged->low[place] = from->low[at];
        merged->number[place] = from->number[at];
    }
}

/* Takes the mark from those of some ids that are among any of several sorted ones. */
__attribute__((visibility("default")))
void hushgram_unmark(const Sorted *several, int64_t many, const uint64_t *ids, int64_t count, uint8_t *is_new) {
    for (const Sorted *sorted = several; sorted < several + many; sorted++)
        for (int64_t row = 0; row < count; row++) {
            int64_t place = rank(sorted, ids[2 * row], ids[2 * row + 1]);
            if (is_at(sorted, place, ids[2 * row], ids[2 * row + 1])) is_new[row] = 0;
        }
}
