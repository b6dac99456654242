/* Uploads with odd numbers, given to judging.c, uploads.c and counting.c, which are built with sanitizers:
   `python -m devtools.fuzz`.

   Every array is as long as it must be and not a byte longer. What comes out is held against loops over single rows. */

#include "counting.c"
#include "judging.c"
#include "uploads.c"

#include "fuzz.h"

enum { MOST = 40, SHARDS = 40, NAMES = 4 };

/* Any number, or one of few around those that are allowed. */
static int64_t odd(int64_t around) {
    int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    int64_t kind = below(8);
    return kind ? kind == 1 ? ends[below(7)] : kind == 2 ? (int64_t)random64() : below(around) : around;
}

static int64_t *draw(int64_t count, int64_t around) {
    int64_t *numbers = memory(8 * count);
    for (int64_t place = 0; place < count; place++) numbers[place] = odd(around);
    return numbers;
}

static void check_count(void) {
    int64_t uploads = below(MOST), keys = 1 + below(3), width = below(4), all = 0, counted = 0;
    int is_odd = !below(4);
    int64_t *key_of = memory(8 * uploads), *times = draw(uploads, 9), *sizes = memory(8 * uploads);
    for (int64_t row = 0; row < uploads; row++) {
        key_of[row] = is_odd ? odd(keys) : below(keys);
        sizes[row] = is_odd && !below(9) ? odd(2) : below(3);
        all += sizes[row] >= 0 && sizes[row] < 3 ? sizes[row] : 0;
    }
    all -= is_odd && all ? below(3) & 1 : 0; /* perhaps a cell is missing */
    int64_t *cells = memory(8 * all);
    for (int64_t place = 0; place < all; place++) cells[place] = is_odd && !below(9) ? odd(width) : below(width);
    int64_t *counts = calloc((size_t)(keys * width + 1), 8);
    Total *totals = memory(keys * (int64_t)sizeof(Total));
    check(counts != NULL, "memory");
    counted = hushgram_count(key_of, times, sizes, uploads, cells, all, keys, width, counts, totals);
    int64_t at = 0, whole = 0;
    for (; whole < uploads; whole++) {
        if (key_of[whole] < 0 || key_of[whole] >= keys || sizes[whole] < 0 || sizes[whole] > (width ? all - at : all)) break;
        int is_cell = 1;
        for (int64_t next = 0; width && next < sizes[whole]; next++, at++)
            if (cells[at] < 0 || cells[at] >= width) is_cell = 0;
            else if (is_cell) counts[key_of[whole] * width + cells[at]]--;
        if (!is_cell) break;
    }
    check(counted == whole, "uploads are counted up to the first that has a key, a size or a cell out of range");
    for (int64_t place = 0; place < keys * width; place++) check(!counts[place], "each cell counts once");
    for (int64_t key = 0; key < keys && counted == uploads; key++) {
        Total expected = {0, 0, INT64_MAX, INT64_MIN};
        for (int64_t row = 0; row < uploads; row++) {
            if (key_of[row] != key || !sizes[row]) continue;
            expected.reports += sizes[row];
            expected.uploads++;
            expected.first = times[row] < expected.first ? times[row] : expected.first;
            expected.last = times[row] > expected.last ? times[row] : expected.last;
        }
        check(totals[key].reports == expected.reports && totals[key].uploads == expected.uploads, "uploads count once");
        check(totals[key].first == expected.first && totals[key].last == expected.last, "the first and the last event");
    }
    free(key_of), free(times), free(sizes), free(cells), free(counts), free(totals);
}

