package hushgram.client;

import static hushgram.client.Checks.need;

import java.io.IOException;

/**
 * The reports of one collection from one device.
 *
 * <pre>{@code
 * Store store = new Store(Paths.get("hushgram"));
 * Device device = new Device(Manifest.load(Paths.get("commute.json"), 1.0), store);
 * device.submit(37.5, "DE");                                          // perturbed, counted against the budget, and queued
 * store.send(new HttpSender("https://example.org/v1/reports"));       // now or later, as often as it takes
 * }</pre>
 *
 * <p>A RefusedException or an IOException means that there is no report.
 */
public final class Device {
    private final Manifest manifest;
    private final Store store;

    /** The store counts what is spent; a manifest with a budget is refused without one. */
    public Device(Manifest manifest, Store store) {
        need(store != null || manifest.budgets.isEmpty(), "a manifest with a budget, and no store to count in");
        this.manifest = manifest;
        this.store = store;
    }

    private Device(Manifest manifest) {
        this.manifest = manifest;
        this.store = null;
    }

    /** For {@link Conform}, which asks a ledger of its own. */
    static Device withoutStore(Manifest manifest) {
        return new Device(manifest);
    }

    /** One report as a message, to be sent by the app, as often as it takes, but never drawn again. The group may be null. */
    public byte[] report(double value, String group) throws IOException {
        return report(value, group, now());
    }

    private byte[] report(double value, String group, long now) throws IOException {
        long[] cells = draw(new double[] {value}, group, now);
        return Messages.report(manifest, cells[0], group, now, Draws.Secure.id());
    }

    /** A report for each value in one message, at the cost of as many. */
    public byte[] batch(double[] values, String group) throws IOException {
        need(values.length > 0, "a batch of no values");
        long now = now();
        return Messages.batch(manifest, draw(values, group, now), group, now, Draws.Secure.id());
    }

    /** One report, into the queue of the store. */
    public void submit(double value, String group) throws IOException {
        need(store != null, "a queue needs a store");
        store.hold(
                () -> {
                    store.needRoom();
                    long now = now();
                    store.put(report(value, group, now), manifest.cut(now) + manifest.maxAgeMs);
                    return null;
                });
    }

    /** What may be refused is refused first; then the budget; then the draw. */
    private long[] draw(double[] values, String group, long now) throws IOException {
        manifest.checkGroup(group);
        manifest.cut(now);
        long[] drawn = new long[values.length];
        for (int i = 0; i < values.length; i++) {
            drawn[i] = manifest.position(values[i]);
        }
        if (store != null) {
            store.spend(manifest, values.length, now, Draws.SECURE);
        }
        for (int i = 0; i < values.length; i++) {
            drawn[i] = manifest.cell(drawn[i], Draws.SECURE);
        }
        return drawn;
    }

    private long now() {
        long now = store != null ? store.now() : System.currentTimeMillis();
        need(now >= 0, "a clock before 1970");
        return now;
    }
}
