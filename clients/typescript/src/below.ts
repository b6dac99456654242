/** Draws a uniform integer from 0 to its argument - 1. */
export type Below = (limit: bigint) => bigint;

/** By rejection, from the generator for cryptography: as many bits as limit - 1 has, until they are below. */
export const below: Below = (limit) => {
  const bits = (limit - 1n).toString(2).length;
  for (;;) {
    const drawn = BigInt.asUintN(bits, crypto.getRandomValues(new BigUint64Array(1))[0]!);
    if (drawn < limit) return drawn;
  }
};
