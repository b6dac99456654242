/* Ids as devices may choose them, given to ids.c, which is built with sanitizers: `python -m devtools.fuzz`.

   Every array is as long as it must be and not a byte longer. What ids.c finds is held against loops that compare all
   with all. */

#include "ids.c"

#include "fuzz.h"

enum { MOST = 60, ARRAYS = 3 };

/* Half of an id: anything, or one of few, so that ids meet, lie side by side, and stand at the ends. */
static uint64_t half(void) {
    uint64_t few[] = {0, 1, 2, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    return below(3) ? few[below(6)] : random64();
}

static int is_same(const uint64_t *one, const uint64_t *other) { return one[0] == other[0] && one[1] == other[1]; }

static uint64_t *draw_ids(int64_t count) {
    uint64_t *ids = memory(16 * count);
    for (int64_t place = 0; place < 2 * count; place++) ids[place] = half();
    return ids;
}

/* The ids that are not in `others`, each once, in rising order, with their places in that order as numbers. */
static Sorted sort(const uint64_t *ids, int64_t count, const Sorted *others) {
    Sorted all = {memory(8 * count), memory(8 * count), memory(4 * count), 0};
    for (int64_t row = 0; row < count; row++) {
        uint64_t high = ids[2 * row], low = ids[2 * row + 1];
        int64_t place = all.size;
        int known = 0;
        for (int64_t other = 0; others && other < others->size; other++) known |= is_at(others, other, high, low);
        for (int64_t other = 0; other < all.size; other++) known |= is_at(&all, other, high, low);
        if (known) continue;
        for (; place && !is_below(&all, place - 1, high, low); place--) {
            all.high[place] = all.high[place - 1];
            all.low[place] = all.low[place - 1];
        }
        all.high[place] = high;
        all.low[place] = low;
        all.size++;
    }
    Sorted exact = {memory(8 * all.size), memory(8 * all.size), memory(4 * all.size), all.size};
    for (int64_t place = 0; place < all.size; place++) {
        exact.high[place] = all.high[place];
        exact.low[place] = all.low[place];
        exact.number[place] = (uint32_t)place;
    }
    free(all.high), free(all.low), free(all.number);
    return exact;
}

static void release(Sorted *sorted) { free(sorted->high), free(sorted->low), free(sorted->number); }

static void check_first_of_each(void) {
    const uint64_t secret[2] = {random64(), random64()};
    int64_t count = below(MOST), slots = 1;
    while (slots <= 2 * count) slots *= 2;
    uint64_t *ids = draw_ids(count);
    uint32_t *table = calloc((size_t)slots, 4);
    uint8_t *is_first = memory(count);
    check(table != NULL, "memory");
    hushgram_first_of_each(ids, count, secret, table, slots - 1, is_first);
    for (int64_t row = 0; row < count; row++) {
        int expected = 1;
        for (int64_t before = 0; before < row; before++) expected &= !is_same(ids + 2 * row, ids + 2 * before);
        check(is_first[row] == expected, "the first of each id is marked, and no other");
    }
    free(ids), free(table), free(is_first);
}

static void check_search(void) {
    int64_t count = below(MOST);
    uint64_t *asked = draw_ids(count);
    uint8_t *is_new = memory(count), *was_new = memory(count);
    Sorted several[ARRAYS];
    for (int place = 0; place < ARRAYS; place++) {
        int64_t size = below(MOST);
        uint64_t *ids = draw_ids(size);
        several[place] = sort(ids, size, NULL);
        free(ids);
    }
    for (int64_t row = 0; row < count; row++) is_new[row] = was_new[row] = (uint8_t)below(2);
    hushgram_unmark(several, ARRAYS, asked, count, is_new);
    for (int64_t row = 0; row < count; row++) {
        int known = 0;
        for (int place = 0; place < ARRAYS; place++)
            for (int64_t at = 0; at < several[place].size; at++)
                known |= is_at(several + place, at, asked[2 * row], asked[2 * row + 1]);
        check(is_new[row] == (was_new[row] && !known), "ids that are known lose their mark, and no others");
    }
    for (int place = 0; place < ARRAYS; place++) release(several + place);
    free(asked), free(is_new), free(was_new);
}

static void check_merge(void) {
    int64_t sizes[2] = {below(MOST), below(MOST)};
    uint64_t *ids[2] = {draw_ids(sizes[0]), draw_ids(sizes[1])};
    Sorted one = sort(ids[0], sizes[0], NULL), other = sort(ids[1], sizes[1], &one);
    int64_t size = one.size + other.size;
    Sorted merged = {memory(8 * size), memory(8 * size), memory(4 * size), size};
    hushgram_merge(&one, &other, &merged);
    for (int64_t place = 0; place < size; place++) {
        const uint64_t id[2] = {merged.high[place], merged.low[place]};
        int64_t number = merged.number[place];
        check(!place || is_below(&merged, place - 1, id[0], id[1]), "merged ids rise");
        check(is_at(&one, number, id[0], id[1]) || is_at(&other, number, id[0], id[1]), "each keeps its number");
    }
    release(&one), release(&other), release(&merged);
    free(ids[0]), free(ids[1]);
}

static void check_all(void) { check_first_of_each(), check_search(), check_merge(); }

int main(int argc, char **argv) { return repeat(argc, argv, check_all, "sets of ids"); }
