/* Reports held against the collections that they name, row by row, in one pass. */

#include <stddef.h>
#include <stdint.h>

/* A collection that is named in the data. */
typedef struct {
    int64_t number;
    const uint64_t *revisions;
    const int64_t *alphabets; /* how many cells each revision has */
    int64_t many;             /* revisions */
    const int64_t *groups;    /* the number of each group by its code in the data; NO_GROUP where it has no such group */
    int64_t max_age;          /* in milliseconds; below zero no report is too old */
} Named;

enum { NO_GROUP = -2 };

/* Why a report is refused. Their names are in judging.py, in this order. */
enum { FINE = -1, UNKNOWN_COLLECTION, UNKNOWN_REVISION, CELL_OUT_OF_RANGE, UNKNOWN_GROUP, FROM_THE_FUTURE, TOO_OLD };

typedef struct {
    const int64_t *collection, *group; /* codes */
    const uint64_t *revision;
    const int64_t *cell; /* NULL of batches, whose cells are judged elsewhere */
    const int64_t *event_time, *received;
    int64_t receipts; /* 1 where each has its own, 0 where one is for all */
} Reports;

typedef struct {
    int64_t *collection, *revision, *group, *alphabet, *reason;
} Judged;

/* Times of receipt are far from the ends of their range; one that is not must do no harm. */
static int64_t sum(int64_t one, int64_t other) { return (int64_t)((uint64_t)one + (uint64_t)other); }

static int64_t find(const Named *named, uint64_t revision) {
    int64_t place = 0;
    while (place < named->many && named->revisions[place] != revision) place++;
    return place < named->many ? place : -1;
}

/* Finds the numbers of what each report names, -1 where it is not known, and the first reason to refuse it. `names` has
   by code the place of a collection in `named`, -1 for an unknown one. Returns how many are refused. */
__attribute__((visibility("default")))
int64_t hushgram_judge(const Reports *reports, int64_t rows, const int64_t *names, const Named *named,
                       int64_t future_allowed, int64_t earliest, const Judged *judged) {
    int64_t refused = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t name = names[reports->collection[row]], time = reports->event_time[row];
        const Named *collection = name < 0 ? NULL : named + name;
        int64_t revision = collection ? find(collection, reports->revision[row]) : -1;
        int64_t alphabet = revision < 0 ? 0 : collection->alphabets[revision];
        int64_t group = collection ? collection->groups[reports->group[row]] : -1;
        int64_t received = reports->received[row * reports->receipts];
        int64_t reason = FINE;
        if (!collection) reason = UNKNOWN_COLLECTION;
        else if (revision < 0) reason = UNKNOWN_REVISION;
        else if (reports->cell && (uint64_t)reports->cell[row] >= (uint64_t)alphabet) reason = CELL_OUT_OF_RANGE;
        else if (group == NO_GROUP) reason = UNKNOWN_GROUP;
        else if (time > sum(received, future_allowed)) reason = FROM_THE_FUTURE;
        else if (time < earliest) reason = TOO_OLD;
        else if (collection->max_age >= 0 && time < sum(received, -collection->max_age)) reason = TOO_OLD;
        judged->collection[row] = collection ? collection->number : -1;
        judged->revision[row] = revision;
        judged->group[row] = group;
        judged->alphabet[row] = alphabet;
        judged->reason[row] = reason;
        refused += reason != FINE;
    }
    return refused;
}
