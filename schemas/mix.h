/* One number of two, for hash tables whose senders must not know where anything stands. */

#ifndef HUSHGRAM_MIX_H
#define HUSHGRAM_MIX_H

#include <stdint.h>

__extension__ typedef unsigned __int128 Product;

/* Both halves of the product: of the lower one alone, low bits depend on low bits only. */
static uint64_t mix(uint64_t one, uint64_t other) {
    Product product = (Product)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
