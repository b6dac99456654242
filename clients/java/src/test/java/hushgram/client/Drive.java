package hushgram.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A device that does what it is told, one JSON object a line, for tests of its storage: each request opens the folder anew,
 * as after a restart, at a time of its own.
 */
public final class Drive {
    private final Map<?, ?> request;

    private Drive(Map<?, ?> request) {
        this.request = request;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, "US-ASCII");
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Object answer;
            try {
                answer = Collections.singletonMap("done", new Drive((Map<?, ?>) Json.read(line)).run());
            } catch (RefusedException | IOException error) {
                answer = Collections.singletonMap("failed", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            answers.print(Json.write(answer) + "\n");
            answers.flush();
        }
    }

    private Object run() throws Exception {
        switch (text("do")) {
            case "load":
                return Manifest.load(path("path"), Double.parseDouble(text("most"))).collection();
            case "report":
                return Checks.hexadecimal(device().report(Double.parseDouble(text("value")), text("group")));
            case "batch":
                return Checks.hexadecimal(device().batch(values(), text("group")));
            case "submit":
                device().submit(Double.parseDouble(text("value")), text("group"));
                return true;
            case "submit many":
                return many();
            case "submit in threads":
                return inThreads();
            case "waiting":
                return store().waiting();
            case "send":
                return store().send(new HttpSender(text("url"), 60_000));
            case "wait":
                return Store.waitMs(text("header"), (Long) request.get("now"));
            case "without a store":
                return Checks.hexadecimal(new Device(manifest(), null).report(1.0, null));
            case "fill":
                return fill();
            case "free":
                return Files.deleteIfExists(path("path"));
            default:
                throw new IllegalArgumentException(text("do"));
        }
    }

    private String text(String name) {
        return (String) request.get(name);
    }

    private Path path(String name) {
        return Paths.get(text(name));
    }

    private double[] values() {
        return ((List<?>) request.get("values")).stream().mapToDouble(value -> Double.parseDouble((String) value)).toArray();
    }

    private Manifest manifest() {
        return Manifest.of(request.get("manifest"), Double.POSITIVE_INFINITY);
    }

    private Store store() throws IOException {
        return new Store(path("folder"), () -> (Long) request.get("now"));
    }

    private Device device() throws IOException {
        return new Device(manifest(), store());
    }

    /** Tries to submit this many reports; how many were granted. */
    private long many() throws IOException {
        Device device = device();
        long granted = 0;
        for (long i = 0; i < (Long) request.get("times"); i++) {
            try {
                device.submit(1.0, null);
                granted++;
            } catch (OverBudgetException refused) {
                // the next one, too
            }
        }
        return granted;
    }

    private long inThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            List<Callable<Long>> work = new ArrayList<>(Collections.nCopies(4, this::many));
            long granted = 0;
            for (Future<Long> each : threads.invokeAll(work)) {
                granted += each.get();
            }
            return granted;
        } finally {
            threads.shutdown();
        }
    }

    /** Takes what room the disk has, to the last bytes. */
    private Object fill() throws IOException {
        try (OutputStream file = Files.newOutputStream(path("path"))) {
            while (true) {
                file.write(new byte[512]);
            }
        } catch (IOException full) {
            return full.getMessage();
        }
    }
}
