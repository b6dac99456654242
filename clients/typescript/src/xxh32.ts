/** xxHash of 32 bits, by its steps for short inputs: for fewer than 16 characters of ASCII it is xxHash itself. */
export function xxh32(text: string, seed: number): number {
  const length = text.length;
  let acc = seed + 374761393 + length;
  const mix = (word: number, into: number, turn: number, factor: number): void => {
    acc += Math.imul(word, into);
    acc = Math.imul((acc << turn) | (acc >>> (32 - turn)), factor);
  };
  const at = (index: number): number => text.charCodeAt(index);
  let i = 0;
  for (; i + 4 <= length; i += 4)
    mix(at(i) + (at(i + 1) << 8) + (at(i + 2) << 16) + (at(i + 3) << 24), 3266489917, 17, 668265263);
  for (; i < length; i++) mix(at(i), 374761393, 11, 2654435761);
  acc = Math.imul(acc ^ (acc >>> 15), 2246822519);
  acc = Math.imul(acc ^ (acc >>> 13), 3266489917);
  return (acc ^ (acc >>> 16)) >>> 0;
}
