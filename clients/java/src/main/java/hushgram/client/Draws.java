package hushgram.client;

import java.security.SecureRandom;

/** Where random integers come from. */
interface Draws {
    /** A uniform integer from 0 to limit - 1. */
    long below(long limit);

    /** The generator for cryptography of the operating system. */
    Draws SECURE = new Secure();

    final class Secure implements Draws {
        private static final SecureRandom RANDOM = new SecureRandom();

        private Secure() {}

        /** As many bits as limit - 1 has, and again if the result is not below the limit: every result is as likely. */
        @Override
        public long below(long limit) {
            if (limit < 1) {
                throw new IllegalArgumentException("nothing is below " + limit);
            }
            int spare = Long.numberOfLeadingZeros(limit - 1);
            if (spare == 64) {
                return 0; // a shift by 64 would be one by 0
            }
            while (true) {
                long drawn = RANDOM.nextLong() >>> spare;
                if (drawn < limit) {
                    return drawn;
                }
            }
        }

        static byte[] id() {
            byte[] id = new byte[16];
            RANDOM.nextBytes(id);
            return id;
        }
    }
}
