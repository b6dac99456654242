/* Uploads counted by key in one pass: their cells, their reports, and when their events were. */

#include <stddef.h>
#include <stdint.h>

/* What is known of a key's events; an upload without a report is none. */
typedef struct {
    int64_t reports, uploads, first, last;
} Total;

/* An upload has a key, a time, and some of the cells, which stand end to end. `counts` has `width` places for each key;
   with a width of zero there are totals alone. Returns how many uploads were counted: fewer than there are where a key, a size or a cell
   is out of range. */
__attribute__((visibility("default")))
int64_t hushgram_count(const int64_t *key_of, const int64_t *event_time, const int64_t *sizes, int64_t uploads,
                       const int64_t *cells, int64_t all_cells, int64_t keys, int64_t width, int64_t *counts,
                       Total *totals) {
    for (int64_t key = 0; key < keys; key++) totals[key] = (Total){0, 0, INT64_MAX, INT64_MIN};
    int64_t at = 0;
    for (int64_t upload = 0; upload < uploads; upload++) {
        uint64_t key = (uint64_t)key_of[upload];
        int64_t size = sizes[upload], time = event_time[upload];
        if (key >= (uint64_t)keys || size < 0 || size > all_cells - at) return upload;
        if (!size) continue;
        Total *total = totals + key;
        total->reports += size;
        total->uploads++;
        if (time < total->first) total->first = time;
        if (time > total->last) total->last = time;
        if (!width) continue;
        int64_t *of_key = counts + (int64_t)key * width;
        for (int64_t end = at + size; at < end; at++) {
            if ((uint64_t)cells[at] >= (uint64_t)width) return upload;
            of_key[cells[at]]++;
        }
    }
    return uploads;
}
