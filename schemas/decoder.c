/* Reports, and batches of them, decoded from Avro's binary encoding into columns.

   Plain C that asks for nothing: the caller brings every byte of memory, and says how much it is. Every read is checked
   against the end of its record before it is done. A record is followed to its end before anything of it is kept, so
   that what is damaged leaves no trace but its reason.

   Avro 1.11.1, "Binary encoding": a long is zigzag, seven bits a byte, the lowest first; bytes and strings stand behind
   their size; a union stands behind the number of its branch. */

#include <stdint.h>
#include <string.h>

#include "mix.h"

/* For what every field of every record needs: in calls the cursor stays in memory, and each step waits for the last. */
#define INLINED static inline __attribute__((always_inline))

enum { REVISION_BYTES = 8, ID_BYTES = 16 };

/* Why a record is damaged. The texts are in decoder.py, in this order. */
enum { FINE, CUT, NO_LONG, NO_SIZE, NO_BRANCH, NO_TEXT, NO_END };

/* The distinct texts of a column: where in the data each stands, and by row which it is. A null has the size -1. */
typedef struct {
    int64_t *codes;
    int64_t *starts;
    int64_t *sizes;
    uint64_t *firsts; /* the first eight bytes of each, to find most texts by */
    uint32_t *slots;  /* a hash table of codes, each one more than it is; zero is free */
    int64_t last_slot; /* their number less one; they are a power of two, at least twice as many as rows */
    int64_t count;
} Texts;

/* Of reports `cells` has the numbers themselves; of batches, as `ids` has, where in the data their bytes stand. */
typedef struct {
    uint64_t *revision;
    int64_t *event_time;
    int64_t *cells;
    int64_t *cells_sizes; /* NULL of reports */
    int64_t *ids;         /* NULL where records have no such field */
    int64_t *ids_sizes;
    uint64_t *id;
    uint8_t *has_id;
    Texts collection;
    Texts group;
} Columns;

typedef struct {
    const uint8_t *data;
    int64_t size;
} Bytes;

typedef struct {
    int64_t start, size;
} Span;

static const Span NOTHING = {0, -1};

typedef struct {
    Span collection, cells, group, ids;
    int64_t revision, cell, event_time, id; /* revision and id: where they stand; without an id -1 */
} Record;

typedef struct {
    const uint8_t *data;
    int64_t at, end;
    int damage; /* the first that was found; reading goes no further then */
} Cursor;

INLINED int64_t fail(Cursor *cursor, int damage) {
    if (!cursor->damage) cursor->damage = damage;
    cursor->at = cursor->end;
    return 0;
}

/* The place of the next `size` bytes, behind which the cursor goes. */
INLINED int64_t pass(Cursor *cursor, int64_t size) {
    if (size > cursor->end - cursor->at) return fail(cursor, CUT);
    int64_t start = cursor->at;
    cursor->at += size;
    return start;
}

/* A number in the bytes that it takes and no more: so equal records have equal bytes. */
INLINED int64_t read_long(Cursor *cursor) {
    uint64_t zigzag = 0;
    for (int shift = 0;; shift += 7) {
        if (cursor->at >= cursor->end) return fail(cursor, CUT);
        uint8_t byte = cursor->data[cursor->at++];
        if ((shift == 63 && byte > 1) || (shift && !byte)) return fail(cursor, NO_LONG);
        zigzag |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    }
}

INLINED Span read_bytes(Cursor *cursor) {
    int64_t size = read_long(cursor);
    if (size < 0) size = fail(cursor, NO_SIZE);
    int64_t start = pass(cursor, size);
    return (Span){start, size};
}

/* Whether the second branch of a union follows, of which the first is null. */
INLINED int read_branch(Cursor *cursor) {
    int64_t place = pass(cursor, 1);
    if (cursor->damage) return 0;
    uint8_t branch = cursor->data[place];
    if (branch & ~2) fail(cursor, NO_BRANCH);
    return branch == 2;
}

INLINED Record read_record(Cursor *cursor, int batch, int with_ids) {
    Record record = {.cells = NOTHING, .group = NOTHING, .ids = NOTHING, .cell = 0, .id = -1};
    record.collection = read_bytes(cursor);
    record.revision = pass(cursor, REVISION_BYTES);
    if (batch) record.cells = read_bytes(cursor);
    else record.cell = read_long(cursor);
    record.event_time = read_long(cursor);
    if (read_branch(cursor)) record.group = read_bytes(cursor);
    if (read_branch(cursor)) record.id = pass(cursor, ID_BYTES);
    if (with_ids && read_branch(cursor)) record.ids = read_bytes(cursor);
    return record;
}

/* UTF-8 as RFC 3629 has it: nothing longer than it must be, no surrogates, nothing beyond U+10FFFF. */
static int is_utf8(const uint8_t *text, int64_t size) {
    for (int64_t at = 0; at < size;) {
        uint8_t first = text[at++];
        if (first < 0x80) continue;
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || more > size - at) return 0;
        uint8_t second = text[at];
        uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (second < least || second > most) return 0;
        for (int place = 1; place < more; place++)
            if ((text[at + place] & 0xC0) != 0x80) return 0;
        at += more;
    }
    return 1;
}

