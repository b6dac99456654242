package hushgram.client;

import static hushgram.client.Checks.need;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * One way to draw an outcome for a position. Integers only, checked when read: outcomes have weights from Q to P, P/Q is at
 * most e^ε, and the total is the same for every position. What passes the checks overflows nowhere.
 */
final class Channel {
    private static final String COMMON = "kind offset divisor P Q width others total";
    private static final Map<String, String> EXTRAS = extras();

    private final String kind;
    private final long offset;
    final long outcomes;
    private final long divisor;
    private final long p;
    private final long q;
    private final long width;
    private final long others;
    private final long total;
    private final Map<String, Long> extra = new HashMap<>();

    private static Map<String, String> extras() {
        Map<String, String> extras = new HashMap<>();
        extras.put("block", "");
        extras.put("wave", " ramp step");
        extras.put("coin", " steps");
        extras.put("hadamard", " rows");
        extras.put("linear_hash", " symbols digits functions");
        extras.put("xxh32", " symbols");
        return Collections.unmodifiableMap(extras);
    }

    Channel(Map<?, ?> source, long offset, long positions, Epsilon epsilon) {
        kind = Checks.string(Checks.entry(source, "kind"), "kind");
        String extras = EXTRAS.get(kind);
        need(extras != null, "law: unknown kind of channel");
        Checks.only(source, COMMON + extras);
        need(Long.toString(offset).equals(source.get("offset")), "law: channels do not follow one another");
        this.offset = offset;
        divisor = Checks.natural(source.get("divisor"), "divisor");
        p = Checks.natural(source.get("P"), "P");
        q = Checks.natural(source.get("Q"), "Q");
        width = Checks.natural(source.get("width"), "width");
        others = Checks.natural(source.get("others"), "others");
        total = Checks.natural(source.get("total"), "total");
        for (String name : extras.trim().split(" ")) {
            if (!name.isEmpty()) {
                extra.put(name, Checks.natural(source.get(name), name));
            }
        }
        need(p >= q, "law: P is less than Q");
        need(epsilon.allows(p, q), "law: P/Q is larger than e^ε");
        try {
            long sum = Math.addExact(Math.multiplyExact(width, p), Math.multiplyExact(others, q));
            need(total == sum, "law: total is not the sum of the weights");
            outcomes = countOutcomes((positions - 1) / divisor);
        } catch (ArithmeticException overflow) {
            throw new RefusedException("law: more than 63 bits");
        }
    }

    /** Positions go up to `most`. Below, width + others is at most the total: it does not overflow. */
    private long countOutcomes(long most) {
        boolean fits;
        long count;
        switch (kind) {
            case "block":
                fits = most <= others;
                count = width + others;
                break;
            case "wave":
                long step = get("step");
                fits = get("ramp") - 1 <= others - most && (width + others) % step == 0;
                count = (width + others) / step;
                break;
            case "coin":
                fits = width == 1 && others == 1 && most == get("steps");
                count = 2;
                break;
            case "hadamard":
                fits = width == 1 && others == 1 && Long.bitCount(get("rows")) == 1 && most / 2 < get("rows");
                count = Math.multiplyExact(2, get("rows"));
                break;
            case "linear_hash":
                fits = hashes() && get("digits") <= 18 && get("functions") == power() && most < get("functions");
                count = Math.multiplyExact(get("symbols"), get("functions"));
                break;
            default:
                fits = hashes();
                count = Math.multiplyExact(get("symbols"), 1L << 32);
        }
        boolean large = kind.equals("block") || kind.equals("wave") || kind.equals("coin");
        need(large || most < 1 << 16, "law: too many values to hash");
        need(fits, "law: the integers of a " + kind + " do not fit together");
        return count;
    }

    private boolean hashes() {
        return width == 1 && get("symbols") == others + 1;
    }

    private long power() {
        long power = 1;
        for (long i = 0; i < get("digits"); i++) {
            power = Math.multiplyExact(power, get("symbols"));
        }
        return power;
    }

    private long get(String name) {
        return extra.get(name);
    }

    /** The cell to report for a position. The order of draws is part of the contract. */
    long cell(long position, Draws draws) {
        return offset + draw(position / divisor, draws);
    }

    private long draw(long x, Draws draws) {
        switch (kind) {
            case "block":
                return favoured(x, draws);
            case "wave":
                return wave(x, draws);
            case "coin":
                return favoured(draws.below(get("steps")) < x ? 1 : 0, draws);
            case "hadamard":
                long row = draws.below(get("rows"));
                return 2 * row + favoured(1 - x % 2 ^ Long.bitCount(row & x / 2) % 2, draws);
            case "linear_hash":
                long function = draws.below(get("functions"));
                return function * get("symbols") + favoured(linearHash(function, x), draws);
            default:
                long seed = draws.below(1L << 32);
                long hash = xxh32(Long.toString(x).getBytes(StandardCharsets.US_ASCII), (int) seed);
                return seed * get("symbols") + favoured(hash % get("symbols"), draws);
        }
    }

    /** Outcomes from `start` on, `width` of them, have the weight P, the others Q. */
    private long favoured(long start, Draws draws) {
        long r = draws.below(total);
        if (r < width * p) {
            return start + r / p;
        }
        long other = (r - width * p) / q;
        return other < start ? other : other + width;
    }

    private long wave(long x, Draws draws) {
        long r = draws.below(total);
        long excess = p - q;
        if (r < width * excess) {
            return (x + r / excess + draws.below(get("ramp"))) / get("step");
        }
        return (r - width * excess) / q / get("step");
    }

    /** Digits of x are below 2^16 and symbols·functions is at most 2^53, so the sum is far below 2^63. */
    private long linearHash(long function, long x) {
        long symbols = get("symbols");
        long sum = 0;
        for (long i = 0; i < get("digits"); i++) {
            sum += function % symbols * (x % symbols);
            function /= symbols;
            x /= symbols;
        }
        return sum % symbols;
    }

    /** xxHash of 32 bits, of fewer than 16 bytes; int arithmetic is modulo 2^32. */
    static long xxh32(byte[] content, int seed) {
        int acc = seed + 374761393 + content.length;
        int at = 0;
        for (; at + 4 <= content.length; at += 4) {
            int word = content[at] & 255 | (content[at + 1] & 255) << 8 | (content[at + 2] & 255) << 16 | content[at + 3] << 24;
            acc = Integer.rotateLeft(acc + word * (int) 3266489917L, 17) * 668265263;
        }
        for (; at < content.length; at++) {
            acc = Integer.rotateLeft(acc + (content[at] & 255) * 374761393, 11) * (int) 2654435761L;
        }
        acc = (acc ^ acc >>> 15) * (int) 2246822519L;
        acc = (acc ^ acc >>> 13) * (int) 3266489917L;
        return (acc ^ acc >>> 16) & 0xFFFFFFFFL;
    }
}
