package hushgram.client;

import static hushgram.client.Checks.need;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** How a position becomes a cell: a channel is drawn whatever the value is, then an outcome of it. */
final class Law {
    final long positions;
    final long cells;
    private final List<Channel> channels = new ArrayList<>();
    private final long[] shares;
    private final long sharesTotal;

    Law(Map<?, ?> source, Epsilon epsilon) {
        Checks.only(source, "positions cells shares channels");
        positions = Checks.whole(source.get("positions"), "positions", 2);
        cells = Checks.whole(source.get("cells"), "cells", 2);
        need(positions <= 1 << 26, "law: too many positions");
        need(cells <= Checks.EXACT, "law: too many cells");
        List<?> sources = Checks.list(source.get("channels"), "channels");
        need(sources.size() >= 1 && sources.size() <= 64, "law: 1 to 64 channels");
        long end = 0;
        for (Object one : sources) {
            Channel channel = new Channel(Checks.object(one, "channel"), positions, epsilon);
            need(channel.offset == end, "law: channels do not follow one another");
            need(channel.outcomes <= cells - end, "law: channels have more cells than the law");
            end += channel.outcomes;
            channels.add(channel);
        }
        need(end == cells, "law: channels have fewer cells than the law");
        Object given = source.get("shares");
        shares = given == null ? null : readShares(Checks.list(given, "shares"));
        need((shares == null ? 1 : shares.length) == channels.size(), "law: as many shares as channels");
        sharesTotal = shares == null ? 1 : sum(shares);
    }

    private static long[] readShares(List<?> sources) {
        long[] shares = new long[sources.size()];
        for (int i = 0; i < shares.length; i++) {
            shares[i] = Checks.whole(sources.get(i), "shares", 1);
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