static uint64_t big_endian(const uint8_t *at) {
    return (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 | (uint64_t)at[3] << 32 |
           (uint64_t)at[4] << 24 | (uint64_t)at[5] << 16 | (uint64_t)at[6] << 8 | (uint64_t)at[7];
}

/* Up to eight bytes of a text, from a place on, as a number. */
static uint64_t word(const Bytes *bytes, int64_t at, int64_t end) {
    int64_t count = end - at < 8 ? end - at : 8;
    if (count <= 0) return 0;
    if (at <= bytes->size - 8) return big_endian(bytes->data + at) >> (64 - 8 * count);
    uint64_t number = 0;
    for (int64_t place = 0; place < count; place++) number = number << 8 | bytes->data[at + place];
    return number;
}

/* Each word meets a secret number before it is multiplied by another: what a change of a text does to its hash depends
   on both, so that whoever chooses the texts, and knows neither, cannot choose which of them collide. */
static uint64_t hash(const Bytes *bytes, Span text, uint64_t first, const uint64_t *secret) {
    uint64_t mixed = mix(first ^ secret[0], (uint64_t)text.size ^ secret[1]);
    for (int64_t at = text.start + 8; at < text.start + text.size; at += 8)
        mixed = mix(word(bytes, at, text.start + text.size) ^ secret[0], mixed ^ secret[1]);
    return mix(mixed ^ secret[0], secret[1]);
}

static int is_text(const Bytes *bytes, const Texts *texts, int64_t code, Span text, uint64_t first) {
    return texts->firsts[code] == first && texts->sizes[code] == text.size &&
           (text.size <= 8 ||
            !memcmp(bytes->data + texts->starts[code] + 8, bytes->data + text.start + 8, (size_t)text.size - 8));
}

/* The slot of a text, a free one if it was not seen before; NULL if it is no text. */
static uint32_t *find(const Bytes *bytes, const Texts *texts, Span text, uint64_t first, const uint64_t *secret) {
    for (uint64_t slot = hash(bytes, text, first, secret);; slot++) {
        uint32_t *found = texts->slots + (slot & (uint64_t)texts->last_slot);
        if (!*found) return text.size > 0 && !is_utf8(bytes->data + text.start, text.size) ? NULL : found;
        if (is_text(bytes, texts, (int64_t)*found - 1, text, first)) return found;
    }
}

/* The code of the text that was looked for: a new one if its slot is free. */
static int64_t code_of(Texts *texts, uint32_t *slot, Span text, uint64_t first) {
    if (!*slot) {
        texts->starts[texts->count] = text.start;
        texts->sizes[texts->count] = text.size;
        texts->firsts[texts->count] = first;
        *slot = (uint32_t)++texts->count;
    }
    return (int64_t)*slot - 1;
}

/* Whether the record's texts are such. Then it is kept as a row. */
static int keep(const Bytes *bytes, Columns *columns, int64_t row, const Record *record, const uint64_t *secret) {
    Texts *collections = &columns->collection, *groups = &columns->group;
    Span collection = record->collection, group = record->group;
    uint64_t first_of_collection = word(bytes, collection.start, collection.start + collection.size);
    uint64_t first_of_group = word(bytes, group.start, group.start + group.size);
    /* Most records are of the collection of the one before; of groups that is not so. */
    uint32_t before = row ? (uint32_t)collections->codes[row - 1] + 1 : 0;
    uint32_t *collection_slot = before && is_text(bytes, collections, before - 1, collection, first_of_collection)
                                    ? &before
                                    : find(bytes, collections, collection, first_of_collection, secret);
    uint32_t *group_slot = find(bytes, groups, group, first_of_group, secret);
    if (!collection_slot || !group_slot) return 0;
    collections->codes[row] = code_of(collections, collection_slot, collection, first_of_collection);
    groups->codes[row] = code_of(groups, group_slot, group, first_of_group);
    columns->revision[row] = big_endian(bytes->data + record->revision);
    columns->event_time[row] = record->event_time;
    columns->cells[row] = columns->cells_sizes ? record->cells.start : record->cell;
    if (columns->cells_sizes) columns->cells_sizes[row] = record->cells.size;
    if (columns->ids) {
        columns->ids[row] = record->ids.start;
        columns->ids_sizes[row] = record->ids.size;
    }
    columns->has_id[row] = record->id >= 0;
    columns->id[2 * row] = record->id < 0 ? 0 : big_endian(bytes->data + record->id);
    columns->id[2 * row + 1] = record->id < 0 ? 0 : big_endian(bytes->data + record->id + 8);
    return 1;
}

/* Decodes `count` records that stand end to end in `size` bytes, and returns how many of them are whole: they are the
   rows of the columns, which have room for `count`. `damage` has a byte for each record, FINE or the reason.

   With `ends`, each record has its own, rising to `size`, and a damaged one does not concern the others. Without, the
   first damage ends it all, since nobody knows where the next record begins; `size` bytes must be used up. */
__attribute__((visibility("default")))
int64_t hushgram_decode(const uint8_t *data, int64_t size, int64_t count, const int64_t *ends,
                        const uint64_t *secret, Columns *columns, uint8_t *damage) {
    const Bytes bytes = {data, size};
    Cursor cursor = {.data = data, .end = size};
    int64_t rows = 0;
    for (int64_t index = 0; index < count; index++) {
        if (ends) {
            cursor.at = index ? ends[index - 1] : 0;
            cursor.end = ends[index];
            cursor.damage = FINE;
        }
        Record record = read_record(&cursor, columns->cells_sizes != NULL, columns->ids != NULL);
        if (!cursor.damage && cursor.at < cursor.end && (ends || index == count - 1)) cursor.damage = NO_END;
        if (!cursor.damage && !keep(&bytes, columns, rows, &record, secret)) cursor.damage = NO_TEXT;
        damage[index] = (uint8_t)cursor.damage;
        if (!cursor.damage) rows++;
        else if (!ends) break;
    }
    return rows;
}
