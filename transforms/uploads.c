/* Columns of uploads put in order by shard of id, each in as few bytes as its numbers take. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINED static inline __attribute__((always_inline))

/* The last 16 bits of an id, which are random, say its shard. Their rest is found by two products, since a division is
   slow: `inverse` is 2^32 over `shards`, rounded up, which is exact for so few bits. */
INLINED uint32_t shard_of(const uint64_t *ids, int64_t row, uint32_t shards, uint32_t inverse) {
    uint32_t fraction = inverse * (uint16_t)ids[2 * row + 1];
    return (uint32_t)((uint64_t)fraction * shards >> 32);
}

/* Uploads in the order of their shards, and where in it each shard ends. Of shards there are 65535 at most. */
__attribute__((visibility("default")))
void hushgram_order(const uint64_t *ids, int64_t uploads, uint16_t shards, uint32_t *order, int64_t *ends) {
    uint32_t inverse = UINT32_MAX / shards + 1;
    for (int64_t shard = 0; shard < shards; shard++) ends[shard] = 0;
    for (int64_t row = 0; row < uploads; row++) ends[shard_of(ids, row, shards, inverse)]++;
    int64_t start = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        int64_t size = ends[shard];
        ends[shard] = start;
        start += size;
    }
    for (int64_t row = 0; row < uploads; row++) order[ends[shard_of(ids, row, shards, inverse)]++] = (uint32_t)row;
}

/* Lowest byte first; where that is the machine's own order, and the width is constant, it is one store. */
INLINED uint8_t *put(uint8_t *place, uint64_t number, int width) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(place, &number, (size_t)width);
#else
    for (int byte = 0; byte < width; byte++) place[byte] = (uint8_t)(number >> 8 * byte);
#endif
    return place + width;
}

INLINED void spread(const uint64_t *restrict numbers, const int64_t *restrict starts, const int64_t *restrict sizes,
                    uint64_t least, int width, const uint32_t *restrict order, const int64_t *ends, int64_t shards,
                    uint8_t **places) {
    int64_t at = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        uint8_t *restrict place = places[shard];
        int64_t end = ends[shard];
        if (!starts)
            for (; at < end; at++) place = put(place, numbers[order[at]] - least, width);
        else
            for (; at < end; at++)
                for (int64_t next = 0; next < sizes[order[at]]; next++)
                    place = put(place, numbers[starts[order[at]] + next] - least, width);
        places[shard] = place;
    }
}

/* Puts how far the numbers of uploads are above the least, in `width` bytes each, where those of their shard go on:
   `places`, which move behind them. An upload has as many numbers as `sizes` says, from `starts` on; where these are
   NULL, it has one. */
__attribute__((visibility("default")))
void hushgram_spread(const uint64_t *numbers, const int64_t *starts, const int64_t *sizes, uint64_t least, int width,
                     const uint32_t *order, const int64_t *ends, int64_t shards, uint8_t **places) {
    /* A loop for each width, in which it is a constant. */
    if (width == 1) spread(numbers, starts, sizes, least, 1, order, ends, shards, places);
    if (width == 2) spread(numbers, starts, sizes, least, 2, order, ends, shards, places);
    if (width == 4) spread(numbers, starts, sizes, least, 4, order, ends, shards, places);
    if (width == 8) spread(numbers, starts, sizes, least, 8, order, ends, shards, places);
}

/* The same of ids, as they are. */
__attribute__((visibility("default")))
void hushgram_spread_ids(const uint64_t *restrict ids, const uint32_t *order, const int64_t *ends, int64_t shards,
                         uint8_t **places) {
    int64_t at = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        uint8_t *restrict place = places[shard];
        for (int64_t end = ends[shard]; at < end; at++)
            place = put(put(place, ids[2 * (int64_t)order[at]], 8), ids[2 * (int64_t)order[at] + 1], 8);
        places[shard] = place;
    }
}
