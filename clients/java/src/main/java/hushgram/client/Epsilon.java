package hushgram.client;

import java.math.BigInteger;

/** The promise of one report, and whether weights keep it, decided in integers: no platform's `exp` matters. */
final class Epsilon {
    private static final int BITS = 128;

    final double value;
    private final BigInteger exponential;

    /** From 0 to 20, which {@link Manifest} has checked. */
    Epsilon(double value) {
        this.value = value;
        this.exponential = exponentialFromBelow(value);
    }

    boolean allows(long p, long q) {
        return BigInteger.valueOf(p).shiftLeft(BITS).compareTo(BigInteger.valueOf(q).multiply(exponential)) <= 0;
    }

    /** At most e^ε·2^128: the exponential series, each term rounded down. ε = m / 2^k exactly, since it is a double. */
    private static BigInteger exponentialFromBelow(double epsilon) {
        int k = 0;
        double m = epsilon;
        for (; m != Math.rint(m); m *= 2) {
            k++;
        }
        BigInteger numerator = BigInteger.valueOf((long) m);
        BigInteger term = BigInteger.ONE.shiftLeft(BITS);
        BigInteger sum = BigInteger.ZERO;
        for (long i = 1; term.signum() > 0; i++) {
            sum = sum.add(term);
            term = term.multiply(numerator).shiftRight(k).divide(BigInteger.valueOf(i));
        }
        return sum;
    }
}
