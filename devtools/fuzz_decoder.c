/* Damaged records thrown at the decoder, which is built with sanitizers: `python -m devtools.fuzz`.

   Every array is as long as it must be and not a byte longer, so that the address sanitizer sees the first access beyond
   its end. What the decoder returns is held against what it promises. */

#include "decoder.c"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz.h"

static Texts texts(int64_t count) {
    int64_t slots = 1;
    while (slots <= 2 * count) slots *= 2;
    Texts made = {memory(8 * count), memory(8 * count), memory(8 * count), memory(8 * count),
                  calloc((size_t)slots, 4), slots - 1, 0};
    return made;
}

static void release(Texts *texts) {
    free(texts->codes), free(texts->starts), free(texts->sizes), free(texts->firsts), free(texts->slots);
}

static void check_spans(int64_t size, const int64_t *starts, const int64_t *sizes, int64_t count, int64_t least) {
    for (int64_t row = 0; row < count; row++)
        check(sizes[row] == -1 ? least < 0 : starts[row] >= 0 && sizes[row] >= 0 && sizes[row] <= size - starts[row],
              "bytes stand in the data");
}

static void check_texts(int64_t size, const Texts *texts, int64_t rows, int64_t least) {
    check_spans(size, texts->starts, texts->sizes, texts->count, least);
    int64_t seen = 0;
    for (int64_t row = 0; row < rows; row++) {
        check(texts->codes[row] >= 0 && texts->codes[row] < texts->count, "a code is that of a text");
        check(texts->codes[row] <= seen, "texts are numbered in the order of their rows");
        seen += texts->codes[row] == seen;
    }
    check(seen == texts->count, "every text is that of a row");
}

/* Decodes, and returns how many records are whole. */
static int64_t decode(const uint8_t *data, int64_t size, int64_t count, const int64_t *ends, int kind) {
    const uint64_t secret[2] = {random64(), random64()};
    uint8_t *damage = memory(count);
    memset(damage, 0xEE, (size_t)count);
    Columns columns = {.revision = memory(8 * count), .event_time = memory(8 * count), .cells = memory(8 * count),
                       .cells_sizes = kind > 0 ? memory(8 * count) : NULL, .ids = kind > 1 ? memory(8 * count) : NULL,
                       .ids_sizes = kind > 1 ? memory(8 * count) : NULL, .id = memory(16 * count),
                       .has_id = memory(count), .collection = texts(count), .group = texts(count)};
    int64_t rows = hushgram_decode(data, size, count, ends, secret, &columns, damage);
    check(rows >= 0 && rows <= count, "no more rows than records");
    int64_t fine = 0;
    for (int64_t index = 0; index < (ends || rows == count ? count : rows + 1); index++) {
        check(damage[index] <= NO_END, "a reason for damage");
        fine += damage[index] == FINE;
    }
    check(fine == rows, "a row for each record that is whole");
    check_texts(size, &columns.collection, rows, 0);
    check_texts(size, &columns.group, rows, -1);
    if (kind > 0) check_spans(size, columns.cells, columns.cells_sizes, rows, 0);
    if (kind > 1) check_spans(size, columns.ids, columns.ids_sizes, rows, -1);
    for (int64_t row = 0; row < rows; row++) check(columns.has_id[row] <= 1, "an id, or none");
    free(columns.revision), free(columns.event_time), free(columns.cells), free(columns.cells_sizes);
    free(columns.ids), free(columns.ids_sizes), free(columns.id), free(columns.has_id), free(damage);
    release(&columns.collection), release(&columns.group);
    return rows;
}

static const uint8_t ODD[] = {0x00, 0x01, 0x02, 0x03, 0x7E, 0x7F, 0x80, 0x81, 0xC2, 0xED, 0xF4, 0xFE, 0xFF};

/* A copy with a few changes: bits, odd bytes, runs of them, pieces left out, put in, or taken from elsewhere. */
static uint8_t *change(const uint8_t *data, int64_t *size) {
    int64_t room = *size + 64, length = *size;
    uint8_t *made = memory(room);
    memcpy(made, data, (size_t)length);
    for (int64_t times = below(4); times > 0 && length; times--) {
        int64_t at = below(length), run = 1 + below(length - at < 12 ? length - at : 12);
        uint8_t odd = ODD[below((int64_t)sizeof ODD)];
        switch (below(6)) {
        case 0: made[at] ^= (uint8_t)(1u << below(8)); break;
        case 1: made[at] = odd; break;
        case 2: memset(made + at, odd, (size_t)run); break;
        case 3: memmove(made + at, made + at + run, (size_t)(length - at - run)), length -= run; break;
        case 4: memmove(made + at, made + below(length - run + 1), (size_t)run); break;
        default:
            if (run > room - length) break;
            memmove(made + at + run, made + at, (size_t)(length - at)), length += run;
            memset(made + at, odd, (size_t)run);
        }
    }
    if (!below(4)) length = below(length + 1);
    uint8_t *exact = memory(length);
    memcpy(exact, made, (size_t)length);
    free(made);
    *size = length;
    return exact;
}

/* Arguments: seconds, where random numbers start, and files: a kind (0, 1, 2), a count of records, and the records. */
int main(int argc, char **argv) {
    if (argc < 4) return 2;
    time_t end = time(NULL) + atol(argv[1]);
    state = strtoull(argv[2], NULL, 10);
    uint64_t runs = 0, whole = 0, damaged = 0;
    static uint8_t seed[1 << 20];
    do {
        FILE *file = fopen(argv[3 + below(argc - 3)], "rb");
        check(file != NULL, "a file of records");
        int64_t read = (int64_t)fread(seed, 1, sizeof seed, file);
        fclose(file);
        check(read >= 2, "a kind and a count");
        for (int times = 0; times < 1000; times++) {
            int64_t size = read - 2, count = seed[1] - below(3) + below(3);
            if (count < 0) count = 0;
            uint8_t *data = change(seed + 2, &size);
            int64_t rows = decode(data, size, count, NULL, seed[0]);
            int64_t *ends = memory(8 * count), before = 0;
            for (int64_t index = 0; index < count; index++)
                before = ends[index] = index == count - 1 ? size : before + below((size - before) / 2 + 1);
            if (count) rows += decode(data, size, count, ends, seed[0]);
            whole += (uint64_t)rows, damaged += (uint64_t)(2 * count - rows), runs++;
            free(ends), free(data);
        }
    } while (time(NULL) < end);
    printf("%llu inputs: %llu records whole, %llu not\n", (unsigned long long)runs, (unsigned long long)whole,
           (unsigned long long)damaged);
    return 0;
}
