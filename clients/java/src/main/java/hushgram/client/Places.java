package hushgram.client;

import static hushgram.client.Checks.need;

import java.util.List;
import java.util.Map;

/**
 * How a value becomes a position: double arithmetic, each operation rounded by itself, in the order of the contract.
 *
 * <p>From Java 17 on all arithmetic is strict; `strictfp` makes it so before. Java never fuses a multiplication with an
 * addition unless `Math.fma` is called.
 */
@SuppressWarnings("strictfp") // which compilers from 17 on call needless
final strictfp class Places {
    private static final int MOST_POINTS = 65_535;

    private final double low;
    private final double high;
    private final long positions;
    private final String method;
    private final boolean whole;
    private final double start;
    private final double length;
    private final double[] points;
    private final long steps;
    private final boolean halfEven;

    Places(Map<?, ?> domain, Map<?, ?> locate, long positions) {
        this.positions = positions;
        Checks.only(domain, "scale low high integer");
        need("linear".equals(domain.get("scale")) || "log".equals(domain.get("scale")), "domain: unknown scale");
        Checks.truth(domain.get("integer"), "integer");
        low = Checks.real(domain.get("low"), "low");
        high = Checks.real(domain.get("high"), "high");
        need(low < high, "domain: low is not below high");
        method = Checks.string(Checks.entry(locate, "method"), "method");
        boolean scale = method.equals("scale");
        boolean edges = method.equals("edges");
        need(scale || edges || method.equals("knots"), "locate: unknown method");
        Checks.only(locate, scale ? "method whole start length steps round" : edges ? "method edges" : "method knots steps round");
        points = scale ? new double[0] : readPoints(Checks.list(locate.get(method), method, edges ? 1 : 2, MOST_POINTS));
        need(!edges || points.length == positions - 1, "locate: edges and positions differ");
        whole = scale && Checks.truth(locate.get("whole"), "whole");
        start = scale ? Checks.real(locate.get("start"), "start") : 0;
        length = scale ? Checks.real(locate.get("length"), "length") : 1;
        need(length > 0, "locate: length");
        steps = edges ? positions : Checks.count(locate, "steps", 1);
        halfEven = "half_even".equals(locate.get("round"));
        need(edges || halfEven || scale && "down".equals(locate.get("round")), "locate: round");
        need(steps + (halfEven ? 1 : 0) == positions, "locate: steps and positions differ");
    }

    private static double[] readPoints(List<?> sources) {
        double[] points = new double[sources.size()];
        for (int i = 0; i < points.length; i++) {
            points[i] = Checks.real(sources.get(i), "locate");
            need(i == 0 || points[i - 1] < points[i], "locate: edges that do not rise");
        }
        need(Math.abs(points[points.length - 1] - points[0]) <= Double.MAX_VALUE, "locate: edges too far apart");
        return points;
    }

    long position(double value) {
        need(Math.abs(value) <= Double.MAX_VALUE, "a value that is not a finite number");
        double v = Math.min(Math.max(value, low), high);
        switch (method) {
            case "scale":
                return round(((whole ? Math.rint(v) : v) - start) / length * steps);
            case "edges":
                return pointsUpTo(v);
            default:
                int last = points.length - 1;
                int part = Math.min(Math.max(pointsUpTo(v) - 1, 0), last - 1);
                double share = (v - points[part]) / (points[part + 1] - points[part]);
                return round((part + share) / last * steps);
        }
    }

    /** The number of points that are at most v. `Arrays.binarySearch` would put -0.0 before 0.0. */
    private int pointsUpTo(double v) {
        int from = 0;
        int to = points.length;
        while (from < to) {
            int middle = (from + to) >>> 1;
            if (points[middle] <= v) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from;
    }

    private long round(double place) {
        double rounded = halfEven ? Math.rint(place) : Math.floor(place);
        return (long) Math.min(Math.max(rounded, 0), positions - 1);
    }
}
