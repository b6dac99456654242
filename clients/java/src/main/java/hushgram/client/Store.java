package hushgram.client;

import static hushgram.client.Checks.need;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.DateTimeException;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.function.LongSupplier;

/**
 * What a device remembers, in a folder: what it has spent, its slots, and what it has yet to send.
 *
 * <p>Any number of threads and processes may share it. What cannot be written has not happened: an IOException, and no report.
 */
public final class Store {
    private final Path ledgerFile;
    /** Once there was a ledger, a missing one is not an empty one. */
    private final Path used;

    private final FolderLock lock;
    private final Queue queue;
    private final LongSupplier clock;

    /** A folder of the app's own, which is made if it is not there. */
    public Store(Path folder) throws IOException {
        this(folder, System::currentTimeMillis);
    }

    /** With a clock of milliseconds since 1970. */
    public Store(Path folder, LongSupplier clock) throws IOException {
        Files.createDirectories(folder);
        this.clock = clock;
        lock = new FolderLock(folder);
        queue = new Queue(folder);
        ledgerFile = folder.resolve("ledger");
        used = folder.resolve("used");
    }

    long now() {
        return clock.getAsLong();
    }

    /** What runs in it takes turns with all that share the folder. */
    <T> T hold(FolderLock.Action<T> action) throws IOException {
        return lock.hold(action);
    }

    /** Takes the cost of the reports from all budgets; only when this returns may anything be drawn. */
    void spend(Manifest manifest, int reports, long now, Draws draws) throws IOException {
        if (manifest.budgets.isEmpty()) {
            return;
        }
        hold(
                () -> {
                    Ledger ledger = readLedger();
                    String before = ledger.write();
                    try {
                        ledger.spend(manifest, reports, now, draws);
                    } finally {
                        if (!ledger.write().equals(before)) { // also of a refusal, for which a slot was drawn
                            writeLedger(ledger);
                        }
                    }
                    return null;
                });
    }

    private Ledger readLedger() throws IOException {
        try {
            return Ledger.read(SealedFile.read(ledgerFile));
        } catch (NoSuchFileException missing) {
            if (Files.notExists(used)) {
                return new Ledger();
            }
            throw new IOException("the ledger is gone: nothing is known of what was spent", missing);
        } catch (RefusedException unknown) {
            throw new IOException("a ledger that this client did not write", unknown);
        }
    }

    private void writeLedger(Ledger ledger) throws IOException {
        SealedFile.write(ledgerFile, ledger.write().getBytes(StandardCharsets.US_ASCII));
        if (Files.notExists(used)) {
            SealedFile.write(used, new byte[0]);
        }
    }

    void needRoom() throws IOException {
        need(queue.size() < Queue.LIMIT, "a full queue: send first");
    }

    void put(byte[] message, long expires) throws IOException {
        queue.put(message, expires);
    }

    /** How many messages are yet to be sent. */
    public int waiting() throws IOException {
        return hold(queue::size);
    }

    /**
     * Posts what waits, oldest first, until all is sent or the server asks to wait; returns how many the server has kept.
     *
     * <p>Messages are sent as they were stored, so that one that arrives twice has one id and counts once. The lock is not
     * held meanwhile: nobody has to wait for a network.
     */
    public int send(Sender sender) throws IOException {
        int kept = 0;
        while (true) {
            Queue.Message next = hold(() -> queue.paused(now()) ? null : queue.first());
            if (next == null) {
                return kept;
            }
            boolean expired = next.expires < now();
            Sender.Answer answer = expired ? null : post(sender, next.bytes);
            hold(
                    () -> {
                        if (expired || answer.kept() || answer.neverTaken()) {
                            queue.delete(next);
                        } else {
                            queue.pause(now(), waitMs(answer.retryAfter, now()), Draws.SECURE);
                        }
                        return null;
                    });
            kept += !expired && answer.kept() ? 1 : 0;
        }
    }

    private static Sender.Answer post(Sender sender, byte[] message) {
        try {
            return sender.send(message);
        } catch (IOException none) {
            return new Sender.Answer(0, null);
        }
    }

    /** Milliseconds, from a number of seconds or a date; null if there is neither. */
    static Long waitMs(String retryAfter, long now) {
        String text = retryAfter == null ? "" : retryAfter.trim();
        if (text.matches("[0-9]+")) {
            return 1000 * Long.parseLong(text.substring(0, Math.min(9, text.length())));
        }
        try {
            long date = ZonedDateTime.parse(text, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant().toEpochMilli();
            return Math.max(0, date - now);
        } catch (DateTimeException | ArithmeticException neither) {
            return null;
        }
    }
}