static void check_spread(void) {
    int64_t uploads = below(MOST), shards = 1 + below(SHARDS), at = 0;
    int width = 1 << below(4), is_single = (int)below(2);
    uint64_t *ids = (uint64_t *)draw(2 * uploads, 70000), least = random64();
    uint32_t *order = memory(4 * uploads);
    int64_t *ends = memory(8 * shards), *starts = memory(8 * uploads), *sizes = memory(8 * uploads), all = 0;
    for (int64_t row = 0; row < uploads; row++) {
        sizes[row] = is_single ? 1 : below(4);
        starts[row] = all;
        all += sizes[row];
    }
    uint64_t *numbers = memory(8 * all), largest = width == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * width) - 1;
    for (int64_t place = 0; place < all; place++) numbers[place] = least + (random64() & largest);
    hushgram_order(ids, uploads, (uint16_t)shards, order, ends);
    /* For each shard room of its own, as much as it needs. */
    uint8_t *rooms[SHARDS], *places[SHARDS], *id_rooms[SHARDS], *id_places[SHARDS];
    for (int64_t shard = 0; shard < shards; shard++) {
        int64_t bytes = 0, start = at;
        for (; at < ends[shard]; at++) bytes += width * sizes[order[at]];
        rooms[shard] = places[shard] = memory(bytes);
        id_rooms[shard] = id_places[shard] = memory(16 * (at - start));
    }
    check(at == uploads, "shards have all uploads");
    hushgram_spread(numbers, is_single ? NULL : starts, is_single ? NULL : sizes, least, width, order, ends, shards, places);
    hushgram_spread_ids(ids, order, ends, shards, id_places);
    at = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        uint8_t *place = rooms[shard], *id_place = id_rooms[shard];
        for (int64_t row = 0; row < uploads; row++) { /* in the order in which they came */
            if ((ids[2 * row + 1] & 0xFFFF) % (uint64_t)shards != (uint64_t)shard) continue;
            check(at < ends[shard] && order[at++] == row, "uploads of a shard stay in order");
            check(!memcmp(id_place, ids + 2 * row, 16), "ids are written as they are");
            id_place += 16;
            for (int64_t next = 0; next < sizes[row]; next++) {
                uint64_t offset = 0;
                for (int byte = width; byte--;) offset = offset << 8 | place[byte];
                check(least + offset == numbers[starts[row] + next], "numbers stay with their upload");
                place += width;
            }
        }
        check(at == ends[shard] && place == places[shard] && id_place == id_places[shard], "places move behind them");
        free(rooms[shard]), free(id_rooms[shard]);
    }
    free(ids), free(order), free(ends), free(starts), free(sizes), free(numbers);
}

static void check_judge(void) {
    int64_t rows = below(MOST), labels = 1 + below(3), future = 5, earliest = -1;
    int64_t names[NAMES], *codes = memory(8 * rows), *groups = memory(8 * rows), *revisions = draw(rows, 3);
    int64_t *cells = draw(rows, 4), *times = draw(rows, 9), *received = memory(8 * rows), *out = memory(40 * rows);
    Named named[NAMES];
    int is_batch = (int)below(2), has_own = (int)below(2);
    for (int64_t name = 0; name < NAMES; name++) {
        int64_t many = below(3), *numbers = draw(many, 3), *alphabets = memory(8 * many), *of_label = memory(8 * labels);
        for (int64_t place = 0; place < many; place++) alphabets[place] = 1 + below(5);
        for (int64_t label = 0; label < labels; label++) of_label[label] = below(4) - 2;
        named[name] = (Named){10 + name, (uint64_t *)numbers, alphabets, many, of_label, below(2) ? below(9) : -1};
        names[name] = below(3) ? name : -1;
    }
    for (int64_t row = 0; row < rows; row++) {
        codes[row] = below(NAMES), groups[row] = below(labels), received[row] = below(9);
    }
    const Reports reports = {codes, groups, (uint64_t *)revisions, is_batch ? NULL : cells, times, received, has_own};
    const Judged judged = {out, out + rows, out + 2 * rows, out + 3 * rows, out + 4 * rows};
    int64_t refused = hushgram_judge(&reports, rows, names, named, future, earliest, &judged), expected_refused = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t name = names[codes[row]], now = has_own ? received[row] : received[0], revision = -1;
        const Named *own = named + (name < 0 ? 0 : name);
        for (int64_t place = own->many; place-- && name >= 0;)
            if ((int64_t)own->revisions[place] == revisions[row]) revision = place;
        int64_t alphabet = revision < 0 ? 0 : own->alphabets[revision], group = name < 0 ? -1 : own->groups[groups[row]];
        int is_reason[] = {
            name < 0,
            revision < 0,
            !is_batch && (cells[row] < 0 || cells[row] >= alphabet),
            group == -2,
            times[row] > now + future,
            times[row] < earliest || (own->max_age >= 0 && times[row] < now - own->max_age),
        };
        int64_t reason = 0;
        while (reason < 6 && !is_reason[reason]) reason++;
        check(judged.reason[row] == (reason < 6 ? reason : -1), "the first reason that applies");
        check(judged.collection[row] == (name < 0 ? -1 : own->number), "the number of the collection");
        check(judged.revision[row] == revision && judged.alphabet[row] == alphabet, "the revision, and its cells");
        check(judged.group[row] == group, "the number of the group");
        expected_refused += reason < 6;
    }
    check(refused == expected_refused, "how many are refused");
    for (int64_t name = 0; name < NAMES; name++)
        free((void *)named[name].revisions), free((void *)named[name].alphabets), free((void *)named[name].groups);
    free(codes), free(groups), free(revisions), free(cells), free(times), free(received), free(out);
}

static void check_all(void) { check_count(), check_spread(), check_judge(); }

int main(int argc, char **argv) { return repeat(argc, argv, check_all, "sets of uploads"); }
