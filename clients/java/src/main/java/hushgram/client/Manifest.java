package hushgram.client;

import static hushgram.client.Checks.need;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a device needs of a collection, checked: whatever passes keeps its ε.
 *
 * <pre>{@code Manifest manifest = Manifest.load(Paths.get("commute.json"), 1.0);}</pre>
 */
public final class Manifest {
    static final String REPORT = "8d51ac06d359ba88";
    static final String REPORT_BATCH = "f5c4f5368c715f19";

    private static final String FORMAT = "hushgram-manifest/1";
    private static final Set<String> MECHANISMS =
            new HashSet<>(
                    Arrays.asList(
                            "square_wave",
                            "square_wave_continuous",
                            "general_wave",
                            "randomized_response",
                            "local_hashing",
                            "seeded_hashing",
                            "hierarchy",
                            "haar",
                            "stochastic_rounding",
                            "piecewise"));
    private static final int LARGEST = 1 << 23;
    private static final long LARGEST_BUDGET = 1_000_000_000_000_000L;
    private static final long LONGEST_PERIOD_MS = 3650L * 86_400_000;
    private static final long MOST_SLOTS = 10_000;
    private static final int MOST_GROUPS = 10_000;

    private final String collection;
    private final Set<String> groups;
    private final Epsilon epsilon;
    final byte[] revision;
    final long sliceMs;
    final long sliceFirstMs;
    final long maxAgeMs;
    final long cost;
    final long slots;
    /** That of the collection first, which has the slots. */
    final List<Budget> budgets;

    final Law law;
    private final Places places;

    /** A manifest as a server sent it. One whose reports cost more than `mostEpsilon` is refused. */
    public static Manifest load(byte[] json, double mostEpsilon) {
        need(json.length <= LARGEST, "a manifest of more than 8 MiB");
        return of(Json.read(json), mostEpsilon);
    }

    /** A manifest from a file. */
    public static Manifest load(Path file, double mostEpsilon) throws IOException {
        need(Files.size(file) <= LARGEST, "a manifest of more than 8 MiB");
        return load(Files.readAllBytes(file), mostEpsilon);
    }

    static Manifest of(Object source, double mostEpsilon) {
        Manifest manifest = new Manifest(Checks.object(source, "manifest"));
        need(manifest.epsilon() <= mostEpsilon, "a manifest of a larger ε than the app allows");
        return manifest;
    }

    private Manifest(Map<?, ?> source) {
        need(FORMAT.equals(source.get("format")), "manifest: unknown format, known: " + FORMAT);
        need(MECHANISMS.contains(source.get("mechanism")), "manifest: unknown mechanism");
        Map<String, String> schemas = new HashMap<>();
        schemas.put("Report", REPORT);
        schemas.put("ReportBatch", REPORT_BATCH);
        need(schemas.equals(source.get("schemas")), "manifest: schemas that this client does not write");
        collection = Checks.label(source.get("collection"), "collection");
        revision = Checks.bytes(source.get("revision"), 8, "revision");
        groups = readGroups(Checks.list(source.get("groups"), "groups", 0, MOST_GROUPS));
        sliceMs = Checks.count(source, "slice_ms", 1);
        sliceFirstMs = Checks.count(source, "slice_first_ms", 0);
        maxAgeMs = Checks.count(source, "max_age_ms", 0);
        Map<?, ?> device = Checks.object(source.get("device"), "device");
        Checks.only(device, "epsilon cost budget slots total");
        double promise = Checks.real(device.get("epsilon"), "epsilon");
        need(0 < promise && promise <= 20, "manifest: ε is not from 0 to 20");
        epsilon = new Epsilon(promise);
        cost = Checks.count(device, "cost", 1, LARGEST_BUDGET);
        need(cost >= promise * 1e9 * (1 - 1e-9), "manifest: a report costs less than its ε");
        slots = Checks.count(device, "slots", 1, MOST_SLOTS);
        need(slots == 1 || device.get("budget") != null, "manifest: slots without a budget");
        budgets = new ArrayList<>();
        addBudget(collection, device.get("budget"));
        addBudget("", device.get("total"));
        law = new Law(Checks.object(source.get("law"), "law"), epsilon);
        Map<?, ?> domain = Checks.object(source.get("domain"), "domain");
        places = new Places(domain, Checks.object(source.get("locate"), "locate"), law.positions);
    }

    private static Set<String> readGroups(List<?> sources) {
        Set<String> groups = new HashSet<>();
        for (Object group : sources) {
            need(groups.add(Checks.label(group, "groups")), "groups: a label is listed twice");
        }
        return Collections.unmodifiableSet(groups);
    }

    private void addBudget(String account, Object source) {
        if (source != null) {
            Map<?, ?> budget = Checks.object(source, "budget");
            Checks.only(budget, "amount every_ms");
            long amount = Checks.count(budget, "amount", 0, LARGEST_BUDGET);
            budgets.add(new Budget(account, amount, Checks.count(budget, "every_ms", 1, LONGEST_PERIOD_MS)));
        }
    }

    /** The name that reports carry. */
    public String collection() {
        return collection;
    }

    /** The promise of one report. */
    public double epsilon() {
        return epsilon.value;
    }

    /** The labels that a report may carry. */
    public Set<String> groups() {
        return groups;
    }

    /** The position of a value; refuses what is not finite. */
    long position(double value) {
        return places.position(value);
    }

    long cell(long position, Draws draws) {
        return law.cell(position, draws);
    }

    void checkGroup(String group) {
        need(group == null || groups.contains(group), "a group that the manifest does not list");
    }

    /** The beginning of the slice that a time lies in: a report says no more of its time than that. */
    long cut(long milliseconds) {
        need(-Checks.EXACT <= milliseconds && milliseconds <= Checks.EXACT, "a time far from 1970");
        return Math.floorDiv(milliseconds - sliceFirstMs, sliceMs) * sliceMs + sliceFirstMs;
    }
}
