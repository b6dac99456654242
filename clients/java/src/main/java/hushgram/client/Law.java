package hushgram.client;

import static hushgram.client.Checks.need;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** How a position becomes a cell: a channel is drawn whatever the value is, then an outcome of it. */
final class Law {
    private static final int MOST_CHANNELS = 64;
    private static final long MOST_CELLS = 1L << 53;

    final long positions;
    final long cells;
    private final List<Channel> channels = new ArrayList<>();
    private final long[] shares;
    private final long sharesTotal;

    Law(Map<?, ?> source, Epsilon epsilon) {
        Checks.only(source, "positions cells shares channels");
        positions = Checks.natural(source.get("positions"), "positions");
        cells = Checks.natural(source.get("cells"), "cells");
        need(2 <= positions && positions <= 1 << 26, "law: 2 to 2^26 positions");
        need(2 <= cells && cells <= MOST_CELLS, "law: 2 to 2^53 cells");
        List<?> sources = Checks.list(source.get("channels"), "channels", 1, MOST_CHANNELS);
        long end = 0;
        for (Object one : sources) {
            Channel channel = new Channel(Checks.object(one, "channel"), end, positions, epsilon);
            need(channel.outcomes <= cells - end, "law: channels have more cells than the law");
            end += channel.outcomes;
            channels.add(channel);
        }
        need(end == cells, "law: channels have fewer cells than the law");
        Object given = source.get("shares");
        shares = given == null ? null : readShares(Checks.list(given, "shares", 1, MOST_CHANNELS));
        need((shares == null ? 1 : shares.length) == channels.size(), "law: as many shares as channels");
        sharesTotal = shares == null ? 1 : sum(shares);
    }

    private static long[] readShares(List<?> sources) {
        long[] shares = new long[sources.size()];
        for (int i = 0; i < shares.length; i++) {
            shares[i] = Checks.natural(sources.get(i), "shares");
        }
        return shares;
    }

    private static long sum(long[] shares) {
        try {
            long sum = 0;
            for (long share : shares) {
                sum = Math.addExact(sum, share);
            }
            return sum;
        } catch (ArithmeticException overflow) {
            throw new RefusedException("law: shares of more than 63 bits");
        }
    }

    long cell(long position, Draws draws) {
        int index = 0;
        if (shares != null) {
            long r = draws.below(sharesTotal);
            while (r >= shares[index]) {
                r -= shares[index++];
            }
        }
        return channels.get(index).cell(position, draws);
    }
}
